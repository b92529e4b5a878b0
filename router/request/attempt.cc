#include "router/request/attempt.h"

#include <algorithm>
#include <utility>

#include "common/base/status.h"
#include "router/request/flow_context.h"

namespace baton {
namespace {

// The router's own clock decides about deadlines; the workers' copy is only a safety net.
constexpr base::Duration kDeadlineSlack = std::chrono::seconds(2);
// How often a worker is asked after whose answer is overdue.
constexpr base::Duration kAskAfterEvery = std::chrono::milliseconds(500);

int32_t WholeMilliseconds(base::Duration duration) {
  return static_cast<int32_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(duration).count());
}

}  // namespace

Attempt::Attempt(FlowContext* context, const RequestProgress& progress, int32_t number,
                 Placement placement, RoutingNeed need, CallSink sink, base::Instant deadline)
    : context_(context),
      progress_(progress),
      number_(number),
      first_index_(progress.output.size()),
      placement_(std::move(placement)),
      need_(std::move(need)),
      sink_(std::move(sink)),
      deadline_(deadline),
      decode_call_(context->next_id++) {
  const RouterDeadlines& deadlines = context_->options.deadlines;
  if (!local()) {
    // A worker that is only slow to say FULL has said FULL, and broke nothing.
    const base::Instant now = context_->clock->Now();
    Await("answer to the reservation", AttemptOutcome::kFull,
          now + deadlines.reserve + deadlines.answer_grace, now + deadlines.slow_answer);
  }
  context_->probe->AttemptOpened(placement_);
  placement_.tenant.SetOpened();
  worker::v1::DecodeStart start;
  *start.mutable_generation() = Generation();
  start.set_local_prefill(local());
  start.set_reserve_timeout_ms(WholeMilliseconds(deadlines.reserve));
  decode_ = DecodeCall::Open(placement_.decode.view.link->decode.get(), std::move(start),
                             OptionsOfCall(decode_call_));
}

Attempt::~Attempt() {
  if (prefill_ != nullptr) prefill_->Cancel();
  if (decode_ != nullptr) decode_->Cancel();
}

worker::v1::Generation Attempt::Generation() const {
  worker::v1::Generation generation = GenerationOf(progress_, *context_);
  generation.set_attempt(number_);
  generation.set_model_fingerprint(fingerprint());
  return generation;
}

CallOptions Attempt::OptionsOfCall(uint64_t call) const {
  const base::Duration left = deadline_ - context_->clock->Now() + kDeadlineSlack;
  return {.call = call,
          .deadline = std::chrono::system_clock::now() +
                      std::chrono::duration_cast<std::chrono::system_clock::duration>(left),
          .sink = sink_,
          .trace = progress_.trace != nullptr ? std::optional(*progress_.trace) : std::nullopt};
}

void Attempt::OpenPrefill() {
  const WorkerView& decode = placement_.decode.view;
  const WorkerView& prefill = placement_.prefill->view;
  prefill_call_ = context_->next_id++;
  prefill_opened_ = context_->clock->Now();
  prefill_worker_ = prefill.address;
  worker::v1::PrefillRequest request;
  *request.mutable_generation() = Generation();
  *request.mutable_ticket() = ticket_;
  request.set_push_address(push_address_);
  request.set_skip_blocks(skip_blocks_);
  KvShapeToProto(decode.facts.layout, request.mutable_layout());
  prefill_ = PrefillCall::Open(prefill.link->prefill.get(), std::move(request),
                               OptionsOfCall(prefill_call_));
}

bool Attempt::TryOtherPrefill(const absl::Status& status) {
  const AttemptOutcome outcome = OutcomeOfStatus(status);
  const Reason reason = ReasonOf(status);
  if (outcome != AttemptOutcome::kFull && reason != Reason::kDraining) return false;
  const WorkerKey refused = placement_.prefill->view.key();
  context_->directory->MarkFull(refused);
  need_.avoid.insert(refused);
  auto other = context_->placer->PlaceOtherPrefill(need_, placement_.decode.view);
  context_->probe->PrefillOfferedAgain(other.has_value());
  if (!other) return false;
  placement_.prefill = std::move(*other);
  OpenPrefill();
  return true;
}

void Attempt::Await(const char* answer, AttemptOutcome if_slow, base::Instant due,
                    base::Instant give_up_at) {
  awaited_ = answer;
  if_slow_ = if_slow;
  due_ = due;
  give_up_at_ = give_up_at;
}

