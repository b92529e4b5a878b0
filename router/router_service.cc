#include "router/router_service.h"

#include <iterator>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/base/ticket.h"
#include "common/rpc/status_map.h"
#include "common/sample/validate.h"
#include "router/edge/pool_call.h"
#include "router/edge/request_parse.h"
#include "router/edge/validation.h"
#include "router/request/request_flow.h"

namespace baton {
namespace {

// Messages up to this size are read on gRPC's threads, which takes a fraction of a millisecond, and
// larger ones on the pool.
constexpr size_t kReadHere = size_t{16} << 10;

template <typename Request>
RequestInput InputOf(Request* request) {
  if (request->has_token_ids()) {
    const auto& ids = request->token_ids().ids();
    return std::vector<TokenId>(ids.begin(), ids.end());
  }
  return std::move(*request->mutable_text());
}

RequestInput InputOf(v1::ChatGenerateRequest* request) {
  std::vector<ChatMessage> messages;
  for (v1::ChatMessage& message : *request->mutable_messages()) {
    messages.push_back({std::move(*message.mutable_role()), std::move(*message.mutable_content())});
  }
  return messages;
}

base::Instant DeadlineOf(const grpc::CallbackServerContext& context, base::Instant now,
                         base::Duration fallback) {
  const auto given = context.deadline();
  if (given == std::chrono::system_clock::time_point::max()) return now + fallback;
  const auto left = given - std::chrono::system_clock::now();
  // Far enough away is never, and must not overflow.
  if (left > std::chrono::hours(24 * 365)) return now + fallback;
  return now + std::chrono::duration_cast<base::Duration>(left);
}

}  // namespace

RouterService::RouterService(FlowContext* context, const CallerRules& callers)
    : context_(context), callers_(callers), random_(context->options.seed.value_or(RandomBits())) {}

uint64_t RouterService::DrawSeed() {
  base::MutexLock lock(&mutex_);
  return random_();
}

std::shared_ptr<StreamSink> RouterService::MakeStream(grpc::CallbackServerContext* context) {
  return StreamSink::Create(context,
                            {.buffer_bytes = static_cast<size_t>(context_->options.client_buffer),
                             .linger = context_->options.deadlines.slow_client,
                             .clock = context_->clock,
                             .timers = context_->timers});
}

grpc::ServerWriteReactor<grpc::ByteBuffer>* RouterService::Generate(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* request) {
  const auto sink = MakeStream(context);
  grpc::ServerWriteReactor<grpc::ByteBuffer>* reactor = sink.get();
  Receive<v1::GenerateRequest>(*context, request, sink);
  return reactor;
}

grpc::ServerUnaryReactor* RouterService::GenerateOnce(grpc::CallbackServerContext* context,
                                                      const grpc::ByteBuffer* request,
                                                      grpc::ByteBuffer* response) {
  const auto sink = UnarySink::Create(response);
  grpc::ServerUnaryReactor* reactor = sink.get();
  Receive<v1::GenerateOnceRequest>(*context, request, sink);
  return reactor;
}

grpc::ServerWriteReactor<grpc::ByteBuffer>* RouterService::ChatGenerate(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* request) {
  const auto sink = MakeStream(context);
  grpc::ServerWriteReactor<grpc::ByteBuffer>* reactor = sink.get();
  Receive<v1::ChatGenerateRequest>(*context, request, sink);
  return reactor;
}

template <typename Request>
void RouterService::Receive(const grpc::CallbackServerContext& context,
                            const grpc::ByteBuffer* request, std::shared_ptr<ClientSink> sink) {
  context_->probe->RequestReceived();
  absl::StatusOr<Caller> caller = CallerOf(context, callers_);
  if (!caller.ok()) return Refuse(caller.status(), sink.get());
  absl::StatusOr<ByteBudget::Share> held = context_->budget->Take(request->Length());
  if (!held.ok()) return Refuse(held.status(), sink.get());
  const base::Instant now = context_->clock->Now();
  Arrival arrival{.at = now,
                  .deadline = DeadlineOf(context, now, context_->options.deadlines.request),
                  .caller = *std::move(caller),
                  .sink = std::move(sink),
                  .held = std::move(held).value()};
  const size_t bytes = request->Length();
  if (bytes <= kReadHere) return Accept(std::move(arrival), Read<Request>(request));
  ReceiveOnPool(std::make_shared<Arrival>(std::move(arrival)), bytes,
                [request] { return Read<Request>(request); });
}

void RouterService::ReceiveOnPool(std::shared_ptr<Arrival> arrival, size_t bytes,
                                  std::function<Incoming()> read) {
  const uint64_t id = context_->next_id++;
  const std::shared_ptr<ClientSink> sink = arrival->sink;
  // The sink holds this, so it must not hold the sink.
  sink->Attach(
      [this, id, weak = std::weak_ptr(sink), began = arrival->at, deadline = arrival->deadline] {
        const auto gone = weak.lock();
        if (gone == nullptr || !context_->pool->Drop(id)) return;
        const base::Instant now = context_->clock->Now();
        const absl::Status status = absl::CancelledError("the client cancelled or was lost");
        context_->probe->RequestEnded({.reason = FinishReason::kAborted,
                                       .status = status,
                                       .total = now - began,
                                       .slack = deadline - now});
        gone->Fail(status);
      });
  const absl::Status taken = context_->pool->Submit(
      {.id = id,
       .client = arrival->caller.client,
       .bytes = bytes,
       .run = [this, arrival, read = std::move(read)] { Accept(std::move(*arrival), read()); }});
  if (!taken.ok()) Refuse(taken, sink.get());
}

template <typename Request>
RouterService::Incoming RouterService::Read(const grpc::ByteBuffer* request) {
  Incoming incoming;
  Request message;
  incoming.parsed = ParseRequest(*request, &message);
  // gRPC would keep the message until the call ends, and nobody reads it again.
  const_cast<grpc::ByteBuffer*>(request)->Clear();
  if (!incoming.parsed.ok()) return incoming;
  incoming.spec.Swap(message.mutable_spec());
  incoming.input = InputOf(&message);
  return incoming;
}

absl::StatusOr<RequestSpec> RouterService::Check(Incoming incoming) {
  if (draining_) {
    return MakeError(absl::StatusCode::kUnavailable,
                     {.reason = Reason::kDraining, .retry_after = std::chrono::milliseconds(1000)},
                     "this router shuts down; send the request again");
  }
  BATON_RETURN_IF_ERROR(incoming.parsed);
  BATON_ASSIGN_OR_RETURN(RequestSpec spec,
                         ValidateSpec(incoming.spec, std::move(incoming.input), context_->model,
                                      context_->options, DrawSeed()));
  if (spec.request_id.empty()) {
    spec.request_id = absl::StrFormat("req-%016x", RandomBits());
  }
  return spec;
}

void RouterService::Accept(Arrival arrival, Incoming incoming) {
  RouterProbe* probe = context_->probe;
  absl::StatusOr<RequestSpec> spec = Check(std::move(incoming));
  if (spec.ok()) {
    spec->tenant = std::move(arrival.caller.tenant);
    spec->client = std::move(arrival.caller.client);
    spec->cache_salt = SaltOf(*spec);
    spec->held = std::move(arrival.held);
    const std::string id = spec->request_id;
    const StopParams stop = spec->stop;
    const auto flow = std::make_shared<RequestFlow>(context_, std::move(spec).value(), arrival.sink,
                                                    arrival.at, arrival.deadline);
    if (context_->registry->Add(id, flow)) {
      if (stop.max_tokens > 0) probe->MaxTokensAsked(stop.max_tokens);
      if (stop.eos_policy != EosPolicy::kHonor) {
        probe->AskedToIgnoreEos(stop.eos_policy);
        if (context_->options.ignore_eos == IgnoreEosRule::kWarn) {
          spdlog::warn("request {} ignores EOS ({})", id,
                       std::string(EosPolicyName(stop.eos_policy)));
        }
      }
      return flow->Begin();
    }
    spec = InvalidArgument(
        Reason::kConflictingOptions, "spec.request_id",
        absl::StrCat("request_id '", id, "' is in flight; use another one or leave it out"));
  }
  Refuse(spec.status(), arrival.sink.get());
}

std::string RouterService::SaltOf(const RequestSpec& spec) const {
  if (context_->options.share_prefix_cache) return CacheSaltOf(std::nullopt, spec.cache_salt);
  return CacheSaltOf(spec.tenant, spec.cache_salt);
}

void RouterService::Refuse(const absl::Status& status, ClientSink* sink) {
  context_->probe->RefusedAtTheDoor(status);
  sink->Fail(status);
}

grpc::ServerUnaryReactor* RouterService::Answer(grpc::CallbackServerContext* context,
                                                const grpc::ByteBuffer& request,
                                                std::function<absl::Status()> answer) {
  const auto refuse = [context](const absl::Status& status) {
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    reactor->Finish(ToGrpcStatus(status));
    return reactor;
  };
  absl::StatusOr<Caller> caller = CallerOf(*context, callers_);
  if (!caller.ok()) return refuse(caller.status());
  absl::StatusOr<ByteBudget::Share> held = context_->budget->Take(request.Length());
  if (!held.ok()) return refuse(held.status());
  return PoolCall::Start(context_->pool,
                         {.id = context_->next_id++,
                          .client = std::move(caller->client),
                          .bytes = request.Length(),
                          .run = nullptr},
                         std::move(held).value(), std::move(answer));
}

grpc::ServerUnaryReactor* RouterService::Tokenize(grpc::CallbackServerContext* context,
                                                  const grpc::ByteBuffer* request,
                                                  grpc::ByteBuffer* response) {
  return Answer(context, *request, [this, request, response]() -> absl::Status {
    v1::TokenizeRequest message;
    BATON_RETURN_IF_ERROR(ParseRequest(*request, &message));
    BATON_RETURN_IF_ERROR(CheckModelName(message.model(), context_->model));
    const RequestInput input = std::move(*message.mutable_text());
    BATON_RETURN_IF_ERROR(CheckTextSize(input, context_->Limits(), context_->model));
    const bool special = !message.has_add_special_tokens() || message.add_special_tokens();
    BATON_ASSIGN_OR_RETURN(
        const std::vector<TokenId> ids,
        context_->model.tokenizer->Encode(std::get<std::string>(input), special));
    v1::TokenizeResponse answer;
    answer.mutable_token_ids()->Add(ids.begin(), ids.end());
    *response = SerializeResponse(answer);
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* RouterService::Detokenize(grpc::CallbackServerContext* context,
                                                    const grpc::ByteBuffer* request,
                                                    grpc::ByteBuffer* response) {
  return Answer(context, *request, [this, request, response]() -> absl::Status {
    BATON_RETURN_IF_ERROR(CheckIdsMessage(request->Length(), context_->Limits()));
    v1::DetokenizeRequest message;
    BATON_RETURN_IF_ERROR(ParseRequest(*request, &message));
    BATON_RETURN_IF_ERROR(CheckModelName(message.model(), context_->model));
    const std::vector<TokenId> ids(message.token_ids().begin(), message.token_ids().end());
    const int64_t most = context_->Limits().context;
    if (std::ssize(ids) > most) return TooLong("token_ids", "text", std::ssize(ids), most);
    BATON_RETURN_IF_ERROR(CheckTokenIds("token_ids", ids, context_->model.config.vocab));
    const bool skip = !message.has_skip_special_tokens() || message.skip_special_tokens();
    v1::DetokenizeResponse answer;
    answer.set_text(context_->model.tokenizer->Decode(ids, skip));
    *response = SerializeResponse(answer);
    return absl::OkStatus();
  });
}

}  // namespace baton
