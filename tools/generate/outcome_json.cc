#include "tools/generate/outcome_json.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/rpc/answer_json.h"
#include "common/rpc/finish_text.h"
#include "nlohmann/json.hpp"

namespace baton {
namespace {

using OrderedJson = nlohmann::ordered_json;

OrderedJson StringOrNull(const std::string& text) {
  return text.empty() ? OrderedJson() : OrderedJson(text);
}

OrderedJson UsageOf(const v1::Usage& usage) {
  return {{"prompt_tokens", usage.prompt_tokens()},
          {"cached_tokens", usage.cached_tokens()},
          {"completion_tokens", usage.completion_tokens()},
          {"natural_end_step",
           usage.has_natural_end_step() ? OrderedJson(usage.natural_end_step()) : OrderedJson()}};
}

// A token with its text, and with its bytes where the text does not have them.
template <typename Entry>
OrderedJson TokenOf(const OrderedJson& id, const Entry& entry) {
  OrderedJson token = {{"token_id", id}, {"text", entry.text()}};
  if (!entry.raw_bytes().empty()) {
    const std::string& bytes = entry.raw_bytes();
    token["bytes"] = std::vector<uint8_t>(bytes.begin(), bytes.end());
  }
  token["logprob"] = entry.logprob();
  return token;
}

OrderedJson LogprobsOf(const OutcomeAnswer& answer) {
  OrderedJson list = OrderedJson::array();
  for (size_t i = 0; i < answer.logprobs.size(); ++i) {
    const v1::TokenLogprobs& logprobs = answer.logprobs[i];
    OrderedJson top = OrderedJson::array();
    for (const v1::TokenLogprob& entry : logprobs.top()) {
      top.push_back(TokenOf(entry.token_id(), entry));
    }
    const OrderedJson id =
        i < answer.token_ids.size() ? OrderedJson(answer.token_ids[i]) : OrderedJson();
    OrderedJson token = TokenOf(id, logprobs);
    token["top"] = std::move(top);
    list.push_back(std::move(token));
  }
  return list;
}

OrderedJson EosOf(const OutcomeAnswer& answer) {
  OrderedJson list = OrderedJson::array();
  for (const v1::EosStep& step : answer.eos_steps) list.push_back(EosStepJson(step));
  return list;
}

OrderedJson PredictionsOf(const OutcomeAnswer& answer) {
  OrderedJson list = OrderedJson::array();
  for (const v1::EndPrediction& prediction : answer.predictions) {
    list.push_back(EndPredictionJson(prediction));
  }
  return list;
}

// What the line of a request has of each answer.
OrderedJson BodyOf(const Outcome& outcome, const OutcomeAnswer& one) {
  const v1::Final& final = one.final;
  OrderedJson answer = {{"text", one.text},
                        {"token_ids", one.token_ids},
                        {"finish_reason", FinishReasonText(final.finish_reason())},
                        {"stop_cause", StopCauseText(final.stop_cause())},
                        {"stop_match", StopMatchJson(final)},
                        {"usage", UsageOf(final.usage())},
                        {"timings_ms", TimingsJson(final.timings())},
                        {"logprobs", LogprobsOf(one)},
                        {"eos", EosOf(one)},
                        {"attempts", final.attempts()},
                        {"workers", WorkersJson(final)}};
  if (outcome.predict) answer["predictions"] = PredictionsOf(one);
  return answer;
}

// Of several answers: what the request took, and each of them with its index and seed.
OrderedJson AnswersOf(const Outcome& outcome) {
  OrderedJson list = OrderedJson::array();
  v1::Usage usage;
  for (const OutcomeAnswer* const one : outcome.answers()) {
    OrderedJson answer = {{"index", one->final.index()}};
    if (one->final.has_seed()) answer["seed"] = one->final.seed();  // of one that was drawn
    if (one->final.has_score()) answer["score"] = one->final.score();
    answer.update(BodyOf(outcome, *one));
    list.push_back(std::move(answer));
    if (one->final.has_total_usage()) usage = one->final.total_usage();
  }
  return {{"usage", UsageOf(usage)}, {"answers", std::move(list)}};
}

OrderedJson AnswerOf(const Outcome& outcome) {
  OrderedJson answer = {{"request_id", outcome.request_id}};
  answer.update(outcome.several() ? AnswersOf(outcome) : BodyOf(outcome, outcome));
  if (outcome.sampling) answer["sampling"] = SamplingNumbersJson(*outcome.sampling);
  return answer;
}

OrderedJson ErrorOf(const Outcome& outcome) {
  const absl::Status& status = outcome.status;
  return {{"request_id", StringOrNull(outcome.request_id)},
          {"error",
           {{"code", CodeName(status.code())},
            {"reason", ReasonName(ReasonOf(status))},
            {"message", std::string(status.message().data(), status.message().size())}}}};
}

}  // namespace

std::string OutcomeAsJson(const Outcome& outcome) {
  const OrderedJson json = outcome.status.ok() ? AnswerOf(outcome) : ErrorOf(outcome);
  return json.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

}  // namespace baton
