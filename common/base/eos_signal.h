#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "common/base/end_estimate.h"

namespace baton {

// What the sampler learns about ending, for free, with every token. The distribution is the one
// that produced the token of the same step. All of it is exact: full softmax over raw fp32 logits
// at temperature 1, before bias, penalties, masks and top-k/p, except `eos_prob_sampling`.
struct EosSignal {
  float eos_logprob = 0;  // log-sum-exp over the EOS ids of log-softmax; NaN if there is no EOS id
  float eos_prob_sampling = 0;  // stop set's mass after all processors: the hazard of stopping here
  int32_t eos_rank = 0;         // best EOS id among all ids, 1 = highest logit; 0 if no EOS id
  float entropy = 0;            // nats
  float top1_prob = 0;
};

struct TokenLogprob {
  int32_t token = 0;
  float logprob = 0;  // raw distribution, nats
};

// How likely the model finds a token of a prompt behind all that stand before it.
struct TokenScore {
  float logprob = 0;                       // raw distribution, nats
  std::vector<TokenLogprob> top_logprobs;  // as those of SampledToken
  bool valid = true;                       // likewise
};

// One sampled token with everything that travels with it, from the sampler to the client.
struct SampledToken {
  int32_t token = 0;
  // False: the logits were no distribution, for one was NaN or +infinity, or none above -infinity.
  // Nothing was drawn then, and nothing else here counts.
  bool valid = true;
  float logprob = 0;                       // raw distribution, nats
  std::vector<TokenLogprob> top_logprobs;  // as many as asked for, highest first, ties by lower id
  EosSignal eos;
  // The products of the worker's probe (see eos_probe.h) with the state that the distribution came
  // from; empty where the worker has none.
  std::vector<float> probe;
  // Under an ignore policy, whether the undisturbed draw of this step was an EOS id.
  bool natural_end = false;
  // EOS was not unlikely where the answer could end: RunawayGuard (common/sample/runaway.h) says
  // when. Set by the engine.
  bool end_chance = false;
  // The answer has run away with this token and ends for that. Set by the engine.
  bool runaway_end = false;
  // The guide of the answer allowed nothing but its end at this step. Set by the engine.
  bool only_end = false;
  // It allowed nothing but this token, which does not end the answer. Set by the engine.
  bool forced = false;
  // What the engine's predictor says of the tokens behind this one; made where the token was drawn.
  std::optional<EndEstimate> end;
};

}  // namespace baton
