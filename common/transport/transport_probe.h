#pragma once

#include <cstdint>

#include "common/base/clock.h"
#include "common/transport/pair/pair_protocol.h"

namespace baton {

enum class PushWay { kGrpc, kNccl, kCudaIpc };

// What transports tell the metrics, as verbs. Called from several threads; must not block. The base
// class ignores everything.
class TransportProbe {
 public:
  virtual ~TransportProbe() = default;

  // Sender side: how the blocks of a push begin to travel.
  virtual void PushOpened(PushWay) {}
  // Both sides.
  virtual void PairHappened(PairEvent) {}
  // Sender side: from the announcement of a parcel to its grant.
  virtual void GrantWaited(base::Duration) {}
  // Bytes of a parcel that was granted (sender) or has arrived (receiver).
  virtual void PairBytes(int64_t) {}
};

}  // namespace baton
