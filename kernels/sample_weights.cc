#include "kernels/sample_weights.h"

#include <algorithm>
#include <cmath>

#include "kernels/sample_processors.h"

namespace baton::kernels {

void FillEosLogprob(std::span<const int32_t> eos_ids, std::span<const float> raw, double highest,
                    double log_total, EosSignal& signal) {
  const int32_t best = BestId(eos_ids, raw);
  signal.eos_rank = best < 0 ? 0 : 1;
  if (best < 0) {
    signal.eos_logprob = std::numeric_limits<float>::quiet_NaN();
    return;
  }
  const double top = raw[best];
  if (!std::isfinite(top)) {
    signal.eos_logprob = -std::numeric_limits<float>::infinity();
    return;
  }
  double sum = 0;
  ForEachInVocab(eos_ids, raw.size(), [&](int32_t id) { sum += std::exp(raw[id] - top); });
  // Where EOS has nearly all of the mass, rounding can make more than all of it. NaN stays NaN.
  signal.eos_logprob = static_cast<float>(std::min(top + std::log(sum) - highest - log_total, 0.0));
}

}  // namespace baton::kernels
