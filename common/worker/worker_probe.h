#pragma once

#include <cstdint>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/engine/engine.h"
#include "common/roles/role_rule.h"
#include "common/transport/transport_probe.h"

namespace baton {

// What a worker tells its metrics, as verbs. Called from several threads; must not block. The base
// class ignores everything, for tests.
class WorkerProbe : public TransportProbe {
 public:
  virtual void SequenceAdmitted() {}
  virtual void StepDone(const StepEvent&) {}
  virtual void StateChanged(SequenceState /*from*/, SequenceState /*to*/) {}
  virtual void SequenceFinished(const FinishedEvent&) {}
  virtual void TokenSampled(const SampledToken&, EosPolicy) {}
  // An answer has run away; it ends by that or goes on.
  virtual void RanAway(bool /*ends*/) {}
  // What the distribution said of the token that was EOS and ended its sequence.
  virtual void StoppedByEos(const EosSignal&) {}
  virtual void ReservationGranted(base::Duration /*waited*/) {}
  virtual void ReservationExpired() {}
  // A push of this prefill worker was committed. `sending` is from the first blocks to the commit,
  // 0 where none had to be sent; `committing` is from the commit to its answer.
  virtual void PushDone(int64_t /*bytes*/, base::Duration /*sending*/,
                        base::Duration /*committing*/) {}
  virtual void PushFailed(Reason) {}
  // This decode worker refused a push.
  virtual void PushRefused(Reason) {}
  // An elastic worker takes new requests in that role; it changed to it; what it looked at.
  virtual void RoleTaken(WorkerRole) {}
  virtual void RoleChanged(WorkerRole /*to*/, RoleReason) {}
  virtual void RoleLooked(const RoleSignals&) {}
  // This decode worker takes a push from a worker that computes differently.
  virtual void PushFromOtherNumerics() {}
};

}  // namespace baton
