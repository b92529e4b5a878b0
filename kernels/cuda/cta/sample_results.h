#pragma once

#include "common/base/eos_signal.h"
#include "kernels/cuda/cta/sample_data.h"

namespace baton::kernels::cuda {

// Turns the device's answer for one row into the engine's.
inline void FillSampledToken(const SampleResult& result, const SampleTopLogprob* top_logprobs,
                             SampledToken* token) {
  *token = SampledToken();
  token->valid = result.valid != 0;
  if (!token->valid) return;
  token->token = result.token;
  token->logprob = result.logprob;
  token->natural_end = result.natural_end != 0;
  token->eos = {.eos_logprob = result.eos_logprob,
                .eos_prob_sampling = result.eos_prob_sampling,
                .eos_rank = result.eos_rank,
                .entropy = result.entropy,
                .top1_prob = result.top1_prob};
  for (int32_t i = 0; i < result.num_top_logprobs; ++i) {
    token->top_logprobs.push_back({top_logprobs[i].token, top_logprobs[i].logprob});
  }
}

}  // namespace baton::kernels::cuda
