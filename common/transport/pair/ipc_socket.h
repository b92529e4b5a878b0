#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

// The Unix socket between the two processes of a cuda_ipc pair. No call waits.
namespace baton::ipc {

constexpr size_t kMaxHandleBytes = 192;

// A message of the socket, in either direction.
struct Frame {
  enum Kind : uint32_t {
    kRing = 1,   // the sender's first: `handle` names its staging buffers of `count` bytes
    kSend = 2,   // the sender's: `count` bytes lie at `offset` of its buffers and stay
    kTaken = 3,  // the receiver's: it has copied them
  };
  uint32_t kind = 0;
  uint32_t handle_bytes = 0;
  int64_t offset = 0;
  int64_t count = 0;
  char handle[kMaxHandleBytes] = {};
};

// Owns a file descriptor.
class Descriptor final {
 public:
  explicit Descriptor(int value = -1) : value_(value) {}
  Descriptor(Descriptor&& other) noexcept : value_(std::exchange(other.value_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(value_, other.value_);
    return *this;
  }
  ~Descriptor();
  int get() const { return value_; }
  bool valid() const { return value_ >= 0; }

 private:
  int value_;
};

// Makes the socket that `id` names on this host, within its network namespace. Dial connects to it.
absl::StatusOr<Descriptor> Listen(const std::string& id);
absl::StatusOr<Descriptor> Dial(const std::string& id);
// The process that dialled; invalid when none has yet. One of another user is refused.
absl::StatusOr<Descriptor> Accept(const Descriptor& listener);

// False when the socket has no room now.
absl::StatusOr<bool> Write(const Descriptor& peer, const Frame& frame);
// Empty when nothing has come. An error when the other process closed the socket.
absl::StatusOr<std::optional<Frame>> Read(const Descriptor& peer);
// OK when the other process has the socket open and said nothing more.
absl::Status CheckSilent(const Descriptor& peer);

}  // namespace baton::ipc
