#include "tools/generate/generate_client.h"

#include <chrono>
#include <utility>

#include "common/base/status.h"
#include "common/rpc/channel.h"
#include "common/rpc/status_map.h"
#include "grpcpp/grpcpp.h"

namespace baton {
namespace {

using Clock = std::chrono::steady_clock;

double MillisecondsSince(Clock::time_point begin) {
  return base::Milliseconds(Clock::now() - begin);
}

void Append(const v1::Delta& delta, Outcome* outcome) {
  outcome->text += delta.text();
  outcome->token_ids.insert(outcome->token_ids.end(), delta.token_ids().begin(),
                            delta.token_ids().end());
  outcome->logprobs.insert(outcome->logprobs.end(), delta.logprobs().begin(),
                           delta.logprobs().end());
  outcome->eos_steps.insert(outcome->eos_steps.end(), delta.eos_steps().begin(),
                            delta.eos_steps().end());
}

// Reads the stream to its end. Generate and ChatGenerate answer with the same events.
template <typename Response>
void ReadAll(grpc::ClientReader<Response>* reader, Clock::time_point begin,
             const GenerateClient::OnDelta& on_delta, Outcome* outcome) {
  Response response;
  bool finished = false;
  while (reader->Read(&response)) {
    if (response.has_started()) outcome->request_id = response.started().request_id();
    if (response.has_delta()) {
      if (outcome->token_ids.empty()) outcome->ttft_ms = MillisecondsSince(begin);
      Append(response.delta(), outcome);
      if (on_delta) on_delta(response.delta());
    }
    if (response.has_final()) {
      outcome->final = response.final();
      finished = true;
    }
  }
  outcome->total_ms = MillisecondsSince(begin);
  outcome->status = FromGrpcStatus(reader->Finish());
  for (const auto& [key, value] : DetailOf(outcome->status).values) {
    if (key == "request_id" && outcome->request_id.empty()) outcome->request_id = value;
  }
  if (outcome->status.ok() && !finished) {
    outcome->status = absl::InternalError("the stream ended without its final message");
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<GenerateClient>> GenerateClient::Connect(const ClientFlags& flags) {
  BATON_ASSIGN_OR_RETURN(const auto channel, MakeChannel(flags.server, ChannelOptionsOf(flags)));
  return std::unique_ptr<GenerateClient>(
      new GenerateClient(v1::InferenceService::NewStub(channel), flags));
}

Outcome GenerateClient::Run(const PromptRequest& request, const OnDelta& on_delta) {
  Outcome outcome;
  outcome.request_id = request.spec.request_id();
  if (!request.unsendable.ok()) {
    outcome.status = request.unsendable;
    return outcome;
  }
  const auto begin = Clock::now();
  grpc::ClientContext context;
  NameTenant(as_tenant_, &context);
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::duration_cast<std::chrono::system_clock::duration>(timeout_));
  if (const auto* messages = std::get_if<PromptRequest::Messages>(&request.input)) {
    v1::ChatGenerateRequest chat;
    *chat.mutable_spec() = request.spec;
    for (const v1::ChatMessage& message : *messages) *chat.add_messages() = message;
    ReadAll(stub_->ChatGenerate(&context, chat).get(), begin, on_delta, &outcome);
    return outcome;
  }
  v1::GenerateRequest generate;
  *generate.mutable_spec() = request.spec;
  if (const auto* ids = std::get_if<std::vector<int32_t>>(&request.input)) {
    generate.mutable_token_ids()->mutable_ids()->Assign(ids->begin(), ids->end());
  } else {
    generate.set_text(std::get<std::string>(request.input));
  }
  ReadAll(stub_->Generate(&context, generate).get(), begin, on_delta, &outcome);
  return outcome;
}

}  // namespace baton
