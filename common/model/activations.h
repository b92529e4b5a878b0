#pragma once

#include <cstdint>

#include "common/formats/model_config.h"
#include "common/model/weights.h"
#include "kernels/dtype.h"

namespace baton {

// The largest step that a transformer will be asked for.
struct StepLimits {
  int32_t max_tokens = 0;  // of all sequences together
  // Rows that draw a token. A sequence has several where proposals and forced tokens are fed.
  int32_t max_samples = 0;
  int32_t max_sequences = 0;  // 0: as many as rows that draw
};

// The sizes in bytes of the fixed buffers that a transformer computes in. Two of them hold
// activations and take turns: `fused` gets what a fused projection gives (q, k and v, then gate and
// up), `operand` what the next product reads (the normed residual, the heads' output, the gated
// MLP). A step has at least as many tokens as samples.
struct ActivationPlan {
  int64_t residual = 0;  // fp32 [tokens, hidden]
  int64_t operand = 0;   // compute dtype [tokens, max(hidden, q size, ffn)]
  int64_t fused = 0;     // compute dtype [tokens, max(q + 2 kv size, 2 ffn)]
  int64_t sampled = 0;   // fp32 [samples, hidden]
  int64_t normed = 0;    // compute dtype [samples, hidden]
  int64_t logits = 0;    // fp32 [samples, vocab]
  // fp32 [ranks, samples, widest share of the vocabulary]; 0 where one rank computes all logits
  int64_t parts = 0;

  int64_t total() const { return residual + operand + fused + sampled + normed + logits + parts; }
};

// The sizes for one rank of a model that computes in `compute_dtype`.
ActivationPlan PlanActivations(const ModelConfig& config, const LocalShape& shape,
                               kernels::DType compute_dtype, const StepLimits& limits);

}  // namespace baton
