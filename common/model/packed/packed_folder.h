#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace baton {

// An open file, closed with the object.
class OwnedFile final {
 public:
  explicit OwnedFile(int file = -1) : file_(file) {}
  ~OwnedFile();
  OwnedFile(OwnedFile&& other) noexcept : file_(std::exchange(other.file_, -1)) {}
  OwnedFile& operator=(OwnedFile&& other) noexcept;
  int get() const { return file_; }

 private:
  int file_;
};

// Why files on a file system of this type, the f_type of statfs, are not to be mapped and shared;
// empty if they may be.
std::string_view UnfitFileSystem(int64_t type);

// The folder of packed weights of one user inside a directory that several may share. Nobody else
// reads or writes it: what lies there is multiplied by as it is. Files of other users, or open to
// them, are not believed.
class PackedFolder final {
 public:
  // Makes it where there is none. FAILED_PRECONDITION where it is somebody else's or open to
  // others, UNAVAILABLE where it cannot be made or opened.
  static absl::StatusOr<PackedFolder> Open(const std::string& dir);

  // For messages.
  std::string PathOf(const std::string& name) const { return path_ + "/" + name; }

  // Opens a file to be read. NOT_FOUND where there is none, FAILED_PRECONDITION for what is no
  // file, somebody else's, or open to others.
  absl::StatusOr<OwnedFile> OpenFile(const std::string& name) const;
  // Opens an empty file to be written; what had this name is emptied.
  absl::StatusOr<OwnedFile> MakeFile(const std::string& name) const;
  absl::Status Rename(const std::string& from, const std::string& to) const;
  void Remove(const std::string& name) const;
  // -1 where there is none.
  int64_t SizeOf(const std::string& name) const;
  // UNAVAILABLE on a file system for which UnfitFileSystem has a reason.
  absl::Status CheckFileSystem() const;
  // Whether `bytes` more leave the file system some room, so that a cache fills no disk.
  absl::Status CheckRoom(int64_t bytes) const;
  // Takes the lock of that name, which is held until the file is closed, by whatever end of the
  // process. ABORTED while another process or thread holds it, UNAVAILABLE where there are no
  // locks.
  absl::StatusOr<OwnedFile> TryLock(const std::string& name) const;

 private:
  PackedFolder(std::string path, OwnedFile folder)
      : path_(std::move(path)), folder_(std::move(folder)) {}

  std::string path_;
  OwnedFile folder_;
};

}  // namespace baton
