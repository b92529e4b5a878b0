#include "common/transport/pair/ipc_socket.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>

#include "common/base/status.h"

namespace baton::ipc {
namespace {

constexpr char kPeer[] = "the other process of the pair";

absl::Status SocketError(const std::string& what) {
  return absl::UnavailableError(what + ": " + std::strerror(errno));
}

bool WouldWait() { return errno == EAGAIN || errno == EINTR; }

// The socket is abstract: nothing is left behind, and other hosts and namespaces have no such name.
sockaddr_un AddressOf(const std::string& id, socklen_t* size) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string name = "baton-kv-" + id;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  *size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return address;
}

absl::StatusOr<Descriptor> NewSocket() {
  Descriptor made(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!made.valid()) return SocketError("cannot make a Unix socket");
  return made;
}

// Names of abstract sockets are no secret: whoever may not read this process's memory may not be
// its peer either.
absl::Status CheckUser(const Descriptor& peer) {
  ucred other{};
  socklen_t size = sizeof other;
  if (getsockopt(peer.get(), SOL_SOCKET, SO_PEERCRED, &other, &size) != 0) {
    return SocketError(kPeer);
  }
  if (other.uid == geteuid()) return absl::OkStatus();
  return absl::PermissionDeniedError("a process of user " + std::to_string(other.uid) +
                                     " answered for a pair of user " + std::to_string(geteuid()) +
                                     "; run both workers as one user, or use --kv-transport grpc");
}

}  // namespace

Descriptor::~Descriptor() {
  if (value_ >= 0) close(value_);
}

absl::StatusOr<Descriptor> Listen(const std::string& id) {
  BATON_ASSIGN_OR_RETURN(Descriptor listener, NewSocket());
  socklen_t size = 0;
  const sockaddr_un address = AddressOf(id, &size);
  if (bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0 ||
      listen(listener.get(), 1) != 0) {
    return SocketError(std::string("cannot listen for ") + kPeer);
  }
  return listener;
}

absl::StatusOr<Descriptor> Dial(const std::string& id) {
  BATON_ASSIGN_OR_RETURN(Descriptor peer, NewSocket());
  socklen_t size = 0;
  const sockaddr_un address = AddressOf(id, &size);
  if (connect(peer.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0) {
    return SocketError(
        "nobody on this host listens for the pair; cuda_ipc joins workers of one host and network "
        "namespace, use --kv-transport nccl or grpc between others");
  }
  BATON_RETURN_IF_ERROR(CheckUser(peer));
  return peer;
}

absl::StatusOr<Descriptor> Accept(const Descriptor& listener) {
  Descriptor accepted(accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (!accepted.valid()) {
    if (WouldWait()) return accepted;
    return SocketError(kPeer);
  }
  BATON_RETURN_IF_ERROR(CheckUser(accepted));
  return accepted;
}

absl::StatusOr<bool> Write(const Descriptor& peer, const Frame& frame) {
  const ssize_t sent = send(peer.get(), &frame, sizeof frame, MSG_NOSIGNAL);
  if (sent < 0 && WouldWait()) return false;
  if (sent != sizeof frame) return SocketError(kPeer);
  return true;
}

absl::StatusOr<std::optional<Frame>> Read(const Descriptor& peer) {
  Frame frame;
  const ssize_t got = recv(peer.get(), &frame, sizeof frame, 0);
  if (got < 0 && WouldWait()) return std::nullopt;
  if (got == 0) return absl::UnavailableError(std::string(kPeer) + " is gone");
  if (got < 0) return SocketError(kPeer);
  if (got != sizeof frame || frame.handle_bytes > kMaxHandleBytes) {
    return absl::DataLossError(std::string(kPeer) + " sent what is no message of this version");
  }
  return frame;
}

absl::Status CheckSilent(const Descriptor& peer) {
  char byte = 0;
  const ssize_t got = recv(peer.get(), &byte, 1, MSG_PEEK);
  if (got < 0 && WouldWait()) return absl::OkStatus();
  if (got < 0) return SocketError(kPeer);
  return absl::UnavailableError(std::string(kPeer) + (got == 0 ? " is gone" : " is out of step"));
}

}  // namespace baton::ipc
