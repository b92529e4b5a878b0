#pragma once

#include "kernels/backend.h"

namespace baton::kernels::reference {

// The Backend operations of the same names, in scalar code for the reference. With `in_pairs` what
// attention in pairs of bfloat16 rounds is rounded to it: the weights exp(score - highest), where
// `highest` is that of the split, and values, which only those of int8 notice.
void RopeAndStoreKv(const StepLayout& layout, const PagedKv& kv, Matrix qkv, int layer,
                    const AttentionShape& shape, const RopeShape& rope, const QkNorm& norm);
void PagedAttention(const StepLayout& layout, const PagedKv& kv, Matrix qkv, int layer,
                    const AttentionShape& shape, bool in_pairs, Matrix out);

}  // namespace baton::kernels::reference
