#include "router/openai/answer_facts.h"

#include "absl/strings/str_cat.h"
#include "common/rpc/answer_json.h"
#include "common/rpc/finish_text.h"
#include "router/openai/logprobs_json.h"

namespace baton {

using Json = nlohmann::ordered_json;

std::string AnswerText(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string AnswerPrefix(const AnswerFacts& facts, const v1::Started& started) {
  const bool chat = facts.api == OpenAiApi::kChat;
  std::string_view object = chat ? "chat.completion" : "text_completion";
  if (chat && facts.shape.stream) object = "chat.completion.chunk";
  const Json head = {{"id", absl::StrCat(chat ? "chatcmpl-" : "cmpl-", started.request_id())},
                     {"object", object},
                     {"created", facts.created},
                     {"model", started.model()}};
  std::string prefix = AnswerText(head);
  prefix.back() = ',';
  return prefix;
}

std::string_view ChoiceFinish(v1::FinishReason reason) {
  const bool length = reason == v1::FINISH_REASON_LENGTH || reason == v1::FINISH_REASON_RUNAWAY;
  return length ? "length" : "stop";
}

Json UsageJson(int32_t prompt_tokens, int32_t completion_tokens) {
  return {{"prompt_tokens", prompt_tokens},
          {"completion_tokens", completion_tokens},
          {"total_tokens", prompt_tokens + completion_tokens}};
}

Json UsageJson(const v1::Usage& usage) {
  Json json = UsageJson(usage.prompt_tokens(), usage.completion_tokens());
  json["prompt_tokens_details"] = {{"cached_tokens", usage.cached_tokens()}};
  return json;
}

const v1::Usage& RequestUsage(const v1::Final& final) {
  return final.has_total_usage() ? final.total_usage() : final.usage();
}

Json EndJson(const v1::Final& final, const v1::SamplingParams& sampling) {
  const v1::Usage& usage = final.usage();
  Json json = {
      {"finish_reason", FinishReasonText(final.finish_reason())},
      {"stop_cause", StopCauseText(final.stop_cause())},
      {"stop_match", StopMatchJson(final)},
      {"natural_end_step", usage.has_natural_end_step() ? Json(usage.natural_end_step()) : Json()},
      {"timings_ms", TimingsJson(final.timings())},
      {"attempts", final.attempts()},
      {"workers", WorkersJson(final)},
      {"sampling", SamplingNumbersJson(sampling)}};
  if (final.has_seed()) json["seed"] = final.seed();
  if (final.has_score()) json["score"] = final.score();
  return json;
}

void EchoedPrompt::See(const v1::Prompt& prompt) {
  if (prompt.token_ids().empty()) return;
  text_ = prompt.text();
  left_ = text_.size();
}

Json EchoedPrompt::Logprobs(const v1::Prompt& prompt, TextPlace* place) {
  std::string_view rest = std::string_view(text_).substr(text_.size() - left_);
  Json lists = PromptLogprobs(prompt, &rest, place);
  left_ = rest.size();
  return lists;
}

}  // namespace baton
