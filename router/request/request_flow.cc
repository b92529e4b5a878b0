#include "router/request/request_flow.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "router/edge/guide_choice.h"
#include "router/edge/sampling_choice.h"
#include "router/edge/text_edge.h"
#include "router/edge/validation.h"

namespace baton {
namespace {

// How often a flow looks for what has no event of its own: a client that takes nothing.
constexpr base::Duration kTickEvery = std::chrono::seconds(1);

}  // namespace

RequestFlow::RequestFlow(FlowContext* context, RequestSpec spec, std::shared_ptr<AnswerSink> sink,
                         base::Instant arrived, base::Instant deadline,
                         std::unique_ptr<RequestTrace> trace, AnswerPart* part)
    : context_(context),
      spec_(std::move(spec)),
      sink_(std::move(sink)),
      part_(part),
      arrived_(arrived),
      deadline_(deadline),
      text_work_(context->next_id++),
      logged_(context->eos_log != nullptr && !spec_.beams.on() &&
              context->eos_log->Samples(spec_.request_id)),
      trace_(std::move(trace)),
      waiting_since_(spec_.index == 0 ? arrived : context->clock->Now()),
      unix_arrived_(context->clock->UnixNow()) {
  if (trace_ != nullptr) trace_->Accept(spec_, context->model.name);
}

void RequestFlow::Post(Event event) {
  {
    base::MutexLock lock(&mutex_);
    mailbox_.push_back(std::move(event));
    if (running_) return;
    running_ = true;
  }
  const auto keep = shared_from_this();
  while (true) {
    std::optional<Event> next;
    {
      base::MutexLock lock(&mutex_);
      if (mailbox_.empty()) {
        running_ = false;
        return;
      }
      next.emplace(std::move(mailbox_.front()));
      mailbox_.pop_front();
    }
    Handle(*next);
  }
}

void RequestFlow::Handle(Event& event) {
  if (state_ == State::kDone) return;  // what a late placement holds is given back with it
  if (auto* call = std::get_if<CallEvent>(&event)) {
    OnCall(*call);
  } else if (auto* ready = std::get_if<PromptReady>(&event)) {
    OnPromptReady(*ready);
  } else if (auto* begun = std::get_if<BegunBeside>(&event)) {
    OnBegunBeside(*begun);
  } else if (auto* placed = std::get_if<Placed>(&event)) {
    OnPlaced(*placed);
  } else if (std::holds_alternative<ClientGone>(event)) {
    OnClientGone();
  } else if (const auto* ended = std::get_if<EndedFromOutside>(&event)) {
    Fail(ended->status, ended->reason);
  } else if (std::get<Tick>(event).at == tick_at_) {
    tick_at_ = base::kNever;
    OnTick();
  }
  if (state_ != State::kDone) ArmTick();
}

void RequestFlow::Begin() {
  const std::weak_ptr<RequestFlow> weak = weak_from_this();
  sink_->Attach([weak] {
    if (const auto self = weak.lock()) self->Post(ClientGone{});
  });
  if (const absl::Status fits = CheckTextSize(spec_.input, context_->Limits(), context_->model);
      !fits.ok()) {
    return Post(PromptReady{fits, ""});
  }
  const auto tokenize = [weak, context = context_] {
    const auto self = weak.lock();
    if (self == nullptr) return;
    if (absl::Status guide = CheckGuide(self->spec_.guide, context->guides); !guide.ok()) {
      return self->Post(PromptReady{std::move(guide), ""});
    }
    PromptReady ready{TokenizeInput(self->spec_.input, context->model, self->spec_.special_tokens,
                                    self->unix_arrived_),
                      ""};
    if (self->spec_.echo && ready.prompt.ok()) {
      ready.text = context->model.tokenizer->Decode(*ready.prompt, self->spec_.skip_special_tokens);
    }
    self->Post(std::move(ready));
  };
  const auto refuse = [weak](const absl::Status& full) {
    if (const auto self = weak.lock()) self->Post(PromptReady{full, ""});
  };
  const absl::Status taken = context_->pool->Submit({.id = text_work_,
                                                     .client = spec_.client,
                                                     .bytes = InputBytes(spec_.input),
                                                     .run = tokenize,
                                                     .displaced = refuse});
  if (!taken.ok()) refuse(taken);
}

void RequestFlow::BeginBeside(std::optional<WorkerKey> decode) {
  sink_->Attach([weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->Post(ClientGone{});
  });
  Post(BegunBeside{std::move(decode)});
}

void RequestFlow::EndByDrain() {
  EndWith(MakeError(absl::StatusCode::kUnavailable,
                    {.reason = Reason::kDrained, .retry_after = std::chrono::milliseconds(1000)},
                    "the router shuts down and its drain time is over; send the request again"),
          FinishReason::kError);
}

void RequestFlow::EndWith(const absl::Status& status, FinishReason reason) {
  Post(EndedFromOutside{status, reason});
}

absl::Status RequestFlow::TakePrompt(std::vector<TokenId> prompt) {
  spec_.prompt = std::move(prompt);
  spec_.input = std::string();  // no longer needed
  if (spec_.held != nullptr) {
    BATON_RETURN_IF_ERROR(spec_.held->Resize(spec_.prompt.size() * sizeof(TokenId) *
                                             static_cast<size_t>(spec_.answers)));
  }
  return FitLengths(context_->Limits(), context_->model, &spec_);
}

void RequestFlow::OnPromptReady(PromptReady& ready) {
  if (!ready.prompt.ok()) return Reject(ready.prompt.status());
  const absl::Status fits = TakePrompt(std::move(ready.prompt).value());
  if (!fits.ok()) return Reject(fits);
  BeginAnswer(std::move(ready.text));
}

void RequestFlow::OnBegunBeside(BegunBeside& begun) {
  beside_ = std::move(begun.decode);
  BeginAnswer("");
}

void RequestFlow::BeginAnswer(std::string echoed) {
  output_.emplace(spec_, context_->model);
  shown_.prompt_tokens = static_cast<int32_t>(spec_.prompt.size());
  if (logged_) {
    eos_rows_ = std::make_unique<EosRequestLog>(
        context_->eos_log,
        EosRequestFacts{.request_id = spec_.request_id,
                        .index = spec_.index,
                        .eos_token_id = context_->model.primary_eos(),
                        .prompt_length = static_cast<int32_t>(spec_.prompt.size()),
                        .policy = spec_.stop.eos_policy});
  }
  EnterQueue();
  if (state_ != State::kQueued) return;
  v1::Started started;
  started.set_request_id(spec_.request_id);
  started.set_model(context_->model.name);
  started.set_prompt_tokens(static_cast<int32_t>(spec_.prompt.size()));
  started.set_seed(spec_.sampling.seed);
  *started.mutable_sampling() = SamplingNumbers(spec_.sampling);
  sink_->Start(std::move(started));
  ShowPrompt(std::move(echoed));
}

RoutingNeed RequestFlow::NeedNow() const {
  RoutingNeed need;
  need.tokens = static_cast<int64_t>(spec_.prompt.size()) + output_->size();
  // Before its length is settled, it needs a worker for the least that it may have.
  const int64_t left = spec_.stop.max_tokens > 0 ? spec_.stop.max_tokens - output_->size()
                                                 : std::max(1, spec_.stop.min_tokens);
  need.peak_tokens = need.tokens + std::max<int64_t>(0, left);
  if (spec_.beams.on()) {
    need.beam_tokens = need.peak_tokens;
    need.peak_tokens =
        BeamPoolTokens(need.tokens, left, spec_.beams.width, context_->directory->BlockTokens());
  }
  need.fingerprint = fingerprint_;
  need.avoid = ledger_.Avoid(context_->clock->Now());
  need.unfit = ledger_.unfit();
  need.prefix = PrefixOf(Progress(), output_->ids().size(), *context_);
  // The token before the first that is scored has logits that no cache holds.
  if (const int32_t score = NextScore(); score > 0) need.cacheable_tokens = score - 1;
  if (!tried_) need.beside = beside_;
  return need;
}

void RequestFlow::EnterQueue() {
  waiter_ = context_->next_id++;
  Admission::Waiter waiter{.waiting = {.id = waiter_,
                                       .arrived = arrived_,
                                       .need = NeedNow(),
                                       // A further answer was counted with the first one.
                                       .is_new = !tried_ && spec_.index == 0,
                                       .answers = spec_.answers,
                                       .tenant = spec_.tenant,
                                       .prompt_tokens = std::ssize(spec_.prompt)},
                           .done = nullptr};
  waiter.done = [weak = weak_from_this(), id = waiter_](absl::StatusOr<Placement> placement) {
    if (const auto self = weak.lock()) self->Post(Placed{id, std::move(placement)});
  };
  EnterState(State::kQueued);
  const absl::Status queued = context_->admission->Enqueue(std::move(waiter));
  if (!queued.ok()) RejectByQueue(queued);
}

void RequestFlow::RejectByQueue(const absl::Status& full) {
  waiter_ = 0;
  context_->probe->QueueRefused();
  Reject(full);
}

void RequestFlow::OnPlaced(Placed& placed) {
  if (state_ != State::kQueued || placed.waiter != waiter_) return;
  waiter_ = 0;
  if (ReasonOf(placed.placement.status()) == Reason::kQueueFull) {
    return RejectByQueue(placed.placement.status());
  }
  if (!placed.placement.ok()) return FailUnplaced(placed.placement.status());
  if (spec_.stop.max_tokens == 0) {
    // No worker was known when the request came. What this one takes is its limit from now on.
    const WorkerView& worker = placed.placement->decode.view;
    const auto prompt = static_cast<int64_t>(spec_.prompt.size());
    int64_t room = worker.context() - prompt;
    if (spec_.beams.on()) {
      room = std::min(room, BeamOutputThatFits(prompt, spec_.beams.width,
                                               std::max(1, worker.facts.layout.block_size),
                                               worker.pool_tokens()));
    }
    spec_.stop.max_tokens = static_cast<int32_t>(room);
  }
  OpenAttempt(std::move(placed.placement).value());
}

// Whom placement takes for large enough, and who said otherwise, is there and healthy.
void RequestFlow::FailUnplaced(const absl::Status& status) {
  const size_t unfit = ledger_.unfit().size();
  if (unfit == 0) return Fail(status, FinishReason::kError);
  Fail(MakeError(status.code(), DetailOf(status),
                 absl::StrCat(std::string(status.message()), "; ", unfit,
                              " that should have room for it found it too long, the last one: ",
                              std::string(last_failure_.message()))),
       FinishReason::kError);
}

void RequestFlow::OnClientGone() {
  // A client's own deadline cancels its call; the difference is only in what we report.
  const bool late = context_->clock->Now() + std::chrono::milliseconds(50) >= deadline_;
  if (late) return FailByDeadline();
  Fail(absl::CancelledError("the client cancelled or was lost"), FinishReason::kAborted);
}

void RequestFlow::OnTick() {
  const base::Instant now = context_->clock->Now();
  if (now >= deadline_) return FailByDeadline();
  const auto stalled = sink_->StalledSince();
  if (stalled && now - *stalled >= context_->options.deadlines.slow_client) {
    return Fail(MakeError(absl::StatusCode::kResourceExhausted, {.reason = Reason::kSlowClient},
                          "the client took nothing for too long; read the stream faster"),
                FinishReason::kError);
  }
  if (pending_end_ && now >= end_by_) return Finish(*pending_end_);
  if (now >= settle_at_) {
    settle_at_ = base::kNever;
    return RetryOrGiveUp();
  }
  if (attempt_ == nullptr || now < attempt_->due()) return;
  if (const auto failure = attempt_->Overdue(now)) FailAttempt(*failure);
}

void RequestFlow::StopWaiting() {
  if (!waiting_since_) return;
  waited_until_ = context_->clock->Now();
  const base::Duration waited = waited_until_ - *waiting_since_;
  waiting_since_.reset();
  timings_.set_queue_ms(timings_.queue_ms() + base::Milliseconds(waited));
}

void RequestFlow::ArmTick() {
  const base::Instant now = context_->clock->Now();
  base::Instant next = std::min({deadline_, end_by_, settle_at_, now + kTickEvery});
  if (attempt_ != nullptr) next = std::min(next, attempt_->due());
  if (next >= tick_at_) return;
  tick_at_ = next;
  context_->timers->At(next, [weak = weak_from_this(), next] {
    if (const auto self = weak.lock()) self->Post(Tick{next});
  });
}

std::string_view RequestFlow::StageOf(State state) {
  switch (state) {
    case State::kPreparing:
    case State::kDone:
      return "";
    case State::kQueued:
    case State::kReserving:
      return "queued";
    case State::kPrefilling:
      return "prefilling";
    case State::kDecoding:
      return "decoding";
  }
  return "";
}

std::string RequestFlow::Name() const {
  const std::string id =
      spec_.index == 0 ? spec_.request_id : absl::StrCat(spec_.request_id, " answer ", spec_.index);
  return LogName(id, trace_.get());
}

void RequestFlow::AddReports(std::vector<RequestReport>* reports) const {
  reports->push_back(Report());
}

RequestReport RequestFlow::Report() const {
  RequestReport report{.id = spec_.request_id,
                       .index = spec_.index,
                       .age = context_->clock->Now() - arrived_,
                       .prompt_tokens = shown_.prompt_tokens,
                       .tokens = shown_.tokens};
  switch (shown_.state) {
    case State::kPreparing:
    case State::kQueued:
      report.stage = RequestStage::kQueued;
      break;
    case State::kReserving:
      report.stage = RequestStage::kReserving;
      break;
    case State::kPrefilling:
      report.stage = RequestStage::kPrefilling;
      break;
    case State::kDecoding:
    case State::kDone:
      report.stage = RequestStage::kDecoding;
  }
  if (shown_.expected_remaining > 0) {
    report.foreseen = {
        .expected_remaining = shown_.expected_remaining, .p50 = shown_.p50, .p90 = shown_.p90};
  }
  return report;
}

void RequestFlow::EnterState(State state) {
  context_->probe->StageChanged(StageOf(state_), StageOf(state));
  state_ = state;
  shown_.state = state;
  if (trace_ == nullptr) return;
  if (state == State::kQueued) trace_->Enter("queue");
  if (state == State::kPrefilling) trace_->Enter("prefill");
  if (state == State::kDecoding) trace_->Enter("decode");
}

void RequestFlow::RetryOrGiveUp() {
  const auto alive = [this](const WorkerKey& key) { return context_->directory->IsAlive(key); };
  const RouterOptions& options = context_->options;
  const base::Instant now = context_->clock->Now();
  if (ledger_.NeedsCertainty(options.attempts.killed) && now < settle_until_) {
    EnterState(State::kQueued);
    settle_at_ = settle_until_;
    return;
  }
  if (const auto verdict = ledger_.Verdict(alive, options.attempts, last_failure_)) {
    return Fail(*verdict, FinishReason::kError);
  }
  EnterQueue();
}

}  // namespace baton
