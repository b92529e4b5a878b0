#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace baton {

// A file to which whole lines are appended, whatever happens: a line that could not be written
// completely is taken back. One process at a time (flock). Not thread-safe.
class LineFile final {
 public:
  // Goes on after the last whole line of an existing file. While another holds the lock it is tried
  // again a few times, with `wait` in between.
  static absl::StatusOr<LineFile> Open(const std::string& path,
                                       const std::function<void()>& wait = WaitAMoment);
  ~LineFile();
  LineFile(LineFile&& other) noexcept
      : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)), size_(other.size_) {}
  LineFile& operator=(LineFile&&) = delete;

  // `lines` ends with a newline. All of it is in the file afterwards, or nothing and an error.
  absl::Status Append(std::string_view lines);

  const std::string& path() const { return path_; }

 private:
  LineFile(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  static void WaitAMoment();
  absl::Status DropPartialLine();

  std::string path_;
  int fd_;
  int64_t size_ = 0;  // bytes of whole lines
};

// Writes `content` to `path` so that a reader sees the old or the new file, never a part.
absl::Status WriteWholeFile(const std::string& path, std::string_view content);

}  // namespace baton
