#pragma once

#include <cstdint>

#include "kernels/cuda/cta/quantized_data.h"
#include "kernels/tensor_view.h"

struct CUstream_st;

namespace baton::kernels::cuda {

// The most rows that LaunchFewRows multiplies. A row gets the same bits whatever their number is.
constexpr int kFewRows = 16;

// out = in · weightᵀ + bias, or += with `accumulate`, of 1 to kFewRows rows. `in` is dense in any
// dtype, `out` dense in that or fp32, `bias` is fp32 [out] or null. Sums are fp32. Queues one
// kernel and returns a cudaError_t.
int LaunchFewRows(const QuantizedView& weight, Matrix in, const float* bias, bool accumulate,
                  Matrix out, CUstream_st* stream);

// Writes the numbers that the weight stands for, rounded to the dtype of `to`, which is dense [out,
// in], each at the place of its input. Queues one kernel and returns a cudaError_t.
int LaunchWiden(const QuantizedView& weight, Matrix to, CUstream_st* stream);

}  // namespace baton::kernels::cuda
