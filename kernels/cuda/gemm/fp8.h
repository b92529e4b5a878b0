#pragma once

#include "kernels/tensor_view.h"

struct CUstream_st;

namespace baton::kernels::cuda {

// Each row of `from` [rows, cols], in 16 bits or fp32, divided by its own number and rounded to
// e4m3, see fp8_math.h: `to` [rows, cols] dense, `scales` [rows]. A row with NaN or infinity gets a
// scale of NaN, and so a result of NaN. One kernel; a cudaError_t.
int LaunchQuantizeRows(Matrix from, void* to, float* scales, CUstream_st* stream);

// out [+]= product + bias: `product` dense in 16 bits, `out` dense in fp32 or the product's dtype,
// which may be the same memory; `bias` fp32 [cols] or null. One kernel; a cudaError_t.
int LaunchAddProduct(Matrix product, const float* bias, bool accumulate, Matrix out,
                     CUstream_st* stream);

}  // namespace baton::kernels::cuda
