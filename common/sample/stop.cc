#include "common/sample/stop.h"

#include <algorithm>

#include "common/base/check.h"

namespace baton {
namespace {

bool Contains(std::span<const TokenId> ids, TokenId id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

}  // namespace

StopCriteria::StopCriteria(const StopParams& params, std::span<const TokenId> eos_ids,
                           int32_t max_tokens, std::optional<int32_t> natural_end_step)
    : params_(params),
      eos_ids_(eos_ids.begin(), eos_ids.end()),
      stop_set_(eos_ids_),
      max_tokens_(max_tokens),
      natural_end_step_(natural_end_step) {
  for (const TokenId id : params_.stop_token_ids) {
    if (!Contains(stop_set_, id)) stop_set_.push_back(id);
  }
}

StopCriteria::Decision StopCriteria::Take(int32_t step, SampledToken* token) {
  const bool is_eos = IsEos(token->token);
  const bool ended_naturally = is_eos || token->natural_end;
  if (ended_naturally && !natural_end_step_) natural_end_step_ = step;
  token->natural_end = ended_naturally && params_.eos_policy != EosPolicy::kHonor;
  if (params_.eos_policy == EosPolicy::kHonor) {
    if (is_eos) return {FinishReason::kStopEos, token->token};
    if (Contains(params_.stop_token_ids, token->token)) {
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
}

bool StopCriteria::IsEos(TokenId id) const { return Contains(eos_ids_, id); }

kernels::SampleRow MakeSampleRow(const SamplingParams& params, const StopCriteria& stop,
                                 std::span<const TokenId> history, int32_t prompt_tokens,
                                 bool pending_output) {
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
  row.pending_output = pending_output;
  row.seed = params.seed;
  row.num_top_logprobs = params.num_top_logprobs;
  stop.FillRow(static_cast<int32_t>(row.output.size()) + (pending_output ? 1 : 0), &row);
  return row;
}

}  // namespace baton
