#pragma once

#include <cstdint>
#include <vector>

#include "tools/bench/plan/prompt_maker.h"

namespace baton::bench {

// The first `count` random numbers that the prompt of `spec` is made from, one for each token. This
// alone decides which tokens prompts share, because equal numbers become equal tokens.
std::vector<uint32_t> PromptWords(uint64_t seed, const PromptSharing& sharing,
                                  const PromptSpec& spec, int64_t count);

// Maps a random word evenly to one of the numbers below n, for n < 2^32.
constexpr uint32_t PickBelow(uint32_t n, uint32_t word) {
  return static_cast<uint32_t>((uint64_t{word} * n) >> 32);
}

}  // namespace baton::bench
