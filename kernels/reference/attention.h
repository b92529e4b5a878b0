#pragma once

#include "kernels/backend.h"

namespace baton::kernels::reference {

// Scalar twins of the Backend operations of the same names.
void RopeAndStoreKv(const StepLayout& layout, const PagedKv& kv, Matrix qkv, int layer,
                    const AttentionShape& shape, const RopeShape& rope, const QkNorm& norm);
void PagedAttention(const StepLayout& layout, const PagedKv& kv, Matrix qkv, int layer,
                    const AttentionShape& shape, Matrix out);

}  // namespace baton::kernels::reference
