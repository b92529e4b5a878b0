#pragma once

#include "kernels/backend.h"

namespace baton::kernels::reference {

// The Backend operations of the same names, in scalar code for the reference.
void RopeAndStoreKv(const StepLayout& layout, const PagedKv& kv, Matrix qkv, int layer,
                    const AttentionShape& shape, const RopeShape& rope, const QkNorm& norm);
void PagedAttention(const StepLayout& layout, const PagedKv& kv, Matrix qkv, int layer,
                    const AttentionShape& shape, Matrix out);

}  // namespace baton::kernels::reference
