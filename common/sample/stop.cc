#include "common/sample/stop.h"

#include <algorithm>

#include "common/base/check.h"

namespace baton {
namespace {

// Ascending, each once.
std::vector<TokenId> SetOf(std::span<const TokenId> ids, std::span<const TokenId> more = {}) {
  std::vector<TokenId> set(ids.begin(), ids.end());
  set.insert(set.end(), more.begin(), more.end());
  std::sort(set.begin(), set.end());
  set.erase(std::unique(set.begin(), set.end()), set.end());
  return set;
}

}  // namespace

StopCriteria::StopCriteria(const StopParams& params, std::span<const TokenId> eos_ids,
                           int32_t max_tokens, std::optional<int32_t> natural_end_step)
    : params_(params),
      eos_ids_(SetOf(eos_ids)),
      stop_set_(SetOf(eos_ids, params.stop_token_ids)),
      max_tokens_(max_tokens),
      natural_end_step_(natural_end_step) {}

StopCriteria::Decision StopCriteria::Take(int32_t step, SampledToken* token) {
  const bool is_eos = IsEos(token->token);
  const bool ended_naturally = (is_eos && !token->only_end) || token->natural_end;
  if (ended_naturally && !natural_end_step_) natural_end_step_ = step;
  token->natural_end = ended_naturally && params_.eos_policy != EosPolicy::kHonor;
  if (params_.eos_policy == EosPolicy::kHonor) {
    const auto eos = token->only_end ? FinishReason::kStopGrammar : FinishReason::kStopEos;
    if (is_eos) return {eos, token->token};
    if (std::ranges::binary_search(stop_set_, token->token)) {
      return {FinishReason::kStopToken, token->token};
    }
  }
  if (step >= max_tokens_) return {FinishReason::kLength, std::nullopt};
  return {};
}

void StopCriteria::FillRow(int32_t generated, kernels::SampleRow* row) const {
  row->eos_ids = eos_ids_;
  row->stop_ids = stop_set_;
  row->mask_stop_ids = generated < params_.min_tokens;
  row->redraw_eos = params_.eos_policy == EosPolicy::kIgnoreMask;
  if (params_.length_control) row->eos_bias = LengthBias(*params_.length_control, generated + 1);
}

FinishReason StopCriteria::EndOf(TokenId id) const {
  if (params_.eos_policy != EosPolicy::kHonor) return FinishReason::kNone;
  if (IsEos(id)) return FinishReason::kStopEos;
  const bool stops = std::ranges::binary_search(stop_set_, id);
  return stops ? FinishReason::kStopToken : FinishReason::kNone;
}

bool StopCriteria::IsEos(TokenId id) const { return std::ranges::binary_search(eos_ids_, id); }

float LengthBias(const LengthControl& control, int32_t step) {
  constexpr double kMost = 20;  // a chance of 1e-9 more or less, which no logit of a model resists
  const double beyond = static_cast<double>(step) / control.target - 1;
  return static_cast<float>(std::clamp(control.strength * beyond, -kMost, kMost));
}

kernels::SampleRow MakeSampleRow(const SamplingParams& params, const StopCriteria& stop,
                                 std::span<const TokenId> history, int32_t prompt_tokens,
                                 bool pending_output, std::span<const TokenId> given) {
  BATON_CHECK(!pending_output || params.no_repeat_ngram_size == 0)
      << "the n-grams of a history whose last token is not known";
  kernels::SampleRow row;
  row.temperature = params.temperature;
  row.top_k = params.top_k;
  row.top_p = params.top_p;
  row.min_p = params.min_p;
  row.repetition_penalty = params.repetition_penalty;
  row.presence_penalty = params.presence_penalty;
  row.frequency_penalty = params.frequency_penalty;
  row.logit_bias = params.logit_bias;
  row.prompt = history.first(static_cast<size_t>(prompt_tokens));
  row.output = history.subspan(static_cast<size_t>(prompt_tokens));
  row.given = given;
  row.pending_output = pending_output;
  row.seed = params.seed;
  row.num_top_logprobs = params.num_top_logprobs;
  stop.FillRow(SampleStep(row) - 1, &row);
  return row;
}

}  // namespace baton