std::optional<AttemptFailure> Attempt::Overdue(base::Instant now) {
  const bool alive = context_->directory->IsFresh(placement_.decode.view.key());
  if (alive && now < give_up_at_) {
    due_ = std::min(now + kAskAfterEvery, give_up_at_);
    return std::nullopt;
  }
  return AttemptFailure{
      .outcome = alive ? if_slow_ : AttemptOutcome::kStreamBroken,
      .status = absl::UnavailableError(std::string("no ") + awaited_ + " in time")};
}

Attempt::Blame Attempt::BlameFor(const AttemptFailure& failure) const {
  const WorkerView& decode = placement_.decode.view;
  const bool of_prefill = failure.blamed == WorkerKind::kPrefill && !local();
  // When a push fails it is its receiver that may have died: the sender was there to say so.
  const bool push_failed = failure.outcome == AttemptOutcome::kPushFailed ||
                           failure.outcome == AttemptOutcome::kUnknownTicket;
  Blame blame{
      .outcome = failure.outcome,
      .suspect = of_prefill && !push_failed ? placement_.prefill->view.key() : decode.key()};
  if (push_failed && !local()) {
    context_->directory->MarkFailedPair(prefill_worker_, decode_worker());
  }
  const bool broken = failure.outcome == AttemptOutcome::kStreamBroken;
  if (broken || push_failed) context_->directory->MarkSuspect(blame.suspect);
  if (broken && !context_->directory->IsAlive(blame.suspect)) {
    blame.outcome = AttemptOutcome::kWorkerDied;
  }
  // What it found too long says nothing of other requests.
  const bool of_worker = blame.outcome != AttemptOutcome::kTooLong;
  if (of_worker && !CountsAgainstRequest(blame.outcome)) {
    context_->directory->MarkFull(blame.suspect);
  }
  return blame;
}

void Attempt::Release(FinishReason reason) {
  if (!finished()) decode_->Release(reason);
}

void Attempt::End(AttemptOutcome outcome, FinishReason release) {
  context_->probe->AttemptEnded(outcome);
  placement_.tenant.SetOutput(OutputTokens());
  LearnAnswer();
  if (prefill_ != nullptr) prefill_over_ ? prefill_->Forget() : prefill_->Cancel();
  prefill_.reset();
  const std::shared_ptr<DecodeCall> decode = std::move(decode_);
  if (finished()) {
    decode->Forget();
  } else if (release != FinishReason::kNone) {
    decode->Release(release);
  } else {
    return decode->Cancel();
  }
  // A worker that does not end its stream is cancelled after all.
  const std::weak_ptr<DecodeCall> weak = decode;
  context_->timers->At(context_->clock->Now() + context_->options.deadlines.release, [weak] {
    if (const auto call = weak.lock()) call->Cancel();
  });
}

std::optional<int64_t> Attempt::OutputTokens() const {
  if (progress_.spec.beams.on() && started() && !finished()) return std::nullopt;
  return progress_.output.size() - first_index_ + beam_tokens_;
}

void Attempt::LearnPrompt(const worker::v1::DecodeStarted& started) const {
  if (need_.prefix == nullptr) return;
  const WorkerKey key = placement_.decode.view.key();
  // A first attempt's prompt is all that is computed, so that the worker's count tells.
  const bool tells = local() && first_index_ == 0;
  if (tells && started.cached_tokens() < placement_.held_tokens) {
    context_->directory->MarkNotHeld(key);
  }
  context_->directory->MarkHeld(key, *need_.prefix);
}

void Attempt::LearnHandoff() const {
  if (local() || context_->options.local_prefill_below) return;
  const int64_t block = std::max(1, placement_.decode.view.facts.layout.block_size);
  const int64_t sent = std::max<int64_t>(0, need_.tokens - skip_blocks_ * block);
  // Where the first token is heard of last, nothing was waited for.
  const base::Instant now = context_->clock->Now();
  context_->directory->MarkHandedOver(sent, now - first_token_at_.value_or(now));
}

void Attempt::LearnAnswer() const {
  const AcceptedOutput& output = progress_.output;
  if (!started() || output.size() == first_index_) return;
  // A conversation's next prompt begins with the answer. Its last token was not computed.
  if (const auto prefix = PrefixOf(progress_, output.ids().size() - 1, *context_)) {
    context_->directory->MarkHeld(placement_.decode.view.key(), *prefix);
  }
}

}  // namespace baton
