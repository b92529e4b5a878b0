#include "common/eos/line_source.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/eos/zstd_file.h"

namespace baton {
namespace {

constexpr size_t kPieceBytes = size_t{1} << 20;
static_assert(kPieceBytes > LineSource::kMaxLineBytes);

absl::Status CannotRead(const std::string& path, int error) {
  return absl::ErrnoToStatus(error, absl::StrCat("cannot read ", path));
}

}  // namespace

absl::StatusOr<LineSource> LineSource::Open(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return CannotRead(path, errno);
  LineSource source(path, fd);
  struct stat info {};
  if (fstat(fd, &info) != 0) return CannotRead(path, errno);
  if (S_ISDIR(info.st_mode)) return CannotRead(path, EISDIR);
  source.regular_ = S_ISREG(info.st_mode);
  if (source.regular_ && source.IsCompressed()) {
    source.zstd_ = std::make_unique<ZstdReader>(fd, path);
    source.regular_ = false;
  }
  return source;
}

bool LineSource::IsCompressed() const {
  char begin[4];
  const ssize_t n = pread(fd_, begin, sizeof(begin), 0);
  return path_.ends_with(".zst") || (n > 0 && ZstdReader::IsFrame(begin, static_cast<size_t>(n)));
}

LineSource::LineSource(std::string path, int fd) : path_(std::move(path)), fd_(fd) {
  buffer_.resize(kPieceBytes);
}

LineSource::~LineSource() {
  if (fd_ >= 0) close(fd_);
}

LineSource::LineSource(LineSource&& other) noexcept
    : path_(std::move(other.path_)),
      fd_(std::exchange(other.fd_, -1)),
      regular_(other.regular_),
      zstd_(std::move(other.zstd_)),
      buffer_(std::move(other.buffer_)),
      begin_(other.begin_),
      filled_(other.filled_),
      searched_(other.searched_),
      offset_(other.offset_),
      whole_(other.whole_),
      line_number_(other.line_number_),
      skipping_(other.skipping_) {}

absl::StatusOr<bool> LineSource::Fill() {
  const size_t before = filled_ - begin_;
  std::memmove(buffer_.data(), buffer_.data() + begin_, before);
  begin_ = 0;
  filled_ = searched_ = before;
  if (regular_ && skipping_) {
    // What was dropped of a line that is too long is not read again, for it may be the whole file;
    // only the size tells that it was taken back.
    BATON_ASSIGN_OR_RETURN(const int64_t size, Size());
    if (size < offset_) skipping_ = false;
  }
  if (!regular_ || skipping_) return Read();
  // The writer may have taken the beginning of the line back and written another one in its place.
  // What follows belongs only to a beginning that is read together with it.
  filled_ = searched_ = 0;
  offset_ = whole_;
  BATON_RETURN_IF_ERROR(Read().status());
  return filled_ > before || rest().find('\n') != std::string_view::npos;
}

absl::StatusOr<bool> LineSource::Read() {
  char* const to = buffer_.data() + filled_;
  const size_t room = buffer_.size() - filled_;
  if (zstd_ != nullptr) {
    BATON_ASSIGN_OR_RETURN(const size_t n, zstd_->Read(to, room));
    filled_ += n;
    offset_ += static_cast<int64_t>(n);
    return n > 0;
  }
  while (true) {
    const ssize_t n = regular_ ? pread(fd_, to, room, offset_) : read(fd_, to, room);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return CannotRead(path_, errno);
    filled_ += static_cast<size_t>(n);
    offset_ += n;
    return n > 0;
  }
}

absl::StatusOr<int64_t> LineSource::Size() const {
  struct stat info {};
  if (fstat(fd_, &info) != 0) return CannotRead(path_, errno);
  return info.st_size;
}

absl::StatusOr<LineSource::Got> LineSource::Next(std::string_view* line) {
  while (true) {
    const char* from = buffer_.data() + searched_;
    const auto* newline = static_cast<const char*>(std::memchr(from, '\n', filled_ - searched_));
    if (newline != nullptr) {
      const auto end = static_cast<size_t>(newline - buffer_.data());
      *line = std::string_view(buffer_).substr(begin_, std::min(end - begin_, kMaxLineBytes));
      const bool too_long = std::exchange(skipping_, false) || end - begin_ > kMaxLineBytes;
      begin_ = searched_ = end + 1;
      whole_ = offset_ - static_cast<int64_t>(filled_ - begin_);
      ++line_number_;
      return too_long ? Got::kTooLong : Got::kLine;
    }
    searched_ = filled_;
    // Of a line that is too long already, only its beginning is kept.
    if (filled_ - begin_ > kMaxLineBytes) {
      skipping_ = true;
      filled_ = searched_ = begin_ + kMaxLineBytes;
    }
    BATON_ASSIGN_OR_RETURN(const bool more, Fill());
    if (!more) return Got::kEnd;
  }
}

bool LineSource::HasWriter() const {
  // A shared lock that is had at once says that nobody holds the exclusive one.
  if (flock(fd_, LOCK_SH | LOCK_NB) != 0) return errno == EWOULDBLOCK;
  flock(fd_, LOCK_UN);
  return false;
}

LineSource::Change LineSource::Look() const {
  struct stat read {};
  struct stat there {};
  if (fstat(fd_, &read) != 0) return Change::kNone;
  if (regular_ && read.st_size < whole_) return Change::kTruncated;
  // While a log is moved away, there may be no file for a moment.
  if (stat(path_.c_str(), &there) != 0) return Change::kNone;
  const bool same = read.st_dev == there.st_dev && read.st_ino == there.st_ino;
  return same ? Change::kNone : Change::kReplaced;
}

}  // namespace baton
