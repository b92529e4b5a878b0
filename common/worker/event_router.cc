#include "common/worker/event_router.h"

#include <utility>
#include <vector>

#include "common/base/status.h"

namespace baton {

EventRouter::EventRouter(Engine* engine, Listeners listeners)
    : engine_(engine), listeners_(std::move(listeners)), thread_([this] { Run(); }) {}

EventRouter::~EventRouter() { thread_.join(); }

absl::StatusOr<SequenceId> EventRouter::Admit(SequenceSpec spec, std::shared_ptr<SequenceSink> sink,
                                              const std::function<void(SequenceId)>& on_admitted) {
  // Admit never waits for the engine's thread, so holding the lock over it only delays events.
  base::MutexLock lock(&mutex_);
  if (faulted_) {
    return MakeError(absl::StatusCode::kInternal, {.reason = Reason::kDeviceFault},
                     "the engine of this worker has stopped; use another worker");
  }
  auto id = engine_->Admit(std::move(spec));
  if (id.ok()) {
    if (listeners_.admitted) listeners_.admitted();
    on_admitted(*id);
    sinks_.emplace(*id, std::move(sink));
  }
  return id;
}

void EventRouter::Forget(SequenceId sequence) {
  std::shared_ptr<SequenceSink> dropped;  // destroyed without the lock
  base::MutexLock lock(&mutex_);
  const auto found = sinks_.find(sequence);
  if (found == sinks_.end()) return;
  dropped = std::move(found->second);
  sinks_.erase(found);
}

void EventRouter::Run() {
  while (std::optional<EngineEvent> event = engine_->events().PopUntil(base::kNever)) {
    if (const auto* sequence = std::get_if<SequenceEvent>(&*event)) Dispatch(*sequence);
    if (const auto* step = std::get_if<StepEvent>(&*event)) {
      if (listeners_.step) listeners_.step(*step);
    }
    if (const auto* fault = std::get_if<FaultEvent>(&*event)) DispatchFault(*fault);
  }
}

void EventRouter::Dispatch(const SequenceEvent& event) {
  if (listeners_.sequence) listeners_.sequence(event);
  std::shared_ptr<SequenceSink> sink;
  {
    base::MutexLock lock(&mutex_);
    const auto found = sinks_.find(event.sequence);
    if (found != sinks_.end()) sink = found->second;
  }
  if (sink != nullptr) {
    sink->OnEvent(event);
  } else if (std::holds_alternative<DetachEvent>(event.what)) {
    engine_->ReturnLease(event.sequence);
  }
}

void EventRouter::DispatchFault(const FaultEvent& fault) {
  std::vector<std::shared_ptr<SequenceSink>> sinks;
  {
    base::MutexLock lock(&mutex_);
    faulted_ = true;
    for (auto& [id, sink] : sinks_) sinks.push_back(std::move(sink));
    sinks_.clear();
  }
  const absl::Status status =
      MakeError(absl::StatusCode::kInternal, {.reason = Reason::kDeviceFault},
                "the engine of this worker stopped: " + std::string(fault.status.message()));
  for (const auto& sink : sinks) sink->OnEngineFault(status);
  if (listeners_.fault) listeners_.fault(fault.status);
}

}  // namespace baton
