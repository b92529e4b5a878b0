#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "tools/serve/child_process.h"
#include "tools/serve/line_reader.h"

namespace baton::planner {

// A program that was started, and what it has said so far.
class ChildRun final {
 public:
  // Like this process's environment, but that libgomp's threads do not spin for long.
  static absl::StatusOr<ChildRun> Start(const std::string& program,
                                        const std::vector<std::string>& arguments);

  // Waits for a line on its output, or until it has ended.
  absl::StatusOr<std::string> FirstLine(base::Instant give_up);
  // Waits for its end and returns its lines. FAILED_PRECONDITION, with what it wrote to standard
  // error, where it ends with another code than 0.
  absl::StatusOr<std::vector<std::string>> End(base::Instant give_up);
  // Asks it to end, and waits a while.
  void Stop();

 private:
  explicit ChildRun(ChildProcess process) : process_(std::move(process)) {}
  // Takes in what was written, waiting for some of it for a moment.
  void Read();
  bool silent() const { return out_over_ && err_over_; }

  ChildProcess process_;
  LineReader out_, err_;
  std::vector<std::string> lines_, complaints_;
  bool out_over_ = false, err_over_ = false;
};

// Runs all of them side by side, and returns what each has written.
absl::StatusOr<std::vector<std::vector<std::string>>> RunTogether(
    const std::string& program, const std::vector<std::string>& arguments, int32_t copies,
    base::Duration at_most);

// A folder that is removed with it.
class ScratchFolder final {
 public:
  static absl::StatusOr<ScratchFolder> Make();
  ScratchFolder(ScratchFolder&& other) noexcept : path_(std::exchange(other.path_, "")) {}
  ScratchFolder& operator=(ScratchFolder&&) = delete;
  ~ScratchFolder();
  std::string File(const std::string& name) const { return path_ + "/" + name; }

 private:
  explicit ScratchFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

}  // namespace baton::planner
