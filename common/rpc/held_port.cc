#include "common/rpc/held_port.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

#include "common/base/status.h"
#include "common/rpc/endpoints.h"

namespace baton {
namespace {

// Returns 0, or the error that says why the port cannot be held.
int Hold(int socket, const boost::asio::ip::tcp::endpoint& endpoint) {
  const int on = 1;
  const int off = 0;
  // As the server's own socket has it: what lingers of an earlier server's connections is no
  // obstacle.
  setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (bind(socket, endpoint.data(), static_cast<socklen_t>(endpoint.size())) != 0 ||
      listen(socket, 1) != 0) {
    return errno;
  }
  // After this it refuses connections and still has the port, which nobody can bind beside it,
  // because it does not allow that any more.
  shutdown(socket, SHUT_RDWR);
  setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &off, sizeof(off));
  return 0;
}

}  // namespace

absl::StatusOr<HeldPort> HeldPort::Take(const std::string& host, int port, const char* flag) {
  BATON_ASSIGN_OR_RETURN(const auto endpoints, EndpointsOf(host));
  HeldPort held;
  int first_error = 0;
  for (boost::asio::ip::tcp::endpoint endpoint : endpoints) {
    endpoint.port(static_cast<unsigned short>(port));
    const int fd = socket(endpoint.protocol().family(), SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int error = fd < 0 ? errno : Hold(fd, endpoint);
    if (error == 0) {
      held.sockets_.push_back(fd);
      continue;
    }
    if (fd >= 0) close(fd);
    // On the other addresses alone a server would leave callers of this one to its owner.
    if (error == EADDRINUSE) return CannotListen(host, port, flag, error);
    if (first_error == 0) first_error = error;
  }
  // A name may also mean an address of a family that this machine does not have.
  if (held.sockets_.empty()) return CannotListen(host, port, flag, first_error);
  return held;
}

void HeldPort::LetGo() {
  for (const int fd : std::exchange(sockets_, {})) close(fd);
}

}  // namespace baton
