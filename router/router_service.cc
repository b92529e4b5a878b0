#include "router/router_service.h"

#include <iterator>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/rpc/status_map.h"
#include "common/rpc/trace_metadata.h"
#include "common/sample/validate.h"
#include "router/edge/pool_call.h"
#include "router/edge/request_parse.h"
#include "router/edge/validation.h"

namespace baton {
namespace {

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

RouterService::RouterService(FlowContext* context, const CallerRules& callers,
                             RequestIntake* intake)
    : context_(context), callers_(callers), intake_(intake) {}

std::shared_ptr<StreamSink> RouterService::MakeStream(grpc::CallbackServerContext* context) {
  return StreamSink::Create(context,
                            {.buffer_bytes = static_cast<size_t>(context_->options.client_buffer),
                             .linger = LingerOfClients(),
                             .predictions_dropped = [probe = context_->probe](size_t count) {
                               probe->PredictionsDropped(count);
                             }});
}

LingerOptions RouterService::LingerOfClients() const {
  return {.time = context_->options.deadlines.slow_client,
          .clock = context_->clock,
          .timers = context_->timers};
}

grpc::ServerWriteReactor<grpc::ByteBuffer>* RouterService::Generate(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* request) {
  const auto sink = MakeStream(context);
  grpc::ServerWriteReactor<grpc::ByteBuffer>* reactor = sink.get();
  Receive<v1::GenerateRequest>(*context, CallerOf(*context, callers_), request, sink);
  return reactor;
}

grpc::ServerUnaryReactor* RouterService::GenerateOnce(grpc::CallbackServerContext* context,
                                                      const grpc::ByteBuffer* request,
                                                      grpc::ByteBuffer* response) {
  absl::StatusOr<Caller> caller = CallerOf(*context, callers_);
  const auto sink = UnarySink::Create(context, response, LingerOfClients(), context_->budget,
                                      caller.ok() ? caller->client : "");
  grpc::ServerUnaryReactor* reactor = sink.get();
  Receive<v1::GenerateOnceRequest>(*context, std::move(caller), request, sink);
  return reactor;
}

grpc::ServerWriteReactor<grpc::ByteBuffer>* RouterService::ChatGenerate(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* request) {
  const auto sink = MakeStream(context);
  grpc::ServerWriteReactor<grpc::ByteBuffer>* reactor = sink.get();
  Receive<v1::ChatGenerateRequest>(*context, CallerOf(*context, callers_), request, sink);
  return reactor;
}

template <typename Request>
void RouterService::Receive(const grpc::CallbackServerContext& context,
                            absl::StatusOr<Caller> caller, const grpc::ByteBuffer* request,
                            std::shared_ptr<ClientSink> sink) {
  const base::Instant now = context_->clock->Now();
  intake_->Receive({.at = now,
                    .deadline = DeadlineOf(context, now, context_->options.deadlines.request),
                    .caller = std::move(caller),
                    .sink = std::move(sink),
                    .bytes = request->Length(),
                    .trace = context_->tracer != nullptr ? TraceContextOf(context) : std::nullopt,
                    .read = [request] { return Read<Request>(request); }});
}

template <typename Request>
IncomingRequest RouterService::Read(const grpc::ByteBuffer* request) {
  IncomingRequest incoming;
  Request message;
  incoming.parsed = ParseRequest(*request, &message);
  // gRPC would keep the message until the call ends, and nobody reads it again.
  const_cast<grpc::ByteBuffer*>(request)->Clear();
  if (!incoming.parsed.ok()) return incoming;
  incoming.spec.Swap(message.mutable_spec());
  incoming.input = InputOf(&message);
  return incoming;
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
  absl::StatusOr<ByteBudget::Share> held = context_->budget->Take(caller->client, request.Length());
  if (!held.ok()) return refuse(held.status());
  return PoolCall::Start(context, LingerOfClients(), context_->pool,
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
