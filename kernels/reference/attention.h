#pragma once

#include "kernels/backend.h"

namespace baton::kernels::reference {

// The Backend operations of the same names, in scalar code for the reference. With `rounds_weights`
// exp(score - highest), where `highest` is that of the split, is rounded to bfloat16.
void RopeAndStoreKv(const StepLayout& layout, const PagedKv& kv, Matrix qkv, int layer,
                    const AttentionShape& shape, const RopeShape& rope, const QkNorm& norm);
void PagedAttention(const StepLayout& layout, const PagedKv& kv, Matrix qkv, int layer,
                    const AttentionShape& shape, bool rounds_weights, Matrix out);

}  // namespace baton::kernels::reference
