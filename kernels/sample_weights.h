#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <span>

#include "common/base/eos_signal.h"
#include "common/base/philox.h"
#include "kernels/sampling.h"

namespace baton::kernels {

// The arithmetic that every sampler of the host must share to draw the same tokens.
//
// An id that may be drawn weighs ExpF32((x - highest) / temperature), x its processed logit. Order
// for top-k and top-p is (x descending, id ascending). Nucleus masses are integers, so that their
// sums do not depend on the order of summation.

// The nucleus mass of a `weight` in [0, 1], in units of 2^-40: sums over a vocabulary of fewer than
// 2^23 ids cannot overflow.
inline uint64_t NucleusMass(float weight) {
  return static_cast<uint64_t>(static_cast<double>(weight) * 0x1.0p40);
}

// Top-p keeps an id while the sum of the masses that rank before it stays below this.
inline double NucleusNeeded(float top_p, uint64_t total) {
  return static_cast<double>(top_p) * static_cast<double>(total);
}

inline double SampleCoin(const SampleRow& row, uint32_t draw) {
  return base::Coin(row.seed, SamplePosition(row), draw);
}

// The id with the highest logit among `ids`, the lowest of those that tie; -1 when none of them is
// in the vocabulary.
inline int32_t BestId(std::span<const int32_t> ids, std::span<const float> logits) {
  int32_t best = -1;
  for (const int32_t id : ids) {
    if (id < 0 || static_cast<size_t>(id) >= logits.size()) continue;
    if (best < 0 || logits[id] > logits[best] || (logits[id] == logits[best] && id < best)) {
      best = id;
    }
  }
  return best;
}

// Sets signal.eos_logprob, and signal.eos_rank to 1 if there is an EOS id and to 0 if not.
// `highest` is the highest raw logit, `log_total` the logarithm of the sum of exp(x - highest).
void FillEosLogprob(std::span<const int32_t> eos_ids, std::span<const float> raw, double highest,
                    double log_total, EosSignal& signal);

}  // namespace baton::kernels
