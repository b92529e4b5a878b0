#pragma once

#include <cstdint>

#include "common/base/clock.h"
#include "common/transport/pair/pair_protocol.h"

namespace baton {

// How the blocks of a push travel.
enum class PushWay { kGrpc, kNccl, kCudaIpc };

// What transports tell the metrics, one function for each thing that happens. Called from several
// threads; must not block. The base class ignores everything.
class TransportProbe {
 public:
  virtual ~TransportProbe() = default;

  // A push begins, and its blocks will travel this way. Told by the sender.
  virtual void PushOpened(PushWay) {}
  // Something happened to a pair. Told by both sides.
  virtual void PairHappened(PairEvent) {}
  // A parcel was granted so long after its announcement. Told by the sender.
  virtual void GrantWaited(base::Duration) {}
  // The bytes of a parcel that was granted, told by the sender, or has arrived, told by the
  // receiver.
  virtual void PairBytes(int64_t) {}
};

}  // namespace baton
