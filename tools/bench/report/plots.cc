#include "tools/bench/report/plots.h"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace baton::bench {
namespace {

constexpr auto kPatience = std::chrono::minutes(5);

// The folder that holds the package when the program lies in a checkout's build folder.
std::string PackageBesideProgram() {
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return "";
  auto folder = program.parent_path();
  for (int up = 0; up < 4; ++up, folder = folder.parent_path()) {
    if (std::filesystem::exists(folder / "analysis" / "baton_analysis", error)) {
      return (folder / "analysis").string();
    }
  }
  return "";
}

std::vector<std::string> Environment() {
  std::vector<std::string> environment;
  std::string path = PackageBesideProgram();
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    if (!text.starts_with("PYTHONPATH=")) {
      environment.push_back(text);
    } else if (text.size() > std::strlen("PYTHONPATH=")) {
      absl::StrAppend(&path, path.empty() ? "" : ":", text.substr(std::strlen("PYTHONPATH=")));
    }
  }
  if (!path.empty()) environment.push_back("PYTHONPATH=" + path);
  return environment;
}

std::vector<char*> Pointers(std::vector<std::string>* texts) {
  std::vector<char*> pointers;
  for (std::string& text : *texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

// Runs a program whose output goes where ours does. Its exit code, or -1 when it could not be
// started or took too long.
int RunToEnd(std::vector<std::string> arguments) {
  std::vector<std::string> environment = Environment();
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;  // ours are blocked for StopSignals; Ctrl-C must reach the child
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  pid_t pid = -1;
  const int failed = posix_spawnp(&pid, arguments[0].c_str(), nullptr, &attributes,
                                  Pointers(&arguments).data(), Pointers(&environment).data());
  posix_spawnattr_destroy(&attributes);
  if (failed != 0) return -1;
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  int status = 0;
  while (waitpid(pid, &status, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() > deadline) {
      kill(pid, SIGKILL);
      waitpid(pid, &status, 0);
      return -1;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace

absl::StatusOr<Plotter> Plotter::Find(const std::string& module) {
  const std::string whole = absl::StrCat("baton_analysis.", module);
  const char* named = std::getenv("BATON_PYTHON");
  // Debian's matplotlib belongs to Debian's Python, which need not be the first in the PATH.
  std::vector<std::string> pythons = {"python3", "/usr/bin/python3"};
  if (named != nullptr && *named != '\0') pythons = {named};
  const std::string check = absl::StrCat("import sys\ntry:\n import matplotlib, ", whole,
                                         "\nexcept ImportError: sys.exit(3)");
  bool runs = false;
  for (const std::string& python : pythons) {
    const int code = RunToEnd({python, "-c", check});
    if (code == 0) return Plotter(python, whole);
    runs = runs || code == 3;
  }
  if (runs) {
    return absl::FailedPreconditionError(absl::StrCat(
        pythons.front(),
        " has not both matplotlib and baton_analysis, which --plots needs; install ",
        "python3-matplotlib and the package in analysis/, or name another with BATON_PYTHON"));
  }
  return absl::FailedPreconditionError(absl::StrCat(
      pythons.front(), " cannot be run, and --plots needs it; name another with BATON_PYTHON"));
}

absl::Status Plotter::Draw(const std::vector<std::string>& files,
                           const std::string& directory) const {
  std::vector<std::string> command = {python_, "-m", module_};
  command.insert(command.end(), files.begin(), files.end());
  command.insert(command.end(), {"--out", directory});
  const int code = RunToEnd(std::move(command));
  if (code == 0) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("the plots were not drawn (", module_, " ended with ",
                                          code, "); results are in ", files.front()));
}

}  // namespace baton::bench
