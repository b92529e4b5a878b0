#pragma once

#include "kernels/cuda/cta/cta.h"
#include "kernels/cuda/cta/sample_data.h"

// How an entry of the penalty counts is filled from the history of a sequence: it is set to zero,
// unless ids are only added to it, then every id is counted, in any order.
namespace baton::kernels::cuda {

BATON_HD void AtomicOr(uint32_t* to, uint32_t bits) {
#ifdef __CUDA_ARCH__
  atomicOr(to, bits);
#else
  *to |= bits;
#endif
}

BATON_HD int32_t CountedIds(const CountsReset& reset) {
  return reset.prompt.count + reset.output.count + (reset.pending_slot >= 0 ? 1 : 0);
}

// Counts id number `index` of the history: of the prompt, then of the output, then the pending one.
BATON_HD void CountId(const CountsReset& reset, int32_t index, const int32_t* lists,
                      const int32_t* last_tokens, int32_t vocab, uint32_t* entry) {
  const bool of_prompt = index < reset.prompt.count;
  const int32_t in_output = index - reset.prompt.count;
  int32_t id = 0;
  if (of_prompt) {
    id = lists[reset.prompt.begin + index];
  } else if (in_output < reset.output.count) {
    id = lists[reset.output.begin + in_output];
  } else {
    id = last_tokens[reset.pending_slot];
  }
  if (id < 0 || id >= vocab) return;
  AtomicOr(&entry[id], 1);
  if (!of_prompt) AtomicAdd(&entry[id], 2);
}

}  // namespace baton::kernels::cuda
