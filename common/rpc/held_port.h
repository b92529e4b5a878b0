#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace baton {

// A TCP port that belongs to this process from the check of its settings until its server listens
// there, so that a port in use shows before a long load and nobody takes it during the load.
// Connections to it are refused meanwhile. Not thread-safe.
class HeldPort final {
 public:
  // Takes `port` of every address that `host` means. With port 0 there is none to hold, and only
  // the host is checked. ALREADY_EXISTS when the port is in use, INVALID_ARGUMENT for a host that
  // this machine cannot listen on. Messages name the port by its `flag`.
  static absl::StatusOr<HeldPort> Take(const std::string& host, int port,
                                       const char* flag = "--port");
  HeldPort(HeldPort&& other) noexcept : sockets_(std::exchange(other.sockets_, {})) {}
  HeldPort& operator=(HeldPort&&) = delete;
  ~HeldPort() { LetGo(); }

  // Right before the server listens. Calling it again does nothing.
  void LetGo();

 private:
  HeldPort() = default;

  std::vector<int> sockets_;
};

}  // namespace baton
