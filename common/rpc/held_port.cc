#include "common/rpc/held_port.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "common/rpc/server.h"

namespace baton {
namespace {

struct FreeAddresses {
  void operator()(addrinfo* addresses) const { freeaddrinfo(addresses); }
};

// Returns 0, or the error that says why the port cannot be held.
int Hold(int socket, const addrinfo& address) {
  const int on = 1;
  const int off = 0;
  // As gRPC's own socket has it: what lingers of an earlier server's connections is no obstacle.
  setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (bind(socket, address.ai_addr, address.ai_addrlen) != 0 || listen(socket, 1) != 0) {
    return errno;
  }
  // After this it refuses connections and still has the port, which nobody can bind beside it,
  // because it does not allow that any more.
  shutdown(socket, SHUT_RDWR);
  setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &off, sizeof(off));
  return 0;
}

// Whether `address` stands in the list that begins at `first` before its own place.
bool IsRepeated(const addrinfo* first, const addrinfo& address) {
  for (; first != &address; first = first->ai_next) {
    if (first->ai_addrlen == address.ai_addrlen &&
        std::memcmp(first->ai_addr, address.ai_addr, address.ai_addrlen) == 0) {
      return true;
    }
  }
  return false;
}

absl::Status CannotListen(const std::string& host, int port, const char* flag, int error) {
  const std::string address = JoinHostPort(host, port);
  if (error == EADDRINUSE) {
    return absl::AlreadyExistsError(address + " is in use; stop its owner or give another " + flag +
                                    " (0 = any free one)");
  }
  return absl::InvalidArgumentError("cannot listen on " + address + ": " + std::strerror(error) +
                                    "; give another --host or " + flag);
}

}  // namespace

absl::StatusOr<HeldPort> HeldPort::Take(const std::string& host, int port, const char* flag) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const int rc = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (rc != 0) {
    return absl::InvalidArgumentError("--host '" + host + "' cannot be resolved (" +
                                      gai_strerror(rc) + "); give an address of this machine");
  }
  const std::unique_ptr<addrinfo, FreeAddresses> addresses(found);
  HeldPort held;
  int first_error = 0;
  for (const addrinfo* address = found; address != nullptr; address = address->ai_next) {
    if (IsRepeated(found, *address)) continue;  // a second line of /etc/hosts
    const int fd =
        socket(address->ai_family, address->ai_socktype | SOCK_CLOEXEC, address->ai_protocol);
    const int error = fd < 0 ? errno : Hold(fd, *address);
    if (error == 0) {
      held.sockets_.push_back(fd);
      continue;
    }
    if (fd >= 0) close(fd);
    // gRPC would serve on the other addresses and leave callers of this one to its owner.
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
