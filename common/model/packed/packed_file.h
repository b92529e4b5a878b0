#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/model/packed/packed_folder.h"
#include "kernels/packed_images.h"

namespace baton {

// A file of packed weights, mapped for reading, in huge pages where the file system has them. All
// processes that map it share its memory. It appears whole, and is replaced by another file, never
// changed; a process keeps the one that it has mapped. Immutable and thread-safe, but for
// NoteChecked.
class PackedFile final {
 public:
  // NOT_FOUND where there is none; FAILED_PRECONDITION where it holds something else than
  // `identity` says, or is not this user's alone; DATA_LOSS where it is damaged.
  static absl::StatusOr<std::unique_ptr<PackedFile>> Open(const PackedFolder& folder,
                                                          const std::string& name,
                                                          const std::string& identity);
  ~PackedFile();
  PackedFile(const PackedFile&) = delete;
  PackedFile& operator=(const PackedFile&) = delete;

  // The parts are valid as long as the file. DATA_LOSS where it lacks `name`.
  absl::StatusOr<kernels::PackedImage> Find(const std::string& name) const;
  // Brings all of it into memory, so that no step waits for a page. Progress is told in bytes.
  // DATA_LOSS where the disk does not give it.
  absl::Status Populate(absl::FunctionRef<void(int64_t done)> progress) const;
  // DATA_LOSS where a checksum does not hold.
  absl::Status CheckSums() const;
  // A note beside the file says that its checksums hold, and which copies of a checkpoint are known
  // to pack to it. Empty where there is none for this very file, as it is since it was last changed
  // in any way. Of many copies, the note keeps those that came last.
  std::optional<std::vector<std::string>> CheckedFor(const PackedFolder& folder) const;
  void NoteChecked(const PackedFolder& folder, std::span<const std::string> copies) const;

  const std::string& path() const { return path_; }
  // Changes whenever the file is changed or replaced.
  const std::string& state() const { return state_; }
  int64_t bytes() const { return static_cast<int64_t>(data_.size()); }

 private:
  struct Image {
    std::string form;
    std::vector<std::pair<uint64_t, uint64_t>> parts;  // begin, bytes
  };

  PackedFile(std::string path, std::string name) : path_(std::move(path)), name_(std::move(name)) {}
  absl::Status Map(int file, size_t bytes);
  // Whoever reads what the disk does not give would be killed, so this comes first.
  absl::Status BringIn(std::span<const std::byte> bytes) const;
  absl::Status ReadTail(const std::string& identity);
  absl::Status ReadJson(std::string_view text, const std::string& identity);
  absl::Status Damaged(std::string_view why) const;

  const std::string path_;
  const std::string name_;
  std::string state_;
  std::span<const std::byte> file_;
  std::span<const std::byte> data_;
  std::vector<uint32_t> sums_;  // of all pieces of the data
  absl::flat_hash_map<std::string, Image> images_;
};

// How many bytes a writer expects to write, and how long that may take in all.
struct WriteBudget {
  int64_t bytes = 0;
  base::Duration time = std::chrono::minutes(4);
};

// UNAVAILABLE where `written` bytes in `elapsed` mean that the whole would take longer than it may,
// which is not judged by the first twentieth of that time.
absl::Status CheckPace(const WriteBudget& budget, int64_t written, base::Duration elapsed);

// The system's calls that bring a written file to its disk and out of memory. Tests have others.
struct DiskCalls {
  std::function<int(int file, off64_t begin, off64_t bytes, unsigned flags)> sync_range =
      sync_file_range;
  std::function<int(int file)> sync = fsync;
  std::function<int(int file, off64_t begin, off64_t bytes, int advice)> advise = posix_fadvise;
};

// Writes a file of packed weights under another name, and renames it when it is whole. For whoever
// holds the lock of the file. Not thread-safe.
class PackedFileWriter final {
 public:
  // All fail with UNAVAILABLE, with path and reason, where the file cannot be written, as on a disk
  // that is full, or has no room for all that is expected, or is too slow.
  static absl::StatusOr<std::unique_ptr<PackedFileWriter>> Create(const PackedFolder& folder,
                                                                  const std::string& name,
                                                                  const std::string& identity,
                                                                  const WriteBudget& budget,
                                                                  DiskCalls disk = {});
  // A file that was not committed leaves nothing behind.
  ~PackedFileWriter();
  PackedFileWriter(const PackedFileWriter&) = delete;
  PackedFileWriter& operator=(const PackedFileWriter&) = delete;

  absl::Status Add(const std::string& name, const kernels::PackedImage& image);
  // Returns when the disk has the file, which may take a minute for a large one. Whoever reads it
  // then reads the disk, not what memory has of it.
  absl::Status Commit();
  // The name that a file has while it is written.
  static std::string TemporaryOf(const std::string& name) { return name + ".tmp"; }

 private:
  PackedFileWriter(const PackedFolder& folder, std::string name, std::string identity,
                   const WriteBudget& budget, DiskCalls disk, OwnedFile file);
  absl::Status Append(std::span<const std::byte> bytes);
  absl::Status AppendZeros(size_t bytes);
  // Writes what is staged, a piece or the last of the data.
  absl::Status Flush();
  absl::Status Write(const void* data, size_t bytes, int64_t offset) const;
  // Has the disk write what was flushed, and waits for what was flushed a while ago.
  absl::Status KeepDiskBusy() const;
  absl::Status SyncRange(int64_t bytes, unsigned flags) const;
  std::string Path() const;

  const PackedFolder& folder_;
  const std::string name_;
  const std::string identity_;
  const WriteBudget budget_;
  const DiskCalls disk_;
  const base::SteadyClock clock_;
  const base::Instant begin_ = clock_.Now();
  const OwnedFile file_;
  std::unique_ptr<std::byte[]> staging_;  // [kPieceBytes]
  size_t staged_ = 0;
  int64_t written_ = 0;  // bytes before those that are staged
  std::string sums_;     // eight hexadecimal digits for each piece
  std::string images_;   // of the JSON, each with a comma before it
  bool committed_ = false;
};

}  // namespace baton
