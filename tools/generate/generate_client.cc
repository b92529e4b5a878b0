#include "tools/generate/generate_client.h"

#include <chrono>
#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/rpc/channel.h"
#include "common/rpc/status_map.h"
#include "grpcpp/grpcpp.h"
#include "tools/client/health_client.h"
#include "tools/client/no_server.h"
#include "tools/generate/text_check.h"
#include "tools/generate/wait_notice.h"

namespace baton {
namespace {

using Clock = std::chrono::steady_clock;

// How long a server may take to say how it is.
constexpr base::Duration kHealthPatience = std::chrono::seconds(1);

double MillisecondsSince(Clock::time_point begin) {
  return base::Milliseconds(Clock::now() - begin);
}

// The place of the answer of that index.
OutcomeAnswer* AnswerAt(int32_t index, Outcome* outcome) {
  if (index <= 0) return outcome;
  const auto place = static_cast<size_t>(index);
  if (outcome->further.size() < place) outcome->further.resize(place);
  return &outcome->further[place - 1];
}

void Append(const v1::Delta& delta, OutcomeAnswer* answer) {
  answer->text += delta.text();
  answer->token_ids.insert(answer->token_ids.end(), delta.token_ids().begin(),
                           delta.token_ids().end());
  answer->logprobs.insert(answer->logprobs.end(), delta.logprobs().begin(), delta.logprobs().end());
  answer->eos_steps.insert(answer->eos_steps.end(), delta.eos_steps().begin(),
                           delta.eos_steps().end());
}

// Reads the stream to its end. Generate and ChatGenerate answer with the same events.
template <typename Response>
void ReadAll(grpc::ClientReader<Response>* reader, grpc::ClientContext* context,
             Clock::time_point begin, const GenerateClient::OnDelta& on_delta,
             const std::function<void()>& on_first, Outcome* outcome) {
  Response response;
  bool begun = false;
  bool finished = false;
  while (reader->Read(&response)) {
    if (response.has_started()) {
      outcome->started = true;
      outcome->request_id = response.started().request_id();
      if (outcome->sampling) *outcome->sampling = response.started().sampling();
    }
    if (response.has_delta()) {
      if (!std::exchange(begun, true)) {
        outcome->ttft_ms = MillisecondsSince(begin);
        on_first();
      }
      Append(response.delta(), AnswerAt(response.delta().index(), outcome));
      if (on_delta && !on_delta(response.delta())) context->TryCancel();
    }
    if (response.has_prediction()) {
      AnswerAt(response.prediction().index(), outcome)
          ->predictions.push_back(response.prediction());
    }
    if (response.has_final()) {
      AnswerAt(response.final().index(), outcome)->final = response.final();
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

std::vector<const OutcomeAnswer*> Outcome::answers() const {
  std::vector<const OutcomeAnswer*> answers = {this};
  for (const OutcomeAnswer& answer : further) answers.push_back(&answer);
  return answers;
}

absl::StatusOr<std::unique_ptr<GenerateClient>> GenerateClient::Connect(const ClientFlags& flags,
                                                                        WaitRules wait) {
  BATON_ASSIGN_OR_RETURN(const auto channel, MakeChannel(flags.server, ChannelOptionsOf(flags)));
  if (!wait.tell) {
    wait.tell = [](const std::string& line) { std::fputs((line + "\n").c_str(), stderr); };
  }
  return std::unique_ptr<GenerateClient>(
      new GenerateClient(v1::InferenceService::NewStub(channel), flags, std::move(wait)));
}

std::string GenerateClient::WhatIsWaitedFor() const {
  const auto health = CheckHealth(flags_.server, /*service=*/"", kHealthPatience,
                                  {.tls = flags_.tls, .role = "router"});
  if (!health.ok()) return absl::StrCat("an answer from ", flags_.server);
  if (*health == Health::kNotServing) {
    return absl::StrCat("a decode worker: ", flags_.server, " sees none that is healthy");
  }
  return absl::StrCat("its turn, or for its prompt to be read: ", flags_.server,
                      " is healthy and busy");
}

Outcome GenerateClient::Run(const PromptRequest& request, const OnDelta& on_delta) {
  Outcome outcome;
  outcome.request_id = request.spec.request_id();
  outcome.predict = request.spec.eos().predict();
  if (!request.spec.preset().empty()) outcome.sampling.emplace();
  if (!request.unsendable.ok()) {
    outcome.status = request.unsendable;
    return outcome;
  }
  WaitNotice notice(
      wait_.after, [this] { return WhatIsWaitedFor(); },
      [this](const std::string& what) {
        if (!told_.exchange(true)) wait_.tell("  no token yet: waiting for " + what);
      });
  const auto on_first = [&] {
    notice.End();
    told_ = false;
  };
  Exchange(request, on_delta, on_first, &outcome);
  told_ = false;
  return outcome;
}

void GenerateClient::Exchange(const PromptRequest& request, const OnDelta& on_delta,
                              const std::function<void()>& on_first, Outcome* outcome) {
  const auto begin = Clock::now();
  grpc::ClientContext context;
  NameTenant(flags_.as_tenant, &context);
  context.set_deadline(
      std::chrono::system_clock::now() +
      std::chrono::duration_cast<std::chrono::system_clock::duration>(flags_.timeout));
  if (const auto* messages = std::get_if<PromptRequest::Messages>(&request.input)) {
    v1::ChatGenerateRequest chat;
    *chat.mutable_spec() = request.spec;
    for (const v1::ChatMessage& message : *messages) *chat.add_messages() = message;
    outcome->status = CheckTexts(chat);
    if (!outcome->status.ok()) return;
    ReadAll(stub_->ChatGenerate(&context, chat).get(), &context, begin, on_delta, on_first,
            outcome);
  } else {
    v1::GenerateRequest generate;
    *generate.mutable_spec() = request.spec;
    if (const auto* ids = std::get_if<std::vector<int32_t>>(&request.input)) {
      generate.mutable_token_ids()->mutable_ids()->Assign(ids->begin(), ids->end());
    } else {
      generate.set_text(std::get<std::string>(request.input));
    }
    outcome->status = CheckTexts(generate);
    if (!outcome->status.ok()) return;
    ReadAll(stub_->Generate(&context, generate).get(), &context, begin, on_delta, on_first,
            outcome);
  }
  if (!outcome->status.ok() && !outcome->started) {
    outcome->status = ExplainNoServer(outcome->status, flags_.server);
  }
}

}  // namespace baton
