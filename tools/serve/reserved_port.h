#pragma once

#include <utility>

#include "absl/status/statusor.h"
#include "tools/serve/child_process.h"

namespace baton {

// A free TCP port of this machine that is known before the child runs that will listen there, and
// stays known over its restarts: while this exists, the kernel gives the port to nobody who asks
// for any free one or binds it alone, and the child, which asks for it by number as servers do
// (SO_REUSEADDR), gets it, whichever of the machine's addresses it listens on.
class ReservedPort final {
 public:
  static absl::StatusOr<ReservedPort> Reserve();

  int port() const { return port_; }

 private:
  ReservedPort(UniqueFd socket, int port) : socket_(std::move(socket)), port_(port) {}

  UniqueFd socket_;
  int port_;
};

}  // namespace baton
