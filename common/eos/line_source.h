#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace baton {

class ZstdReader;

// Reads a file line by line, and on where it grew when it was at its end. The beginning of a line
// that its writer takes back, as LineFile does, is forgotten. It holds one piece of the file in
// memory, whatever the file's size. A file of zstd frames is read as what they hold; one that was
// cut off or damaged is DATA_LOSS at that place. Not thread-safe.
class LineSource final {
 public:
  static constexpr size_t kMaxLineBytes = size_t{64} << 10;

  static absl::StatusOr<LineSource> Open(const std::string& path);
  ~LineSource();
  LineSource(LineSource&& other) noexcept;
  LineSource& operator=(LineSource&&) = delete;

  enum class Got {
    kLine,
    kTooLong,  // a line of more than kMaxLineBytes, of which only the beginning is given
    kEnd,      // there is no whole line now; later there may be
  };
  // `line`, without its newline, holds until the next call. An error is one of the disk.
  absl::StatusOr<Got> Next(std::string_view* line);

  // The number of the line that Next gave last; the first is 1.
  int64_t line_number() const { return line_number_; }
  // After kEnd: what stands behind the last newline, the beginning of a line.
  std::string_view rest() const {
    return std::string_view(buffer_).substr(begin_, filled_ - begin_);
  }

  // Whether a process holds the lock that a writer of lines takes (LineFile).
  bool HasWriter() const;

  enum class Change { kNone, kReplaced, kTruncated };
  // What happened to the file under its path: another file is there now, or this one became shorter
  // than the whole lines that were read of it.
  Change Look() const;

  const std::string& path() const { return path_; }

 private:
  LineSource(std::string path, int fd);
  // Reads on, with the line that is begun. False when there is no more of it than before.
  absl::StatusOr<bool> Fill();
  // Reads from offset_ on behind what is in the buffer. False at the end of the file.
  absl::StatusOr<bool> Read();
  absl::StatusOr<int64_t> Size() const;
  // Whether it is a regular file with the name or the first bytes of a compressed one.
  bool IsCompressed() const;

  std::string path_;
  int fd_;
  bool regular_ = false;              // a pipe, a device or a compressed file has no offsets
  std::unique_ptr<ZstdReader> zstd_;  // of a compressed file
  std::string buffer_;
  size_t begin_ = 0;     // of what was not given yet, in the buffer
  size_t filled_ = 0;    // bytes of the file in the buffer
  size_t searched_ = 0;  // up to here there is no newline after begin_
  int64_t offset_ = 0;   // in the file, of the end of what was read
  int64_t whole_ = 0;    // in the file, of the end of the last line that was given
  int64_t line_number_ = 0;
  bool skipping_ = false;  // inside a line that is too long
};

}  // namespace baton
