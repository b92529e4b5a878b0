// The part of RequestFlow that begins and ends attempts.
#include <utility>

#include "common/base/log.h"
#include "common/base/status.h"
#include "router/request/request_flow.h"

namespace baton {
namespace {

// The router's own clock decides about deadlines; the workers' copy is only a safety net.
constexpr base::Duration kDeadlineSlack = std::chrono::seconds(2);

int32_t WholeMilliseconds(base::Duration duration) {
  return static_cast<int32_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(duration).count());
}

}  // namespace

worker::v1::Generation RequestFlow::GenerationNow() const {
  SequenceSpec sequence;
  sequence.prompt = spec_.prompt;
  sequence.generated = output_->ids();
  sequence.sampling = spec_.sampling;
  sequence.stop = spec_.stop;
  sequence.natural_end_step = output_->natural_end_step();
  sequence.cache_salt = spec_.cache_salt;
  sequence.waited = context_->clock->Now() - arrived_;
  worker::v1::Generation generation;
  SpecToProto(sequence, &generation);
  generation.set_request_id(spec_.request_id);
  generation.set_attempt(attempt_->number);
  generation.set_model_fingerprint(attempt_->placement.decode.view.facts.fingerprint);
  generation.set_eos_signals(spec_.eos_steps || context_->eos_log != nullptr);
  return generation;
}

CallOptions RequestFlow::OptionsOfCall(uint64_t call) {
  const base::Duration left = deadline_ - context_->clock->Now() + kDeadlineSlack;
  return {.call = call,
          .deadline = std::chrono::system_clock::now() +
                      std::chrono::duration_cast<std::chrono::system_clock::duration>(left),
          .sink = [weak = weak_from_this()](CallEvent event) {
            if (const auto self = weak.lock()) self->Post(std::move(event));
          }};
}

void RequestFlow::OpenAttempt(Placement placement) {
  const base::Instant now = context_->clock->Now();
  ++attempts_;
  tried_ = true;
  attempt_ = std::make_unique<Attempt>();
  attempt_->number = attempts_;
  attempt_->first_index = output_->size();
  attempt_->need = NeedNow();
  attempt_->placement = std::move(placement);
  attempt_->decode_call = context_->next_id++;
  worker_done_ = false;
  const WorkerView& decode = attempt_->placement.decode.view;
  decode_worker_ = decode.address;
  prefill_worker_.clear();
  const RouterDeadlines& deadlines = context_->options.deadlines;
  if (attempt_->local()) {
    StopWaiting();
  } else {
    // A worker that is only slow to say FULL has said FULL, and broke nothing.
    attempt_->Await("answer to the reservation", AttemptOutcome::kFull,
                    now + deadlines.reserve + deadlines.answer_grace, now + deadlines.slow_answer);
  }
  context_->probe->AttemptOpened(attempt_->placement);
  EnterState(State::kReserving);
  worker::v1::DecodeStart start;
  *start.mutable_generation() = GenerationNow();
  start.set_local_prefill(attempt_->local());
  start.set_reserve_timeout_ms(WholeMilliseconds(deadlines.reserve));
  attempt_->decode = DecodeCall::Open(decode.link->decode.get(), std::move(start),
                                      OptionsOfCall(attempt_->decode_call));
}

void RequestFlow::OpenPrefill() {
  const WorkerView& decode = attempt_->placement.decode.view;
  const WorkerView& prefill = attempt_->placement.prefill->view;
  attempt_->prefill_call = context_->next_id++;
  attempt_->prefill_opened = context_->clock->Now();
  prefill_worker_ = prefill.address;
  worker::v1::PrefillRequest request;
  *request.mutable_generation() = GenerationNow();
  *request.mutable_ticket() = attempt_->ticket;
  request.set_push_address(attempt_->push_address);
  request.set_skip_blocks(attempt_->skip_blocks);
  KvShapeToProto(decode.facts.layout, request.mutable_layout());
  attempt_->prefill = PrefillCall::Open(prefill.link->prefill.get(), std::move(request),
                                        OptionsOfCall(attempt_->prefill_call));
}

