#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/bounded_queue.h"
#include "common/base/clock.h"
#include "common/base/eos_signal.h"
#include "common/base/ids.h"
#include "common/base/mutex.h"
#include "common/sched/limits.h"
#include "common/sched/sequence.h"

namespace baton {

// What the engine is asked to do.
struct Command {
  enum class Kind { kAdd, kCommitImport, kCancel, kReturnLease };
  Kind kind = Kind::kAdd;
  SequenceId sequence;
  SequenceSpec spec;   // kAdd
  SampledToken first;  // kCommitImport
};

// The way into the engine, which is one FIFO. Admission is checked and bounded here; every admitted
// sequence may then send each other command once, which is what bounds the queue. Thread-safe.
class CommandGate {
 public:
  // `max_queued` bounds the sequences that were admitted and did not start yet.
  CommandGate(const SequenceLimits& limits, int64_t max_queued);

  absl::StatusOr<SequenceId> Admit(SequenceSpec spec);
  void CommitImport(SequenceId sequence, SampledToken first);
  void Cancel(SequenceId sequence);
  void ReturnLease(SequenceId sequence);

  // From now on new sequences are refused with DRAINING.
  void Drain();
  // New sequences are refused with `why`, other commands have no effect, and PopUntil returns
  // empty once the queue is drained.
  void Close(absl::Status why);
  bool closed() const { return queue_.closed(); }

  // What follows is for the engine's thread.
  // Lets a sequence of the engine's own in, behind those that were admitted, which takes none of
  // their places. `spec` is known to be valid, and there is no other of them.
  SequenceId AdmitOwn(SequenceSpec spec);
  // It has left the queue.
  void OwnStarted();
  std::optional<Command> TryPop() { return queue_.TryPop(); }
  std::optional<Command> PopUntil(base::Instant deadline) { return queue_.PopUntil(deadline); }
  // Says that `total` of all sequences that were ever admitted have left the queue by now.
  void SetStarted(uint64_t total);
  void Forget(std::span<const SequenceId> sequences);

 private:
  struct Sent {
    bool commit = false, cancel = false, return_lease = false;
  };
  int64_t Queued() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  SequenceId Add(SequenceSpec spec) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Send(bool Sent::*once, Command command);

  const SequenceLimits limits_;
  const int64_t max_queued_;
  base::BoundedQueue<Command> queue_;
  mutable base::Mutex mutex_;
  std::map<SequenceId, Sent> live_ ABSL_GUARDED_BY(mutex_);
  uint64_t admitted_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t started_ ABSL_GUARDED_BY(mutex_) = 0;
  bool own_queued_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status refuse_ ABSL_GUARDED_BY(mutex_);  // why new sequences are refused
};

}  // namespace baton
