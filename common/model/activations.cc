#include "common/model/activations.h"

#include <algorithm>

namespace baton {

ActivationPlan PlanActivations(const ModelConfig& config, const LocalShape& shape,
                               kernels::DType compute_dtype, const StepLimits& limits) {
  const int64_t tokens = limits.max_tokens;
  const int64_t samples = limits.max_samples;
  const int64_t element = static_cast<int64_t>(SizeOf(compute_dtype));
  const int64_t hidden = config.hidden;
  const int64_t ffn = shape.ffn;
  const int64_t q_size = int64_t{shape.q_heads} * config.head_dim;
  const int64_t kv_size = int64_t{shape.kv_heads} * config.head_dim;
  const int64_t part =
      shape.divides_output(config) ? kernels::WidestShare(config.vocab, shape.ranks) : 0;
  return {.residual = tokens * hidden * 4,
          .operand = tokens * std::max({hidden, q_size, ffn}) * element,
          .fused = tokens * std::max(q_size + 2 * kv_size, 2 * ffn) * element,
          .sampled = samples * hidden * 4,
          .normed = samples * hidden * element,
          .logits = samples * config.vocab * 4,
          .parts = samples * part * shape.ranks * 4};
}

}  // namespace baton
