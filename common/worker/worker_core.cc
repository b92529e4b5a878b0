#include "common/worker/worker_core.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/sample/request_limits.h"

namespace baton {

namespace {

EventRouter::Listeners ListenersOf(WorkerProbe* probe,
                                   std::function<void(const absl::Status&)> on_fault) {
  return {.admitted = [probe] { probe->SequenceAdmitted(); },
          .sequence =
              [probe](const SequenceEvent& event) {
                if (const auto* state = std::get_if<StateEvent>(&event.what)) {
                  probe->StateChanged(state->from, state->to);
                } else if (const auto* finished = std::get_if<FinishedEvent>(&event.what)) {
                  probe->SequenceFinished(*finished);
                }
              },
          .step = [probe](const StepEvent& step) { probe->StepDone(step); },
          .fault = std::move(on_fault)};
}

absl::Status Mismatch(std::string_view what, const std::string& here, const std::string& there) {
  return MakeError(absl::StatusCode::kFailedPrecondition,
                   {.reason = Reason::kLayoutMismatch, .values = {{"here", here}, {"peer", there}}},
                   std::string(what) + " differs: this worker has " + here + ", the peer has " +
                       there + "; only workers of one model and layout can be paired");
}

}  // namespace

WorkerCore::WorkerCore(WorkerIdentity identity, Engine* engine, const base::Clock* clock,
                       const WorkerTimeouts& timeouts, WorkerProbe* probe,
                       std::function<void(const absl::Status&)> on_fault, const BlockAccess* blocks)
    : identity_(std::move(identity)),
      engine_(engine),
      clock_(clock),
      timeouts_(timeouts),
      probe_(probe),
      timers_(clock),
      blocks_(blocks),
      router_(engine, ListenersOf(probe, std::move(on_fault))) {}

WorkerCore::~WorkerCore() {
  if (guides_ != nullptr) guides_->Stop();  // what it begins would come here
  engine_->Stop();
}

absl::Status WorkerCore::CheckGeneration(const worker::v1::Generation& generation) const {
  BATON_RETURN_IF_ERROR(CheckFingerprint(generation.model_fingerprint()));
  return CheckLimit(RequestLimit::kRequestId, std::ssize(generation.request_id()));
}

absl::Status WorkerCore::CheckFingerprint(const std::string& fingerprint) const {
  if (fingerprint == identity_.model_fingerprint) return absl::OkStatus();
  return Mismatch("the model fingerprint", identity_.model_fingerprint, fingerprint);
}

absl::Status WorkerCore::CheckShape(const KvShape& shape) const {
  if (shape == identity_.shape) return absl::OkStatus();
  return Mismatch("the KV layout", identity_.shape.Describe(), shape.Describe());
}

absl::Status WorkerCore::CheckPeerShape(const KvShape& shape) const {
  if (CanHandOver(identity_.shape, shape)) return absl::OkStatus();
  return Mismatch("the KV layout", identity_.shape.Describe(), shape.Describe());
}

absl::Status WorkerCore::Join(const std::shared_ptr<LiveStream>& stream) {
  base::MutexLock lock(&mutex_);
  if (draining_) {
    return MakeError(absl::StatusCode::kUnavailable, {.reason = Reason::kDraining},
                     "this worker is draining; use another one");
  }
  streams_.emplace(stream.get(), stream);
  return absl::OkStatus();
}

void WorkerCore::Leave(LiveStream* stream) {
  base::MutexLock lock(&mutex_);
  streams_.erase(stream);
  if (streams_.empty()) left_.NotifyAll();
}

void WorkerCore::BeginDrain() {
  {
    base::MutexLock lock(&mutex_);
    draining_ = true;
  }
  engine_->Drain();
}

bool WorkerCore::WaitUntilIdle(base::Instant deadline) {
  base::MutexLock lock(&mutex_);
  while (!streams_.empty()) {
    if (!left_.WaitUntil(&mutex_, deadline)) return streams_.empty();
  }
  return true;
}

void WorkerCore::EndStreams() {
  std::vector<std::shared_ptr<LiveStream>> streams;
  {
    base::MutexLock lock(&mutex_);
    for (const auto& [raw, weak] : streams_) {
      if (auto stream = weak.lock()) streams.push_back(std::move(stream));
    }
  }
  const absl::Status status =
      MakeError(absl::StatusCode::kUnavailable, {.reason = Reason::kDrained},
                "this worker is shutting down and its drain timeout is over; open a new attempt");
  for (const auto& stream : streams) stream->End(status);
}

size_t WorkerCore::streams() const {
  base::MutexLock lock(&mutex_);
  return streams_.size();
}

RouterSeat WorkerCore::JoinRouter(WorkerRole role) {
  base::MutexLock lock(&shares_mutex_);
  return {.role = role, .id = SharesOf(role).Join()};
}

void WorkerCore::SetDemand(const RouterSeat& router, const PlaceShares::Demand& demand) {
  base::MutexLock lock(&shares_mutex_);
  SharesOf(router.role).SetDemand(router.id, demand);
}

void WorkerCore::LeaveRouter(const RouterSeat& router) {
  {
    base::MutexLock lock(&shares_mutex_);
    SharesOf(router.role).Leave(router.id);
  }
  if (elastic_ != nullptr) elastic_->Forget(router);
}

PlaceShares::Share WorkerCore::ShareOf(const RouterSeat& router, const EngineFigures& figures) {
  base::MutexLock lock(&shares_mutex_);
  const int64_t others = SharesOf(OtherRole(router.role)).held();
  return SharesOf(router.role)
      .Of(router.id,
          {.places = static_cast<int32_t>(std::max<int64_t>(0, figures.places - others)),
           .short_of_blocks = figures.short_of_blocks,
           .seats = figures.seats,
           .ended = figures.ended,
           .step_prompt_tokens = figures.step_prompt_tokens},
          clock_->Now());
}

double WorkerCore::PromptLoadOf(const EngineFigures& figures) {
  if (identity_.role == WorkerRole::kDecode && !identity_.elastic) return 0;
  base::MutexLock lock(&shares_mutex_);
  return prompt_load_.Note(figures.prompt_tokens_computed, figures.prompt_token_s, clock_->Now());
}

void WorkerCore::BeginRoles(const RoleRuleOptions& options) {
  elastic_ =
      std::make_shared<ElasticRole>(options, identity_.role, identity_.incarnation, clock_, probe_);
  elastic_->LookAgain(&timers_);
}

}  // namespace baton