bool RequestFlow::TryOtherPrefill(const absl::Status& status) {
  const AttemptOutcome outcome = OutcomeOfStatus(status);
  const Reason reason = ReasonOf(status);
  if (outcome != AttemptOutcome::kFull && reason != Reason::kDraining) return false;
  const WorkerKey refused = attempt_->placement.prefill->view.key();
  context_->directory->MarkFull(refused);
  attempt_->need.avoid.insert(refused);
  auto other = context_->placer->PlaceOtherPrefill(attempt_->need, attempt_->placement.decode.view);
  context_->probe->PrefillOfferedAgain(other.has_value());
  if (!other) return false;
  attempt_->placement.prefill = std::move(*other);
  OpenPrefill();
  return true;
}

void RequestFlow::FailAttempt(AttemptOutcome outcome, const absl::Status& status,
                              WorkerKind blamed) {
  const WorkerView& decode = attempt_->placement.decode.view;
  const WorkerView& culprit = blamed == WorkerKind::kPrefill && !attempt_->local()
                                  ? attempt_->placement.prefill->view
                                  : decode;
  // When a push fails it is its receiver that may have died: the sender was there to say so.
  const bool push_failed =
      outcome == AttemptOutcome::kPushFailed || outcome == AttemptOutcome::kUnknownTicket;
  const WorkerKey suspect = push_failed ? decode.key() : culprit.key();
  if (push_failed && !attempt_->local()) {
    context_->directory->MarkFailedPair(prefill_worker_, decode_worker_);
  }
  if (outcome == AttemptOutcome::kStreamBroken || push_failed) {
    context_->directory->MarkSuspect(suspect);
  }
  if (outcome == AttemptOutcome::kStreamBroken && !context_->directory->IsAlive(suspect)) {
    outcome = AttemptOutcome::kWorkerDied;
  }
  if (!CountsAgainstRequest(outcome)) context_->directory->MarkFull(suspect);
  const base::Instant now = context_->clock->Now();
  // Attempts count what broke; a worker without room broke nothing.
  if (outcome == AttemptOutcome::kFull) --attempts_;
  if (!waiting_since_) waiting_since_ = now;
  spdlog::log(outcome == AttemptOutcome::kFull ? spdlog::level::info : spdlog::level::warn,
              "request {}: attempt {} on {} {} ended {} after {} tokens: {}", spec_.request_id,
              attempt_->number, decode_worker_, prefill_worker_,
              std::string(AttemptOutcomeName(outcome)), output_->size(),
              std::string(status.message()));
  ledger_.Record(outcome, {suspect}, now, context_->options.deadlines.avoid);
  last_failure_ = status;
  settle_until_ = now + context_->options.deadlines.settle;
  EndAttempt(outcome, FinishReason::kNone);
  if (pending_end_) return Finish(*pending_end_);
  RetryOrGiveUp();
}

void RequestFlow::EndAttempt(AttemptOutcome outcome, FinishReason release) {
  if (attempt_ == nullptr) return;
  const std::unique_ptr<Attempt> attempt = std::move(attempt_);
  if (output_->size() > 0) fingerprint_ = attempt->placement.decode.view.facts.fingerprint;
  context_->probe->AttemptEnded(outcome);
  LearnAnswer(*attempt);
  if (attempt->prefill != nullptr) {
    attempt->prefill_over ? attempt->prefill->Forget() : attempt->prefill->Cancel();
  }
  if (attempt->decode == nullptr) return;
  if (worker_done_) {
    attempt->decode->Forget();
  } else if (release != FinishReason::kNone) {
    attempt->decode->Release(release);
  } else {
    return attempt->decode->Cancel();
  }
  // A worker that does not end its stream is cancelled after all.
  const std::weak_ptr<DecodeCall> weak = attempt->decode;
  context_->timers->At(context_->clock->Now() + context_->options.deadlines.release, [weak] {
    if (const auto call = weak.lock()) call->Cancel();
  });
}

}  // namespace baton
