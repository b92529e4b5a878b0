#include "router/openai/answer_writer.h"

#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/rpc/answer_json.h"
#include "common/rpc/finish_text.h"
#include "nlohmann/json.hpp"
#include "router/openai/logprobs_json.h"

namespace baton {
namespace {

using Json = nlohmann::ordered_json;

std::string AnswerText(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string DataEvent(std::string_view data) {
  return absl::StrCat("data: ", std::string(data), "\n\n");
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

// What the extension says of tokens.
Json TokensJson(const v1::Delta& delta) {
  Json eos = Json::array();
  for (const v1::EosStep& step : delta.eos_steps()) eos.push_back(EosStepJson(step));
  return {{"token_ids", std::vector<int32_t>(delta.token_ids().begin(), delta.token_ids().end())},
          {"eos", std::move(eos)}};
}

// What the whole request took, which is more than its answer where it has several.
const v1::Usage& RequestUsage(const v1::Final& final) {
  return final.has_total_usage() ? final.total_usage() : final.usage();
}

// Of a whole answer: the last Final has it, whichever that is.
const v1::Usage& RequestUsage(const v1::GenerateOnceResponse& answer) {
  for (const v1::FurtherAnswer& further : answer.further()) {
    if (further.final().has_total_usage()) return further.final().total_usage();
  }
  return RequestUsage(answer.final());
}

// What the extension says at the end.
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
  const bool chat = facts_.api == OpenAiApi::kChat;
  prompt_tokens_ = started.prompt_tokens();
  sampling_ = started.sampling();
  std::string_view object = chat ? "chat.completion" : "text_completion";
  if (chat && facts_.shape.stream) object = "chat.completion.chunk";
  const Json head = {{"id", absl::StrCat(chat ? "chatcmpl-" : "cmpl-", started.request_id())},
                     {"object", object},
                     {"created", facts_.created},
                     {"model", started.model()}};
  prefix_ = AnswerText(head);
  prefix_.back() = ',';
}

// One of the answers in a GenerateOnceResponse.
struct AnswerWriter::OneAnswer {
  const v1::Delta& output;
  const v1::Final& final;
  const google::protobuf::RepeatedPtrField<v1::EndPrediction>& predictions;
  const v1::Prompt& prompt;  // empty: none
};

int64_t* AnswerWriter::TextOffset(int32_t index) {
  const auto place = static_cast<size_t>(index);
  if (text_offsets_.size() <= place) text_offsets_.resize(place + 1);
  return &text_offsets_[place];
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

Json AnswerWriter::EchoLogprobs(const v1::Prompt& prompt) {
  std::string_view rest = std::string_view(echo_).substr(echo_.size() - echo_left_);
  Json lists = PromptLogprobs(prompt, &rest, TextOffset(0));
  echo_left_ = rest.size();
  return lists;
}

void AnswerWriter::SeeEcho(const v1::Prompt& prompt) {
  if (prompt.token_ids().empty()) return;
  echo_ = prompt.text();
  echo_left_ = echo_.size();
}

std::string AnswerWriter::PromptEvent(const v1::Prompt& prompt) {
  SeeEcho(prompt);
  Choice choice{.text = prompt.text()};
  if (prompt.logprobs_size() > 0) choice.logprobs = EchoLogprobs(prompt);
  if (facts_.shape.continuous_usage) choice.usage = UsageJson(prompt_tokens_, 0);
  return Event(choice);
}

std::string AnswerWriter::DeltaEvent(const v1::Delta& delta) {
  completion_tokens_ += delta.token_ids_size();
  Choice choice{.index = delta.index(), .text = delta.text()};
  if (delta.logprobs_size() > 0) {
    choice.logprobs = facts_.api == OpenAiApi::kChat
                          ? ChatLogprobs(delta)
                          : CompletionLogprobs(delta, TextOffset(delta.index()));
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

std::string AnswerWriter::Whole(const v1::GenerateOnceResponse& answer) {
  const bool several = answer.further_size() > 0;
  std::vector<OneAnswer> answers = {
      {answer.output(), answer.final(), answer.predictions(), answer.prompt()}};
  for (const v1::FurtherAnswer& further : answer.further()) {
    answers.push_back(
        {further.output(), further.final(), further.predictions(), v1::Prompt::default_instance()});
  }
  Json choices = Json::array();
  Json extension;
  for (const OneAnswer& one : answers) {
    Json choice = WholeChoice(one);
    if (facts_.shape.extension) {
      // Beside the only choice, and within each of several.
      (several ? choice["baton"] : extension) = WholeExtension(one);
    }
    choices.push_back(std::move(choice));
  }
  std::string text = absl::StrCat(prefix_, "\"choices\":", AnswerText(choices),
                                  ",\"usage\":", AnswerText(UsageJson(RequestUsage(answer))));
  if (!extension.is_null()) absl::StrAppend(&text, ",\"baton\":", AnswerText(extension));
  return absl::StrCat(text, "}");
}

Json AnswerWriter::WholeChoice(const OneAnswer& answer) {
  const v1::Delta& output = answer.output;
  const bool chat = facts_.api == OpenAiApi::kChat;
  Json choice = {{"index", answer.final.index()}};
  if (chat) {
    choice["message"] = {{"role", "assistant"}, {"content", output.text()}, {"refusal", nullptr}};
  } else {
    choice["text"] = answer.prompt.text() + output.text();
  }
  choice["logprobs"] = nullptr;
  if (answer.prompt.logprobs_size() > 0) {
    SeeEcho(answer.prompt);
    choice["logprobs"] = EchoLogprobs(answer.prompt);
    AppendLogprobs(&choice["logprobs"], CompletionLogprobs(output, TextOffset(0)));
  } else if (output.logprobs_size() > 0) {
    choice["logprobs"] =
        chat ? ChatLogprobs(output) : CompletionLogprobs(output, TextOffset(answer.final.index()));
  }
  choice["finish_reason"] = ChoiceFinish(answer.final.finish_reason());
  return choice;
}

Json AnswerWriter::WholeExtension(const OneAnswer& answer) const {
  Json extension = TokensJson(answer.output);
  Json& predictions = extension["predictions"] = Json::array();
  for (const v1::EndPrediction& prediction : answer.predictions) {
    predictions.push_back(EndPredictionJson(prediction));
  }
  extension.update(EndJson(answer.final, sampling_));
  return extension;
}

}  // namespace baton
