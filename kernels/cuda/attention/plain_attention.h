#pragma once

#include <cstdint>

#include "kernels/tensor_view.h"

struct CUstream_st;

namespace baton::kernels::cuda {

// Attention over the KV cache by a kernel of our own that goes row by row: for the head sizes and
// dtypes that FlashInfer is not built for. Pointers are to device memory.
struct PlainAttentionArgs {
  Matrix qkv;                              // [rows, …] q comes first, rotated and scaled
  Matrix out;                              // [rows, q_heads * head_dim]
  const int32_t* positions = nullptr;      // [rows]
  const int32_t* row_sequences = nullptr;  // [rows]; -1 for padding, whose output is zero
  const int32_t* block_indptr = nullptr;   // [sequences + 1] a sequence's first entry of blocks
  const int32_t* blocks = nullptr;         // block tables, one after the other

  int q_heads = 0;
  int kv_heads = 0;
  int head_dim = 0;
  int sliding_window = 0;  // 0 = full
  float scale = 0;         // of scores of what the cache holds
  float v_scale = 1;       // multiplies the result
  DType kv_dtype = DType::kF32;
  int block_size = 0;
  const void* k = nullptr;   // the layer's K of block 0, head 0, token 0
  const void* v = nullptr;   // likewise V
  int64_t block_stride = 0;  // elements
};

// Queues one kernel and returns a cudaError_t.
int LaunchPlainAttention(const PlainAttentionArgs& args, CUstream_st* stream);

}  // namespace baton::kernels::cuda
