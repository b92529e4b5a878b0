#pragma once

#include <functional>
#include <memory>
#include <thread>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "common/engine/engine.h"

namespace baton {

// The owner of an engine's sequence, which is one stream of a service. It is called from the event
// router's thread, in the order of the events, and must not block.
class SequenceSink {
 public:
  virtual ~SequenceSink() = default;
  virtual void OnEvent(const SequenceEvent& event) = 0;
  // The engine is gone; no event follows.
  virtual void OnEngineFault(const absl::Status& status) = 0;
};

// Empties the engine's queue of events on a thread of its own and hands each event to the sink of
// its sequence. Thread-safe.
class EventRouter final {
 public:
  // Who hears of events beside the sinks.
  struct Listeners {
    std::function<void()> admitted;                      // called before its first event
    std::function<void(const SequenceEvent&)> sequence;  // called for every event, before its sink
    std::function<void(const StepEvent&)> step;
    std::function<void(const absl::Status&)> fault;  // called after the sinks
  };

  // `engine` outlives the router and is stopped before the router is destroyed.
  EventRouter(Engine* engine, Listeners listeners);
  ~EventRouter();
  EventRouter(const EventRouter&) = delete;
  EventRouter& operator=(const EventRouter&) = delete;

  // Admits `spec`; its events go to `sink`, which is kept until Forget. Events may arrive before
  // this returns: `on_admitted` is called with the id before any of them.
  absl::StatusOr<SequenceId> Admit(SequenceSpec spec, std::shared_ptr<SequenceSink> sink,
                                   const std::function<void(SequenceId)>& on_admitted);
  // The sequence's sink gets no more events. The router itself answers a Detach that comes later.
  void Forget(SequenceId sequence);

 private:
  void Run();
  void Dispatch(const SequenceEvent& event);
  void DispatchFault(const FaultEvent& fault);

  Engine* const engine_;
  const Listeners listeners_;
  base::Mutex mutex_;
  // Shared with the streams: either may end first.
  absl::flat_hash_map<SequenceId, std::shared_ptr<SequenceSink>> sinks_ ABSL_GUARDED_BY(mutex_);
  bool faulted_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace baton
