#include "common/model/packed/packed_folder.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/status.h"

namespace baton {
namespace {

constexpr mode_t kFolderMode = 0700;
constexpr mode_t kFileMode = 0600;
constexpr mode_t kOthers = 0077;

absl::Status SystemError(const std::string& path, int error) {
  const std::string message = absl::StrCat(path, ": ", std::strerror(error));
  return error == ENOENT ? absl::NotFoundError(message) : absl::UnavailableError(message);
}

// FAILED_PRECONDITION unless `file` is of this type, this user's, and closed to all others.
absl::Status CheckPrivate(int file, mode_t type, mode_t mode, const std::string& path) {
  struct stat info = {};
  if (fstat(file, &info) != 0) return SystemError(path, errno);
  const bool own = info.st_uid == geteuid() && (info.st_mode & kOthers) == 0;
  if (own && (info.st_mode & S_IFMT) == type) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrFormat(
      "%s is of user %d and has mode %o; expected user %d and mode %o: remove it, or name another "
      "--load-cache",
      path, info.st_uid, info.st_mode, geteuid(), type | mode));
}

}  // namespace

std::string_view UnfitFileSystem(int64_t type) {
  // The kernel gives the number in 32 bits, which some systems sign.
  switch (static_cast<uint32_t>(type)) {
    case TMPFS_MAGIC:
    case RAMFS_MAGIC:
      return "lies in memory, which files there would take though no worker runs";
    case NFS_SUPER_MAGIC:
    case SMB_SUPER_MAGIC:
    case SMB2_SUPER_MAGIC:
    case CIFS_SUPER_MAGIC:
      return "lies on another machine, which may take files away while they are mapped";
    default:
      return "";
  }
}

OwnedFile::~OwnedFile() {
  if (file_ >= 0) close(file_);
}

OwnedFile& OwnedFile::operator=(OwnedFile&& other) noexcept {
  std::swap(file_, other.file_);
  return *this;
}

absl::StatusOr<PackedFolder> PackedFolder::Open(const std::string& dir) {
  const std::string path = absl::StrCat(dir, "/packed-", geteuid());
  if (mkdir(path.c_str(), kFolderMode) != 0 && errno != EEXIST) {
    return absl::UnavailableError(absl::StrCat(path, ": ", std::strerror(errno)));
  }
  OwnedFile folder(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (folder.get() < 0)
    return absl::UnavailableError(absl::StrCat(path, ": ", std::strerror(errno)));
  BATON_RETURN_IF_ERROR(CheckPrivate(folder.get(), S_IFDIR, kFolderMode, path));
  return PackedFolder(path, std::move(folder));
}

absl::StatusOr<OwnedFile> PackedFolder::OpenFile(const std::string& name) const {
  // O_NONBLOCK: a pipe of this name does not hold the load up.
  OwnedFile file(
      openat(folder_.get(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (file.get() < 0) return SystemError(PathOf(name), errno);
  BATON_RETURN_IF_ERROR(CheckPrivate(file.get(), S_IFREG, kFileMode, PathOf(name)));
  return file;
}

absl::StatusOr<OwnedFile> PackedFolder::MakeFile(const std::string& name) const {
  const int flags = O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC;
  OwnedFile file(openat(folder_.get(), name.c_str(), flags, kFileMode));
  if (file.get() < 0)
    return absl::UnavailableError(absl::StrCat(PathOf(name), ": ", std::strerror(errno)));
  BATON_RETURN_IF_ERROR(CheckPrivate(file.get(), S_IFREG, kFileMode, PathOf(name)));
  return file;
}

absl::Status PackedFolder::Rename(const std::string& from, const std::string& to) const {
  if (renameat(folder_.get(), from.c_str(), folder_.get(), to.c_str()) == 0) {
    return absl::OkStatus();
  }
  return absl::UnavailableError(absl::StrCat(PathOf(to), ": ", std::strerror(errno)));
}

void PackedFolder::Remove(const std::string& name) const {
  unlinkat(folder_.get(), name.c_str(), 0);
}

int64_t PackedFolder::SizeOf(const std::string& name) const {
  struct stat info = {};
  return fstatat(folder_.get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0 ? info.st_size : -1;
}

absl::Status PackedFolder::CheckFileSystem() const {
  struct statfs info = {};
  if (fstatfs(folder_.get(), &info) != 0) return absl::OkStatus();
  const std::string_view reason = UnfitFileSystem(static_cast<int64_t>(info.f_type));
  if (reason.empty()) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat(path_, " ", std::string(reason), ": name a --load-cache on a disk"));
}

absl::Status PackedFolder::CheckRoom(int64_t bytes) const {
  constexpr int64_t kMostLeft = int64_t{1} << 30;
  struct statvfs info = {};
  if (fstatvfs(folder_.get(), &info) != 0) return absl::OkStatus();
  const auto block = static_cast<int64_t>(info.f_frsize);
  const int64_t left = std::min(kMostLeft, block * static_cast<int64_t>(info.f_blocks) / 20);
  const int64_t free = block * static_cast<int64_t>(info.f_bavail);
  if (free >= bytes + left) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(path_, ": ", free >> 20, " MiB are free; ",
                                             bytes >> 20, " are needed, and a cache leaves ",
                                             left >> 20));
}

absl::StatusOr<OwnedFile> PackedFolder::TryLock(const std::string& name) const {
  const int flags = O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC;
  OwnedFile lock(openat(folder_.get(), name.c_str(), flags, kFileMode));
  if (lock.get() < 0)
    return absl::UnavailableError(absl::StrCat(PathOf(name), ": ", std::strerror(errno)));
  if (flock(lock.get(), LOCK_EX | LOCK_NB) == 0) return lock;
  if (errno == EWOULDBLOCK) return absl::AbortedError(PathOf(name) + " is held by another load");
  return absl::UnavailableError(
      absl::StrCat(PathOf(name), ": it cannot be locked: ", std::strerror(errno)));
}

}  // namespace baton
