#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "baton/v1/inference.pb.h"
#include "nlohmann/json.hpp"
#include "router/openai/logprobs_json.h"
#include "router/openai/openai_request.h"

namespace baton {

// What a stream and a whole answer are both made of.

// What holds for all of one answer.
struct AnswerFacts {
  OpenAiApi api = OpenAiApi::kCompletions;
  OpenAiShape shape;
  int64_t created = 0;  // Unix seconds
  LeftOut left_out = {};
};

// `json` on one line; what is no UTF-8 in it is replaced.
std::string AnswerText(const nlohmann::ordered_json& json);
// What every object of the answer begins with: "{", its id, kind, date and model, and a comma.
std::string AnswerPrefix(const AnswerFacts& facts, const v1::Started& started);
std::string_view ChoiceFinish(v1::FinishReason reason);
nlohmann::ordered_json UsageJson(int32_t prompt_tokens, int32_t completion_tokens);
nlohmann::ordered_json UsageJson(const v1::Usage& usage);
// What the whole request took, which is more than its answer where it has several.
const v1::Usage& RequestUsage(const v1::Final& final);
// What the extension says at the end.
nlohmann::ordered_json EndJson(const v1::Final& final, const v1::SamplingParams& sampling);

// A prompt that is echoed, and how far its logprobs have come in its text.
class EchoedPrompt final {
 public:
  // The piece with its text comes first.
  void See(const v1::Prompt& prompt);
  // As PromptLogprobs.
  nlohmann::ordered_json Logprobs(const v1::Prompt& prompt, TextPlace* place);

 private:
  std::string text_;
  size_t left_ = 0;  // of its bytes, behind tokens that were written
};

}  // namespace baton
