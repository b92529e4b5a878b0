#pragma once

#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "common/base/ticket.h"
#include "common/transport/kv_transport.h"
#include "common/transport/pair/communicator.h"
#include "common/transport/pair/pair_memory.h"
#include "common/transport/pair/pair_protocol.h"

namespace baton {

// The one thread that makes all calls of pairs into a device and owns its staging buffers. It
// carries out what the state machine of its side says, in order. Communicators do not block; the
// thread polls what is under way. Deadlines are the state machine's.
class PairDevice final {
 public:
  struct Options {
    std::unique_ptr<PairMemory> memory;
    std::unique_ptr<Communicators> communicators;  // may refer to `memory`
    bool checksum = true;
    // Finds the inbox of an open push; null when there is none. Only the receiving side needs it.
    std::function<std::shared_ptr<KvInbox>(const Ticket&)> find_inbox;
    // Takes what happened. Called from the device's thread, in order.
    std::function<void(DeviceEvent)> on_event;
  };

  // Fails when the thread cannot use its device.
  static absl::StatusOr<std::unique_ptr<PairDevice>> Start(Options options);
  // Aborts every communicator. A thread that hangs in a call is left behind after a moment; it
  // calls `on_event` no more.
  ~PairDevice();

  // Thread-safe, never blocks.
  void Post(DeviceCommand command);

 private:
  class Worker;
  explicit PairDevice(std::shared_ptr<Worker> worker) : worker_(std::move(worker)) {}

  const std::shared_ptr<Worker> worker_;  // shared with its thread, which may outlive this
};

}  // namespace baton
