#include "router/openai/whole_answer.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/rpc/answer_json.h"
#include "nlohmann/json.hpp"
#include "router/openai/logprobs_json.h"

namespace baton {
namespace {

using Json = nlohmann::ordered_json;

// Whole characters, so that pieces behind each other are the text as a whole.
std::string Quoted(const std::string& text) {
  const std::string quoted = AnswerText(Json(text));
  return quoted.substr(1, quoted.size() - 2);
}

}  // namespace

void WholeAnswer::List::Add(const Json& entries) {
  for (const Json& entry : entries) {
    if (text.bytes() > 0) text.Append(",");
    text.Append(AnswerText(entry));
  }
}

TextPieces WholeAnswer::Members(std::initializer_list<std::pair<std::string_view, List*>> lists) {
  TextPieces members;
  for (const auto& [name, list] : lists) {
    if (members.bytes() > 0) members.Append(",");
    members.Append(absl::StrCat("\"", std::string(name), "\":["));
    members.Append(std::move(list->text));
    members.Append("]");
  }
  return members;
}

size_t WholeAnswer::Choice::bytes() const {
  size_t all = text.bytes();
  for (const List* list : {&scores, &text_offset, &token_logprobs, &tokens, &top_logprobs,
                           &token_ids, &eos, &predictions}) {
    all += list->text.bytes();
  }
  return all;
}

void WholeAnswer::Start(const v1::Started& started) {
  prefix_ = AnswerPrefix(facts_, started);
  sampling_ = started.sampling();
}

void WholeAnswer::AddLists(const Json& lists, Choice* choice) {
  choice->scored = true;
  choice->text_offset.Add(lists["text_offset"]);
  choice->token_logprobs.Add(lists["token_logprobs"]);
  choice->tokens.Add(lists["tokens"]);
  choice->top_logprobs.Add(lists["top_logprobs"]);
}

void WholeAnswer::Show(const v1::Prompt& prompt) {
  Choice& choice = choices_[0];
  echo_.See(prompt);
  choice.text.Append(Quoted(prompt.text()));
  if (prompt.logprobs_size() > 0) AddLists(echo_.Logprobs(prompt, &choice.place), &choice);
}

void WholeAnswer::Append(const v1::Delta& delta) {
  Choice& choice = choices_[delta.index()];
  choice.text.Append(Quoted(delta.text()));
  if (delta.logprobs_size() > 0 && facts_.api == OpenAiApi::kChat) {
    choice.scored = true;
    choice.scores.Add(ChatLogprobs(delta)["content"]);
  } else if (delta.logprobs_size() > 0) {
    AddLists(CompletionLogprobs(delta, facts_.left_out, &choice.place), &choice);
  }
  if (!facts_.shape.extension) return;
  choice.token_ids.Add(std::vector<int32_t>(delta.token_ids().begin(), delta.token_ids().end()));
  for (const v1::EosStep& step : delta.eos_steps()) {
    choice.eos.Add(Json::array({EosStepJson(step)}));
  }
}

void WholeAnswer::Predict(const v1::EndPrediction& prediction) {
  choices_[prediction.index()].predictions.Add(Json::array({EndPredictionJson(prediction)}));
}

void WholeAnswer::End(const v1::Final& final) { choices_[final.index()].final = final; }

size_t WholeAnswer::bytes() const {
  size_t all = 0;
  for (const auto& [index, choice] : choices_) all += choice.bytes();
  return all;
}

TextPieces WholeAnswer::Logprobs(Choice* choice) const {
  TextPieces text;
  if (!choice->scored) {
    text.Append("null");
    return text;
  }
  text.Append("{");
  if (facts_.api == OpenAiApi::kChat) {
    text.Append(Members({{"content", &choice->scores}}));
    text.Append(",\"refusal\":null");
  } else {
    text.Append(Members({{"text_offset", &choice->text_offset},
                         {"token_logprobs", &choice->token_logprobs},
                         {"tokens", &choice->tokens},
                         {"top_logprobs", &choice->top_logprobs}}));
  }
  text.Append("}");
  return text;
}

TextPieces WholeAnswer::Extension(Choice* choice) const {
  TextPieces text;
  text.Append("{");
  text.Append(Members({{"token_ids", &choice->token_ids},
                       {"eos", &choice->eos},
                       {"predictions", &choice->predictions}}));
  text.Append(",");
  text.Append(std::string_view(AnswerText(EndJson(choice->final, sampling_))).substr(1));
  return text;
}

TextPieces WholeAnswer::ChoiceText(Choice* choice, bool several) const {
  const bool chat = facts_.api == OpenAiApi::kChat;
  TextPieces text;
  text.Append(
      absl::StrCat("{\"index\":", choice->final.index(),
                   chat ? R"(,"message":{"role":"assistant","content":")" : R"(,"text":")"));
  text.Append(std::move(choice->text));
  text.Append(chat ? R"(","refusal":null},"logprobs":)" : R"(","logprobs":)");
  text.Append(Logprobs(choice));
  text.Append(absl::StrCat(",\"finish_reason\":\"",
                           std::string(ChoiceFinish(choice->final.finish_reason())), "\""));
  // Beside the only choice, and within each of several.
  if (facts_.shape.extension && several) {
    text.Append(",\"baton\":");
    text.Append(Extension(choice));
  }
  text.Append("}");
  return text;
}

TextPieces WholeAnswer::Take() {
  const bool several = choices_.size() > 1;
  // Of several the Final that came last has the usage of all, whichever that is.
  const v1::Usage* usage = &RequestUsage(choices_[0].final);
  TextPieces text;
  text.Append(prefix_ + "\"choices\":[");
  for (auto& [index, choice] : choices_) {
    if (index > 0) text.Append(",");
    text.Append(ChoiceText(&choice, several));
    if (choice.final.has_total_usage()) usage = &choice.final.total_usage();
  }
  text.Append(absl::StrCat("],\"usage\":", AnswerText(UsageJson(*usage))));
  if (facts_.shape.extension && !several) {
    text.Append(",\"baton\":");
    text.Append(Extension(&choices_[0]));
  }
  text.Append("}");
  return text;
}

}  // namespace baton
