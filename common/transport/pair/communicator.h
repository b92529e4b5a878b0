#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

// What carries the bytes of a pair of devices: NCCL, or copies out of the peer's memory on one
// host.
namespace baton {

// The stream of a device that transfers are queued on, a cudaStream_t; null for host memory.
using DeviceStream = void*;

// One end of a connection between two ranks, of which rank 1 sends and rank 0 receives. No call
// waits for the peer. Used by one thread. Destroying it aborts the connection: the peer's
// operations fail or hang, and its own no longer touch their buffers once the stream is through.
class Communicator {
 public:
  virtual ~Communicator() = default;

  // Whether the last call, or at first the connecting, is still being started. As long as it is, no
  // other call may be made. What was started is over when `stream` is through. After an error the
  // object can only be destroyed.
  virtual absl::StatusOr<bool> InProgress() = 0;
  virtual absl::Status Send(const std::byte* bytes, size_t count, DeviceStream stream) = 0;
  virtual absl::Status Receive(std::byte* bytes, size_t count, DeviceStream stream) = 0;
};

// Makes communicators of one kind.
class Communicators {
 public:
  virtual ~Communicators() = default;

  // "nccl" or "cuda_ipc". Both sides of a pair need the same.
  virtual std::string way() const = 0;
  // The version of what moves the bytes, as the peer is told.
  virtual int version() const = 0;
  virtual absl::Status CheckPeer(int peer_version) const = 0;

  // An id by which the two ranks find each other. Rank 0 makes it and connects with it; the peer
  // gets it over the control stream.
  virtual absl::StatusOr<std::string> MakeUniqueId() = 0;
  virtual absl::StatusOr<std::unique_ptr<Communicator>> Connect(const std::string& unique_id,
                                                                int rank) = 0;
};

}  // namespace baton
