#include "router/openai/answer_writer.h"

#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/rpc/answer_json.h"
#include "nlohmann/json.hpp"
#include "router/openai/logprobs_json.h"

namespace baton {
namespace {

using Json = nlohmann::ordered_json;

std::string DataEvent(std::string_view data) {
  return absl::StrCat("data: ", std::string(data), "\n\n");
}

// What the extension says of tokens.
Json TokensJson(const v1::Delta& delta) {
  Json eos = Json::array();
  for (const v1::EosStep& step : delta.eos_steps()) eos.push_back(EosStepJson(step));
  return {{"token_ids", std::vector<int32_t>(delta.token_ids().begin(), delta.token_ids().end())},
          {"eos", std::move(eos)}};
}

}  // namespace

// The one choice of a chunk, and what stands beside it.
struct AnswerWriter::Choice {
  int32_t index = 0;
  std::string text;
  bool opens = false;  // says who speaks
  Json logprobs;       // null: none
  Json finish_reason;  // null: it goes on
  Json usage;          // null: none; only where it was asked for
  Json extension;      // null: none
};

void AnswerWriter::Start(const v1::Started& started) {
  prompt_tokens_ = started.prompt_tokens();
  sampling_ = started.sampling();
  prefix_ = AnswerPrefix(facts_, started);
}

TextPlace* AnswerWriter::PlaceOf(int32_t index) {
  const auto place = static_cast<size_t>(index);
  if (places_.size() <= place) places_.resize(place + 1);
  return &places_[place];
}

std::string AnswerWriter::Event(const Choice& choice) const {
  Json json = {{"index", choice.index}};
  if (facts_.api == OpenAiApi::kChat) {
    Json delta = Json::object();
    if (choice.opens) delta["role"] = "assistant";
    if (choice.opens || !choice.text.empty()) delta["content"] = choice.text;
    json["delta"] = std::move(delta);
  } else {
    json["text"] = choice.text;
  }
  json["logprobs"] = choice.logprobs;
  json["finish_reason"] = choice.finish_reason;
  std::string data = absl::StrCat(prefix_, "\"choices\":[", AnswerText(json), "]");
  if (facts_.shape.include_usage || facts_.shape.continuous_usage) {
    absl::StrAppend(&data, ",\"usage\":", AnswerText(choice.usage));
  }
  if (!choice.extension.is_null()) {
    absl::StrAppend(&data, ",\"baton\":", AnswerText(choice.extension));
  }
  absl::StrAppend(&data, "}");
  return DataEvent(data);
}

std::string AnswerWriter::Opening() const {
  if (facts_.api != OpenAiApi::kChat) return "";
  std::string events;
  for (int32_t index = 0; index < facts_.shape.answers; ++index) {
    Choice choice{.index = index, .opens = true};
    if (facts_.shape.continuous_usage) choice.usage = UsageJson(prompt_tokens_, 0);
    events += Event(choice);
  }
  return events;
}

std::string AnswerWriter::PromptEvent(const v1::Prompt& prompt) {
  echo_.See(prompt);
  Choice choice{.text = prompt.text()};
  if (prompt.logprobs_size() > 0) choice.logprobs = echo_.Logprobs(prompt, PlaceOf(0));
  if (facts_.shape.continuous_usage) choice.usage = UsageJson(prompt_tokens_, 0);
  return Event(choice);
}

std::string AnswerWriter::DeltaEvent(const v1::Delta& delta) {
  completion_tokens_ += delta.token_ids_size();
  Choice choice{.index = delta.index(), .text = delta.text()};
  if (delta.logprobs_size() > 0) {
    choice.logprobs = facts_.api == OpenAiApi::kChat
                          ? ChatLogprobs(delta)
                          : CompletionLogprobs(delta, facts_.left_out, PlaceOf(delta.index()));
  }
  if (facts_.shape.extension) choice.extension = TokensJson(delta);
  if (facts_.shape.continuous_usage) {
    choice.usage = UsageJson(prompt_tokens_, completion_tokens_);
  }
  const bool says_something = !choice.text.empty() || !choice.logprobs.is_null() ||
                              !choice.extension.is_null() || facts_.shape.continuous_usage;
  return says_something ? Event(choice) : "";
}

std::string AnswerWriter::PredictionEvent(const v1::EndPrediction& prediction) const {
  Choice choice{.index = prediction.index()};
  choice.extension = {{"token_ids", Json::array()},
                      {"eos", Json::array()},
                      {"prediction", EndPredictionJson(prediction)}};
  if (facts_.shape.continuous_usage) {
    choice.usage = UsageJson(prompt_tokens_, completion_tokens_);
  }
  return Event(choice);
}

std::string AnswerWriter::EndEvent(const v1::Final& final) const {
  Choice choice{.index = final.index()};
  choice.finish_reason = ChoiceFinish(final.finish_reason());
  if (facts_.shape.extension) choice.extension = EndJson(final, sampling_);
  if (facts_.shape.continuous_usage) {
    const bool whole = facts_.shape.answers == 1 || final.has_total_usage();
    choice.usage =
        whole ? UsageJson(RequestUsage(final)) : UsageJson(prompt_tokens_, completion_tokens_);
  }
  return Event(choice);
}

std::string AnswerWriter::LastEvents(const v1::Final& final) const {
  std::string events = EndEvent(final);
  if (facts_.shape.include_usage) {
    absl::StrAppend(&events,
                    DataEvent(absl::StrCat(prefix_, "\"choices\":[],\"usage\":",
                                           AnswerText(UsageJson(RequestUsage(final))), "}")));
  }
  return absl::StrCat(events, DataEvent("[DONE]"));
}

std::string AnswerWriter::ErrorEvent(const std::string& error) { return DataEvent(error); }

}  // namespace baton
