#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

// What carries the bytes of a pair: NCCL, or copies out of the peer's memory on the same host.
namespace baton {

// The stream of a device that transfers are queued on, a cudaStream_t; null for host memory.
using DeviceStream = void*;

// One end of a connection of two ranks; rank 1 sends, rank 0 receives. No call waits for the peer.
// Used by one thread. Destroying it aborts it: the peer's operations fail or hang, and its own
// forget their buffers once the stream is through.
class Communicator {
 public:
  virtual ~Communicator() = default;

  // Whether what was asked last, the connecting at first, is still being started: then nothing else
  // may be asked. What was started is over when `stream` is through. After an error only destroying
  // is left.
  virtual absl::StatusOr<bool> InProgress() = 0;
  virtual absl::Status Send(const std::byte* bytes, size_t count, DeviceStream stream) = 0;
  virtual absl::Status Receive(std::byte* bytes, size_t count, DeviceStream stream) = 0;
};

class Communicators {
 public:
  virtual ~Communicators() = default;

  // "nccl", "cuda_ipc". Two sides of a pair need the same.
  virtual std::string way() const = 0;
  // Of what moves the bytes, as the peer is told.
  virtual int version() const = 0;
  virtual absl::Status CheckPeer(int peer_version) const = 0;

  // For rank 0, which then connects with it; the peer gets it by other means.
  virtual absl::StatusOr<std::string> MakeUniqueId() = 0;
  virtual absl::StatusOr<std::unique_ptr<Communicator>> Connect(const std::string& unique_id,
                                                                int rank) = 0;
};

}  // namespace baton
