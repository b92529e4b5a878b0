#pragma once

#include <cstdint>

#include "kernels/cuda/cta/feedback.h"
#include "kernels/tensor_view.h"

// Launches of the operations that move or scale rows. Each queues one kernel and returns a
// cudaError_t. Pointers are to device memory.
struct CUstream_st;

namespace baton::kernels::cuda {

// out fp32 [rows, cols] = table[TokenOf(tokens[row], last)], of [vocab, cols] in `dtype`. A token
// outside the table gives a row of NaN, from which no draw is valid.
int LaunchEmbed(const void* table, DType dtype, int64_t vocab, const int32_t* tokens,
                const LastTokens& last, Matrix out, CUstream_st* stream);

// Row i of out [rows, cols] = row rows[i] of `in`, which has the same dtype.
int LaunchGather(Matrix in, const int32_t* rows, Matrix out, CUstream_st* stream);

// out = in / sqrt(mean(in²) + eps) * weight, row by row; `in` is fp32, `weight` fp32 [cols], `out`
// of any dtype.
int LaunchRmsNorm(Matrix in, const float* weight, float eps, Matrix out, CUstream_st* stream);

// out [rows, ffn] = silu(gate) * up of gate_up [rows, 2 ffn], in the same dtype.
int LaunchSiluMul(Matrix gate_up, Matrix out, CUstream_st* stream);

// Converts `count` elements from one dtype to another, rounding to nearest even.
int LaunchConvert(const void* from, DType from_dtype, void* to, DType to_dtype, int64_t count,
                  CUstream_st* stream);

}  // namespace baton::kernels::cuda
