#include "tests/fakes/fake_nccl/pair_comm.h"

#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <vector>

namespace baton::nccl {
namespace {

constexpr int kPollMs = 5;
constexpr size_t kNameBytes = 32;

sockaddr_un AddressOf(const UniqueId& id, socklen_t* size) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  // Abstract: nothing is left behind.
  const std::string name = "baton-fake-nccl-" + std::string(id.internal, kNameBytes);
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  *size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return address;
}

// Listening sockets by id, until rank 0 takes them.
std::mutex listeners_mutex;
std::map<std::string, int>& Listeners() {
  static auto* const listeners = new std::map<std::string, int>;
  return *listeners;
}

int TakeListener(const UniqueId& id) {
  std::lock_guard lock(listeners_mutex);
  const auto taken = Listeners().extract(std::string(id.internal, kNameBytes));
  return taken.empty() ? -1 : taken.mapped();
}

}  // namespace

Result MakeUniqueId(UniqueId* id) {
  unsigned char random[kNameBytes / 2];
  if (getrandom(random, sizeof random, 0) != static_cast<ssize_t>(sizeof random)) {
    return kSystemError;
  }
  *id = {};
  for (size_t i = 0; i < sizeof random; ++i) {
    id->internal[2 * i] = static_cast<char>('a' + random[i] / 16);
    id->internal[2 * i + 1] = static_cast<char>('a' + random[i] % 16);
  }
  socklen_t size = 0;
  const sockaddr_un address = AddressOf(*id, &size);
  const int listener = socket(AF_UNIX, SOCK_STREAM, 0);
  if (bind(listener, reinterpret_cast<const sockaddr*>(&address), size) != 0 ||
      listen(listener, 1) != 0) {
    close(listener);
    return kSystemError;
  }
  std::lock_guard lock(listeners_mutex);
  Listeners()[std::string(id->internal, kNameBytes)] = listener;
  return kSuccess;
}

PairComm::~PairComm() {
  if (fd >= 0) close(fd);
}

bool PairComm::Connect() {
  if (action == "never") return WaitForAbort();
  if (action == "async") return Fail(kSystemError, "the script says so");
  if (rank == 0) {
    const int listener = TakeListener(id);
    if (Ready(listener, POLLIN)) fd = accept(listener, nullptr, nullptr);
    close(listener);
  } else {
    socklen_t size = 0;
    const sockaddr_un address = AddressOf(id, &size);
    fd = socket(AF_UNIX, SOCK_STREAM, 0);
    if (connect(fd, reinterpret_cast<const sockaddr*>(&address), size) != 0) {
      return Fail(kRemoteError, "nobody listens");
    }
  }
  return fd >= 0 && !aborted;
}

bool PairComm::Ready(int descriptor, short events) {
  while (!aborted) {
    pollfd entry{descriptor, events, 0};
    if (poll(&entry, 1, kPollMs) > 0) return true;
  }
  return false;
}

bool PairComm::Move(bool is_send, std::byte* bytes, size_t count) {
  while (count > 0) {
    if (!Ready(fd, is_send ? POLLOUT : POLLIN)) return false;
    const ssize_t moved = is_send ? send(fd, bytes, count, MSG_NOSIGNAL | MSG_DONTWAIT)
                                  : recv(fd, bytes, count, MSG_DONTWAIT);
    if (moved < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (moved <= 0) return Fail(kRemoteError, "the peer is gone");
    bytes += moved;
    count -= static_cast<size_t>(moved);
  }
  return true;
}

bool PairComm::Carry(const Operation& operation) {
  if (operation.action == "never") return WaitForAbort();
  if (operation.action == "async") return Fail(kSystemError, "the script says so");
  const bool is_send = operation.kind == Operation::Kind::kSend;
  uint64_t size = operation.count;
  if (!Move(is_send, reinterpret_cast<std::byte*>(&size), sizeof size)) return false;
  if (size != operation.count) {
    return Fail(kInvalidUsage, "a send of " + std::to_string(size) + " bytes met a receive of " +
                                   std::to_string(operation.count));
  }
  if (operation.action != "corrupt") return Move(is_send, operation.bytes, operation.count);
  std::vector<std::byte> copy(operation.bytes, operation.bytes + operation.count);
  copy.back() ^= std::byte{0x40};
  copy[copy.size() / 2] ^= std::byte{0x01};
  return Move(true, copy.data(), copy.size());
}

}  // namespace baton::nccl
