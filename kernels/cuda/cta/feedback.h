#pragma once

#include <cstdint>

#include "kernels/cuda/cta/cta.h"

namespace baton::kernels::cuda {

// What each slot drew last, in device memory; none where nothing samples.
struct LastTokens {
  const int32_t* ids = nullptr;  // [slots]
  int32_t slots = 0;
};

// The id behind an entry of StepLayout::tokens: itself, or what a slot drew last (LastTokenOf of
// kernels/backend.h). -1, which is no id, for a slot that does not exist.
BATON_HD int32_t TokenOf(int32_t entry, const LastTokens& last) {
  if (entry >= 0) return entry;
  const int32_t slot = -1 - entry;
  return slot < last.slots ? last.ids[slot] : -1;
}

}  // namespace baton::kernels::cuda
