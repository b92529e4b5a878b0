#include "common/eos/line_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace baton {
namespace {

absl::Status Failed(std::string_view what, const std::string& path, int error) {
  return absl::ErrnoToStatus(error, absl::StrCat("cannot ", std::string(what), " ", path));
}

constexpr int kLockTries = 10;

// A reader that asks whether there is a writer (LineSource::HasWriter) holds the lock itself for a
// moment and is gone by the next try; a writer is not.
bool LockForWriting(int fd, const std::function<void()>& wait) {
  for (int tries = 1; flock(fd, LOCK_EX | LOCK_NB) != 0; ++tries) {
    if (tries == kLockTries) return false;
    wait();
  }
  return true;
}

// Returns the bytes written before the first error, and that error or 0.
std::pair<int64_t, int> WriteAll(int fd, std::string_view bytes) {
  int64_t done = 0;
  while (done < static_cast<int64_t>(bytes.size())) {
    const ssize_t n = write(fd, bytes.data() + done, bytes.size() - static_cast<size_t>(done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return {done, errno};
    done += n;
  }
  return {done, 0};
}

}  // namespace

void LineFile::WaitAMoment() { absl::SleepFor(absl::Milliseconds(100) / kLockTries); }

absl::StatusOr<LineFile> LineFile::Open(const std::string& path,
                                        const std::function<void()>& wait) {
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (fd < 0) return Failed("open", path, errno);
  LineFile file(path, fd);
  struct stat info {};
  if (fstat(fd, &info) != 0) return Failed("examine", path, errno);
  // A device or a pipe has no end to go on from.
  if (!S_ISREG(info.st_mode)) return file;
  file.regular_ = true;
  // A writer that rotates its log lets go of a file that is no longer under this path.
  if (!LockForWriting(fd, wait) || !file.IsInPlace()) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, " is written by another process; give each its own file"));
  }
  if (fstat(fd, &info) != 0) return Failed("examine", path, errno);
  file.size_ = info.st_size;
  if (absl::Status dropped = file.DropPartialLine(); !dropped.ok()) return dropped;
  return file;
}

LineFile::~LineFile() {
  if (fd_ >= 0) close(fd_);
}

absl::Status LineFile::DropPartialLine() {
  const int64_t end = size_;
  char buffer[4096];
  while (size_ > 0) {
    const int64_t from = std::max<int64_t>(0, size_ - static_cast<int64_t>(sizeof(buffer)));
    const ssize_t n = pread(fd_, buffer, static_cast<size_t>(size_ - from), from);
    if (n <= 0) return Failed("read", path_, errno);
    const auto* newline = static_cast<const char*>(memrchr(buffer, '\n', static_cast<size_t>(n)));
    if (newline != nullptr) {
      size_ = from + (newline - buffer) + 1;
      break;
    }
    size_ = from;
  }
  if (size_ != end && ftruncate(fd_, size_) != 0) return Failed("truncate", path_, errno);
  return absl::OkStatus();
}

absl::Status LineFile::Append(std::string_view lines) {
  const auto [done, error] = WriteAll(fd_, lines);
  if (error == 0) {
    size_ += done;
    return absl::OkStatus();
  }
  // Readers must not see half a line; a device that cannot be truncated has no readers of lines.
  if (done > 0 && ftruncate(fd_, size_) != 0) size_ += done;
  return Failed("write", path_, error);
}

bool LineFile::IsInPlace() const {
  struct stat here {};
  struct stat there {};
  return fstat(fd_, &here) == 0 && stat(path_.c_str(), &there) == 0 &&
         here.st_dev == there.st_dev && here.st_ino == there.st_ino;
}

absl::Status LineFile::StartAnew(const std::string& aside) {
  // Somebody may have moved or removed it, and then nothing is to be moved aside.
  const bool in_place = IsInPlace();
  if (!in_place && access(path_.c_str(), F_OK) == 0) {
    return absl::FailedPreconditionError(
        absl::StrCat(path_, " is another file now, which is left as it is; move it away"));
  }
  // The new file is there, and locked, before the path is free, so that no other writer gets it.
  const std::string next = path_ + ".next";
  const int fd = open(next.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0644);
  if (fd < 0) return Failed("open", next, errno);
  absl::Status done;
  if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    done = Failed("lock", next, errno);
  } else if (in_place && std::rename(path_.c_str(), aside.c_str()) != 0) {
    done = Failed("rename to", aside, errno);
  } else if (std::rename(next.c_str(), path_.c_str()) != 0) {
    done = Failed("rename to", path_, errno);
    if (in_place) std::rename(aside.c_str(), path_.c_str());
  }
  if (!done.ok()) {
    unlink(next.c_str());
    close(fd);
    return done;
  }
  close(fd_);
  fd_ = fd;
  size_ = 0;
  return done;
}

}  // namespace baton
