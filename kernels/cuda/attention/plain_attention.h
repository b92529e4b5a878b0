#pragma once

#include <cstdint>

#include "kernels/tensor_view.h"

struct CUstream_st;

namespace baton::kernels::cuda {

// Attention over the paged store, row by row: for head sizes and dtypes that FlashInfer is not
// built for, and the oracle of the others. Pointers are to device memory.
struct PlainAttentionArgs {
  Matrix qkv;                              // [rows, …], q first, already rotated
  Matrix out;                              // [rows, q_heads * head_dim]
  const int32_t* positions = nullptr;      // [rows]
  const int32_t* row_sequences = nullptr;  // [rows] or -1: padding, whose output is zero
  const int32_t* block_indptr = nullptr;   // [sequences + 1] into blocks
  const int32_t* blocks = nullptr;         // block tables, one after the other

  int q_heads = 0;
  int kv_heads = 0;
  int head_dim = 0;
  int sliding_window = 0;  // 0 = full
  float scale = 0;
  DType kv_dtype = DType::kF32;
  int block_size = 0;
  const void* k = nullptr;  // of the layer: block 0, head 0, token 0
  const void* v = nullptr;
  int64_t block_stride = 0;  // elements
};

// One kernel; a cudaError_t.
int LaunchPlainAttention(const PlainAttentionArgs& args, CUstream_st* stream);

}  // namespace baton::kernels::cuda
