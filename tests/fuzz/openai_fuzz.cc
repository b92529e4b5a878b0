// Bodies of the OpenAI protocol: what is taken is within the limits of gRPC's requests, and means
// the same however it is written.
#include <string>
#include <variant>
#include <vector>

#include "baton/v1/inference.pb.h"
#include "nlohmann/json.hpp"
#include "router/edge/request_parse.h"
#include "router/edge/validation.h"
#include "router/openai/openai_error.h"
#include "router/openai/openai_request.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/wire.h"

namespace baton::fuzz {
namespace {

const ServedModel& ModelOfBodies() {
  static const ServedModel* const model = [] {
    auto* served = new ServedModel;
    served->name = "fuzzed";
    served->config.vocab = 512;
    served->chat_template = ChatTemplate::FromSource("{{ messages[0].content }}", "", "").value();
    served->longest_token_bytes = 8;
    return served;
  }();
  return *model;
}

// As a client of gRPC would send it, which counts everything anew.
void CheckGrpcTakes(const OpenAiRequest& request) {
  v1::ChatGenerateRequest message;
  *message.mutable_spec() = request.spec;
  if (const auto* messages = std::get_if<std::vector<ChatMessage>>(&request.input)) {
    for (const ChatMessage& one : *messages) {
      v1::ChatMessage* copy = message.add_messages();
      copy->set_role(one.role);
      copy->set_content(one.content);
    }
  }
  v1::ChatGenerateRequest again;
  const absl::Status parsed = ParseRequest(SerializeResponse(message), &again);
  BATON_CHECK(parsed.ok()) << parsed.ToString();
}

void CheckSameWhenRewritten(OpenAiApi api, std::string_view body, const OpenAiRequest& request) {
  const std::string rewritten = nlohmann::json::parse(body).dump();
  const auto again = ReadOpenAiRequest(api, rewritten);
  BATON_CHECK(again.ok()) << again.status().ToString();
  BATON_CHECK(BytesOf(again->spec) == BytesOf(request.spec));
  BATON_CHECK(again->ignored == request.ignored);
  BATON_CHECK(again->input.index() == request.input.index());
}

void CheckError(const absl::Status& status, OpenAiApi api) {
  const auto error = nlohmann::json::parse(OpenAiErrorJson(status, api), nullptr, false);
  BATON_CHECK(error.is_object() && error.contains("error")) << status.ToString();
}

}  // namespace

FUZZ_TARGET(openai) {
  const OpenAiApi api = TakeChoice(&input, 2) == 0 ? OpenAiApi::kCompletions : OpenAiApi::kChat;
  auto request = ReadOpenAiRequest(api, input);
  if (!request.ok()) return CheckError(request.status(), api);
  CheckGrpcTakes(*request);
  CheckSameWhenRewritten(api, input, *request);
  const auto spec = ValidateSpec(request->spec, std::move(request->input), ModelOfBodies(),
                                 RouterOptions{}, /*seed=*/1);
  if (!spec.ok()) CheckError(spec.status(), api);
}

}  // namespace baton::fuzz
