#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace baton {

struct ChildSpec {
  std::string program;                   // path
  std::vector<std::string> arguments;    // without the program's name
  std::vector<std::string> environment;  // all of it, NAME=value
};

// A file descriptor that closes itself.
class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(other.Release()) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept;
  ~UniqueFd() { Reset(); }
  int get() const { return fd_; }
  int Release();
  void Reset();

 private:
  int fd_ = -1;
};

// A started program whose output comes through pipes that do not block. It is killed when the
// object or the parent process dies, and runs in a process group of its own, so that a terminal's
// Ctrl-C reaches the parent only. Not thread-safe. The thread that starts it has to outlive it,
// because the kernel kills it with that thread.
class ChildProcess final {
 public:
  static absl::StatusOr<ChildProcess> Start(const ChildSpec& spec);
  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&& other) noexcept;
  ~ChildProcess();

  pid_t pid() const { return pid_; }
  int out() const { return out_.get(); }
  int err() const { return err_.get(); }
  void CloseOut() { out_.Reset(); }
  void CloseErr() { err_.Reset(); }

  void Signal(int signal) const;
  // The exit code, 128 + n after signal n, or empty while it runs.
  std::optional<int> Reap();

 private:
  ChildProcess(pid_t pid, UniqueFd out, UniqueFd err)
      : pid_(pid), out_(std::move(out)), err_(std::move(err)) {}
  void Kill();

  pid_t pid_ = -1;  // -1: reaped or moved away
  UniqueFd out_;
  UniqueFd err_;
};

}  // namespace baton
