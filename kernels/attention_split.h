#pragma once

#include <cstdint>

namespace baton::kernels {

// Attention of long contexts is computed in parts of this many keys, counted from position 0, whose
// results are merged in order. So the bits of a row do not depend on who computes which part, and a
// decode step has as many pieces of work as its sequences have parts.
inline constexpr int32_t kAttentionSplitTokens = 256;

}  // namespace baton::kernels
