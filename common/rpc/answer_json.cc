#include "common/rpc/answer_json.h"

#include <array>
#include <charconv>
#include <string>
#include <utility>
#include <vector>

#include "nlohmann/json.hpp"

namespace baton {
namespace {

using Json = nlohmann::ordered_json;

// The number with the fewest digits that is this float: 0.9, where the float as a double would be
// 0.89999998.
double ShortNumber(float value) {
  std::array<char, 32> digits = {};
  const auto written = std::to_chars(digits.begin(), digits.end(), value);
  double number = 0;
  std::from_chars(digits.begin(), written.ptr, number);
  return number;
}

Json StringOrNull(const std::string& text) { return text.empty() ? Json() : Json(text); }

}  // namespace

Json TimingsJson(const v1::Timings& timings) {
  return {{"queue", timings.queue_ms()},
          {"prefill", timings.prefill_ms()},
          {"kv_transfer", timings.kv_transfer_ms()},
          {"ttft", timings.ttft_ms()},
          {"total", timings.total_ms()}};
}

Json SamplingNumbersJson(const v1::SamplingParams& sampling) {
  Json json = Json::object();
  if (sampling.has_temperature()) json["temperature"] = ShortNumber(sampling.temperature());
  if (sampling.has_top_k()) json["top_k"] = sampling.top_k();
  if (sampling.has_top_p()) json["top_p"] = ShortNumber(sampling.top_p());
  if (sampling.has_min_p()) json["min_p"] = ShortNumber(sampling.min_p());
  if (sampling.has_repetition_penalty()) {
    json["repetition_penalty"] = ShortNumber(sampling.repetition_penalty());
  }
  if (sampling.has_presence_penalty())
    json["presence_penalty"] = ShortNumber(sampling.presence_penalty());
  if (sampling.has_frequency_penalty())
    json["frequency_penalty"] = ShortNumber(sampling.frequency_penalty());
  if (sampling.has_no_repeat_ngram_size()) {
    json["no_repeat_ngram_size"] = sampling.no_repeat_ngram_size();
  }
  return json;
}

Json StopMatchJson(const v1::Final& final) {
  if (final.has_stop_token_id()) return final.stop_token_id();
  if (final.has_stop_string()) return final.stop_string();
  return {};
}

Json WorkersJson(const v1::Final& final) {
  return {{"prefill", StringOrNull(final.prefill_worker())},
          {"decode", StringOrNull(final.decode_worker())}};
}

Json EosStepJson(const v1::EosStep& step) {
  Json row = {{"step", step.step()},
              {"timestamp", step.timestamp()},
              {"eos_logprob", step.has_eos_logprob() ? Json(step.eos_logprob()) : Json()},
              {"eos_prob", step.has_eos_prob() ? Json(step.eos_prob()) : Json()},
              {"eos_prob_sampling", step.eos_prob_sampling()},
              {"eos_rank", step.eos_rank()},
              {"entropy", step.entropy()},
              {"top1_prob", step.top1_prob()}};
  if (step.probe_size() > 0) {
    row["probe"] = std::vector<float>(step.probe().begin(), step.probe().end());
  }
  return row;
}

Json EndPredictionJson(const v1::EndPrediction& prediction) {
  Json within = Json::object();
  for (const v1::EndWithin& entry : prediction.within()) {
    within[std::to_string(entry.horizon())] = entry.probability();
  }
  return {{"at_step", prediction.at_step()},
          {"expected_remaining", prediction.expected_remaining()},
          {"p50", prediction.p50()},
          {"p90", prediction.p90()},
          {"within", std::move(within)}};
}

}  // namespace baton
