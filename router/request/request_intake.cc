#include "router/request/request_intake.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/base/ticket.h"
#include "router/edge/answer_choice.h"
#include "router/edge/validation.h"
#include "router/request/answer_group.h"
#include "router/request/request_flow.h"

namespace baton {
namespace {

// Messages up to this size are read on the transport's threads, which takes a fraction of a
// millisecond, and larger ones on the pool.
constexpr size_t kReadHere = size_t{16} << 10;

}  // namespace

RequestIntake::RequestIntake(FlowContext* context)
    : context_(context), random_(context->options.seed.value_or(RandomBits())) {}

uint64_t RequestIntake::DrawSeed() {
  base::MutexLock lock(&mutex_);
  return random_();
}

void RequestIntake::Receive(ArrivedRequest request) {
  context_->probe->RequestReceived(request.transport);
  // Whoever may not ask may not fill the collector of traces either.
  if (!request.caller.ok()) return Refuse(request.caller.status(), request.sink.get(), nullptr);
  auto trace = RequestTrace::Begin(context_->tracer, request.trace, request.transport, request.at);
  absl::StatusOr<ByteBudget::Share> held =
      context_->budget->Take(request.caller->client, request.bytes);
  if (!held.ok()) return Refuse(held.status(), request.sink.get(), trace.get());
  Arrival arrival{.at = request.at,
                  .deadline = request.deadline,
                  .caller = *std::move(request.caller),
                  .sink = std::move(request.sink),
                  .transport = request.transport,
                  .bytes = request.bytes,
                  .held = std::move(held).value(),
                  .trace = std::move(trace)};
  if (request.bytes <= kReadHere) return Accept(std::move(arrival), request.read());
  ReceiveOnPool(std::make_shared<Arrival>(std::move(arrival)), request.bytes,
                std::move(request.read));
}

void RequestIntake::ReceiveOnPool(std::shared_ptr<Arrival> arrival, size_t bytes,
                                  std::function<IncomingRequest()> read) {
  const uint64_t id = context_->next_id++;
  const std::shared_ptr<ClientSink> sink = arrival->sink;
  // The sink holds this, so it must not hold the sink.
  sink->Attach(
      [this, id, weak = std::weak_ptr(sink), began = arrival->at, deadline = arrival->deadline] {
        const auto gone = weak.lock();
        if (gone != nullptr && context_->pool->Drop(id)) Leave(began, deadline, gone.get());
      });
  const absl::Status taken = context_->pool->Submit(
      {.id = id,
       .client = arrival->caller.client,
       .bytes = bytes,
       .run = [this, arrival, read = std::move(read)] { Accept(std::move(*arrival), read()); },
       .displaced =
           [this, arrival](const absl::Status& full) {
             Refuse(full, arrival->sink.get(), arrival->trace.get());
           }});
  if (!taken.ok()) Refuse(taken, sink.get(), arrival->trace.get());
}

void RequestIntake::Leave(base::Instant began, base::Instant deadline, ClientSink* sink) {
  const base::Instant now = context_->clock->Now();
  const absl::Status status = absl::CancelledError("the client cancelled or was lost");
  context_->probe->RequestEnded({.reason = FinishReason::kAborted,
                                 .status = status,
                                 .total = now - began,
                                 .slack = deadline - now});
  sink->Fail(status);
}

absl::StatusOr<RequestSpec> RequestIntake::Check(IncomingRequest incoming) {
  if (draining_) {
    return MakeError(absl::StatusCode::kUnavailable,
                     {.reason = Reason::kDraining, .retry_after = std::chrono::milliseconds(1000)},
                     "this router shuts down; send the request again");
  }
  BATON_RETURN_IF_ERROR(incoming.parsed);
  BATON_ASSIGN_OR_RETURN(RequestSpec spec,
                         ValidateSpec(incoming.spec, std::move(incoming.input), context_->model,
                                      context_->options, DrawSeed()));
  spec.special_tokens = incoming.special_tokens;
  spec.usual_max_tokens = incoming.usual_max_tokens;
  if (spec.request_id.empty()) {
    spec.request_id = absl::StrFormat("req-%016x", RandomBits());
  }
  return spec;
}

absl::Status RequestIntake::HoldForAnswers(const RequestSpec& spec, Arrival* arrival) {
  if (spec.answers == 1) return absl::OkStatus();
  BATON_RETURN_IF_ERROR(CheckRoomForAnswers(spec, arrival->bytes, context_->options));
  return arrival->held.Resize(arrival->bytes * static_cast<size_t>(spec.answers));
}

std::shared_ptr<LiveRequest> RequestIntake::MakeLive(RequestSpec spec, Arrival* arrival) {
  if (spec.answers == 1) {
    return std::make_shared<RequestFlow>(context_, std::move(spec), arrival->sink, arrival->at,
                                         arrival->deadline, std::move(arrival->trace));
  }
  return std::make_shared<AnswerGroup>(context_,
                                       AnswerGroup::Request{.spec = std::move(spec),
                                                            .sink = arrival->sink,
                                                            .arrived = arrival->at,
                                                            .deadline = arrival->deadline,
                                                            .transport = arrival->transport,
                                                            .trace = std::move(arrival->trace)});
}

void RequestIntake::Accept(Arrival arrival, IncomingRequest incoming) {
  RouterProbe* probe = context_->probe;
  if (absl::IsCancelled(incoming.parsed)) {
    return Leave(arrival.at, arrival.deadline, arrival.sink.get());
  }
  absl::StatusOr<RequestSpec> spec = Check(std::move(incoming));
  if (spec.ok()) {
    spec->tenant = arrival.caller.tenant;
    if (absl::Status held = HoldForAnswers(*spec, &arrival); !held.ok()) spec = std::move(held);
  }
  if (spec.ok()) {
    spec->client = std::move(arrival.caller.client);
    spec->cache_salt = SaltOf(*spec);
    spec->held = std::make_shared<ByteBudget::Share>(std::move(arrival.held));
    const std::string id = spec->request_id;
    const std::string tenant = spec->tenant;
    const StopParams stop = spec->stop;
    // What draws nothing has one token at its worker, which its client did not ask for.
    const int32_t asked = spec->only_prompt ? 0 : stop.max_tokens;
    const bool says_how_many = spec->only_prompt || stop.max_tokens > 0;
    RequestTrace* const trace = arrival.trace.get();  // the flow's, until it begins
    std::optional<std::string> name;
    if (trace != nullptr) name = LogName(id, trace);
    const auto live = MakeLive(std::move(spec).value(), &arrival);
    if (context_->registry->Add(tenant, id, live)) {
      if (says_how_many) probe->MaxTokensAsked(asked);
      if (stop.eos_policy != EosPolicy::kHonor) {
        probe->AskedToIgnoreEos(stop.eos_policy);
        if (context_->options.ignore_eos == IgnoreEosRule::kWarn) {
          spdlog::warn("request {} ignores EOS ({})", name.value_or(id),
                       std::string(EosPolicyName(stop.eos_policy)));
        }
      }
      return live->Begin();
    }
    spec = InvalidArgument(
        Reason::kConflictingOptions, "spec.request_id",
        absl::StrCat("request_id '", id, "' is in flight; use another one or leave it out"));
    if (trace != nullptr) trace->Refuse(spec.status());
  }
  Refuse(spec.status(), arrival.sink.get(), arrival.trace.get());
}

std::string RequestIntake::SaltOf(const RequestSpec& spec) const {
  if (context_->options.share_prefix_cache) return CacheSaltOf(std::nullopt, spec.cache_salt);
  return CacheSaltOf(spec.tenant, spec.cache_salt);
}

void RequestIntake::Refuse(const absl::Status& status, ClientSink* sink, RequestTrace* trace) {
  context_->probe->RefusedAtTheDoor(status);
  if (trace != nullptr) trace->Refuse(status);
  sink->Fail(status);
}

}  // namespace baton
