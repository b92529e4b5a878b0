#pragma once

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace baton {

// The name that the links under `path` lead to, whether or not something is there. A name in /proc
// is the end of the way (IsInProc). With links that go in circles the result is one of them.
std::filesystem::path FollowLinks(std::filesystem::path path);

// Whether `path` is a name directly in a folder of /proc, as /proc/self/fd/1 and /dev/fd/1 are.
// What looks like a link there stands for an open file and cannot be replaced.
bool IsInProc(const std::filesystem::path& path);

// A file that takes the place of the one under a path when all of it is written, so that nobody
// sees a part. Until then it lies beside that one, under its name and a suffix. A link stays, and
// the file that it leads to is replaced. A pipe, a device or an open file (/dev/stdout,
// /proc/self/fd/N, /dev/fd/N) is written in place, since a rename would put a file where it stood.
// Errors name what is written. Not thread-safe.
class OutputFile final {
 public:
  static absl::StatusOr<std::unique_ptr<OutputFile>> Create(const std::string& path,
                                                            std::string_view suffix = ".tmp");
  // Removes what lies beside the path.
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  absl::Status Write(std::string_view bytes);
  absl::Status Flush();
  // Nothing may follow. After an error the path has what it had, unless it is written in place.
  absl::Status Finish();
  // Leaves what lies beside the path there, whether or not it is finished.
  void Keep() { keep_ = true; }

  bool in_place() const { return written_ == target_; }
  const std::string& written() const { return written_; }  // where the bytes go until Finish

 private:
  OutputFile(std::string path, std::string target, std::string written)
      : path_(std::move(path)), target_(std::move(target)), written_(std::move(written)) {}
  absl::Status CannotWrite() const;  // as errno says

  const std::string path_;
  const std::string target_;  // where its links lead
  const std::string written_;
  std::FILE* file_ = nullptr;
  bool keep_ = false;
};

// Whether an OutputFile writes there in place.
bool IsWrittenInPlace(const std::string& path);

// Replaces the file under `path` by one of these bytes. `suffix`: as above; what several processes
// replace needs one for each.
absl::Status WriteWholeFile(const std::string& path, std::string_view bytes,
                            std::string_view suffix = ".tmp");

}  // namespace baton
