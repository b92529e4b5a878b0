#pragma once

#include <cstdint>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/engine/engine.h"
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
  // The token that drew EOS and ended its sequence.
  virtual void StoppedByEos(const EosSignal&) {}
  virtual void ReservationGranted(base::Duration /*waited*/) {}
  virtual void ReservationExpired() {}
  // Sender side. `sending` is from the first blocks to the commit, 0 where none had to be sent.
  virtual void PushDone(int64_t /*bytes*/, base::Duration /*sending*/,
                        base::Duration /*committing*/) {}
  virtual void PushFailed(Reason) {}
  // Receiver side.
  virtual void PushRefused(Reason) {}
  virtual void PushFromOtherNumerics() {}
};

}  // namespace baton
