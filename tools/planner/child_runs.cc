#include "tools/planner/child_runs.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status.h"

namespace baton::planner {
namespace {

constexpr int kPollMs = 100;
constexpr base::Duration kReapEvery = std::chrono::milliseconds(5);
constexpr base::Duration kStopPatience = std::chrono::seconds(20);

std::vector<std::string> Environment() {
  std::vector<std::string> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    // Settings of this command are not those of what it starts.
    if (!std::string_view(*entry).starts_with("BATON_")) environment.emplace_back(*entry);
  }
  if (const char* const folder = getenv("BATON_BIN_DIR")) {
    environment.push_back(absl::StrCat("BATON_BIN_DIR=", folder));
  }
  if (getenv("GOMP_SPINCOUNT") == nullptr) environment.emplace_back("GOMP_SPINCOUNT=1000");
  return environment;
}

base::Instant Now() { return base::SteadyClock().Now(); }

}  // namespace

absl::StatusOr<ChildRun> ChildRun::Start(const std::string& program,
                                         const std::vector<std::string>& arguments) {
  BATON_ASSIGN_OR_RETURN(ChildProcess process, ChildProcess::Start({.program = program,
                                                                    .arguments = arguments,
                                                                    .environment = Environment()}));
  return ChildRun(std::move(process));
}

void ChildRun::Read() {
  std::array<pollfd, 2> files = {
      {{out_over_ ? -1 : process_.out(), POLLIN, 0}, {err_over_ ? -1 : process_.err(), POLLIN, 0}}};
  poll(files.data(), files.size(), kPollMs);
  const auto take = [](int fd, LineReader* reader, std::vector<std::string>* into, bool* over) {
    if (*over) return;
    for (std::string& line : reader->Read(fd, over)) into->push_back(std::move(line));
  };
  take(process_.out(), &out_, &lines_, &out_over_);
  take(process_.err(), &err_, &complaints_, &err_over_);
}

absl::StatusOr<std::string> ChildRun::FirstLine(base::Instant give_up) {
  while (lines_.empty() && !silent() && Now() < give_up) Read();
  if (!lines_.empty()) return lines_.front();
  return absl::FailedPreconditionError(
      absl::StrCat("a process that was started for a measurement said nothing in time: ",
                   absl::StrJoin(complaints_, "; ")));
}

absl::StatusOr<std::vector<std::string>> ChildRun::End(base::Instant give_up) {
  std::optional<int> code;
  while (!silent() || !(code = process_.Reap())) {
    if (Now() > give_up) {
      return absl::DeadlineExceededError("a measurement took too long; try a smaller model");
    }
    if (silent()) {
      std::this_thread::sleep_for(kReapEvery);
    } else {
      Read();
    }
  }
  if (*code == 0) return std::move(lines_);
  return absl::FailedPreconditionError(absl::StrCat("a process that measures ended with ", *code,
                                                    ": ", absl::StrJoin(complaints_, "; ")));
}

void ChildRun::Stop() {
  process_.Signal(SIGTERM);
  const base::Instant give_up = Now() + kStopPatience;
  while (!silent() && Now() < give_up) Read();
  while (!process_.Reap() && Now() < give_up) std::this_thread::sleep_for(kReapEvery);
}

absl::StatusOr<std::vector<std::vector<std::string>>> RunTogether(
    const std::string& program, const std::vector<std::string>& arguments, int32_t copies,
    base::Duration at_most) {
  const base::Instant give_up = Now() + at_most;
  std::vector<ChildRun> runs;
  for (int32_t i = 0; i < copies; ++i) {
    BATON_ASSIGN_OR_RETURN(ChildRun run, ChildRun::Start(program, arguments));
    runs.push_back(std::move(run));
  }
  std::vector<std::vector<std::string>> all;
  for (ChildRun& run : runs) {
    BATON_ASSIGN_OR_RETURN(std::vector<std::string> lines, run.End(give_up));
    all.push_back(std::move(lines));
  }
  return all;
}

absl::StatusOr<ScratchFolder> ScratchFolder::Make() {
  std::error_code error;
  const std::filesystem::path place = std::filesystem::temp_directory_path(error);
  std::string path = (place / "baton-plan-XXXXXX").string();
  if (error || mkdtemp(path.data()) == nullptr) {
    return absl::ResourceExhaustedError(
        "cannot make a folder for what is measured; set TMPDIR to one that can be written");
  }
  return ScratchFolder(path);
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

}  // namespace baton::planner
