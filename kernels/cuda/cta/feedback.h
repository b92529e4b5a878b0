#pragma once

#include <cstdint>

#include "kernels/cuda/cta/cta.h"

namespace baton::kernels::cuda {

// The ids that the slots drew last, in device memory. It is empty where nothing samples.
struct LastTokens {
  const int32_t* ids = nullptr;  // [slots]
  int32_t slots = 0;
};

// The id that an entry of StepLayout::tokens means: the entry itself, or what the slot that it
// names drew last (see LastTokenOf in kernels/backend.h). It is -1, which is no id, for a slot that
// does not exist.
BATON_HD int32_t TokenOf(int32_t entry, const LastTokens& last) {
  if (entry >= 0) return entry;
  const int32_t slot = -1 - entry;
  return slot < last.slots ? last.ids[slot] : -1;
}

}  // namespace baton::kernels::cuda
