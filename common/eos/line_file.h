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
      : path_(std::move(other.path_)),
        fd_(std::exchange(other.fd_, -1)),
        regular_(other.regular_),
        size_(other.size_) {}
  LineFile& operator=(LineFile&&) = delete;

  // `lines` ends with a newline. All of it is in the file afterwards, or nothing and an error.
  absl::Status Append(std::string_view lines);

  // Gives the file the name `aside`, which nothing has, and goes on with an empty one. After an
  // error it goes on with the file that it has.
  absl::Status StartAnew(const std::string& aside);

  const std::string& path() const { return path_; }
  bool regular() const { return regular_; }  // not a pipe or a device
  int64_t size() const { return size_; }     // bytes of whole lines

 private:
  LineFile(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  static void WaitAMoment();
  absl::Status DropPartialLine();
  // Whether the file under the path is the one that is written.
  bool IsInPlace() const;

  std::string path_;
  int fd_;
  bool regular_ = false;
  int64_t size_ = 0;
};

}  // namespace baton
