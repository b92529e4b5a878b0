#pragma once

#include "kernels/tensor_view.h"

struct CUstream_st;

namespace baton::kernels::cuda {

// Divides each row of `from` [rows, cols], in 16 bits or fp32, by a number of its own and rounds to
// e4m3, as fp8_math.h says: `to` [rows, cols] dense, `scales` [rows]. A row with NaN or infinity
// gets a scale of NaN, so that products with it are NaN. Queues one kernel and returns a
// cudaError_t.
int LaunchQuantizeRows(Matrix from, void* to, float* scales, CUstream_st* stream);

// The same with one number for all rows, above 0, that was chosen beforehand: what is beyond 448
// times it becomes that, and an element that is NaN or infinity becomes NaN.
int LaunchQuantizeRowsBy(float scale, Matrix from, void* to, float* scales, CUstream_st* stream);

// out = product + bias, or with `accumulate` out += product + bias. `product` is dense in 16 bits,
// `out` dense in fp32 or the product's dtype and may be the same memory, `bias` is fp32 [cols] or
// null. Queues one kernel and returns a cudaError_t.
int LaunchAddProduct(Matrix product, const float* bias, bool accumulate, Matrix out,
                     CUstream_st* stream);

}  // namespace baton::kernels::cuda
