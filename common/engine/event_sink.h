#pragma once

#include <atomic>

#include "common/base/bounded_queue.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/engine/engine.h"
#include "common/kv/kv_cache.h"
#include "common/sched/events.h"

namespace baton {

// The way out of the engine, which is a bounded queue of events that ends with the first
// FaultEvent. Thread-safe.
class EventSink {
 public:
  explicit EventSink(size_t capacity) : queue_(capacity) {}

  // Waits while the queue is full, but not once `Hurry` was called. Nothing passes after a fault.
  void Emit(EngineEvent event);
  // Emits the last event. Only the first call counts.
  void EmitFault(absl::Status status);
  // From now on Emit does not wait for the owner.
  void Hurry();
  void Close() { queue_.Close(); }

  base::BoundedQueue<EngineEvent>& queue() { return queue_; }

 private:
  base::BoundedQueue<EngineEvent> queue_;
  base::Mutex mutex_;
  base::CondVar hurried_;
  bool hurry_ ABSL_GUARDED_BY(mutex_) = false;
  bool faulted_ ABSL_GUARDED_BY(mutex_) = false;
};

// Turns what the scheduler said into what the engine says: blocks get their addresses, and tokens
// are stamped with `unix_now`.
SequenceEvent ToEngineEvent(SchedEvent event, const KvCache& kv, double unix_now);

}  // namespace baton
