#pragma once

#include <cstdint>

#include "kernels/tensor_view.h"

namespace baton::kernels::cuda {

// Backend::RopeAndStoreKv over rows whose positions in the cache are known. Pointers are to device
// memory.
struct RopeStoreArgs {
  Matrix qkv;                            // [rows, (q_heads + 2 kv_heads) * head_dim]
  const int32_t* positions = nullptr;    // [rows]
  const int64_t* cache_index = nullptr;  // [rows] see StepArrays::cache_index
  const float* inv_freq = nullptr;       // [head_dim / 2]
  float attention_factor = 1;
  const float* q_norm = nullptr;  // [head_dim] or null
  const float* k_norm = nullptr;
  float norm_eps = 0;
  float q_scale = 1;  // multiplies q once it is rotated: see KeyScale

  int q_heads = 0;
  int kv_heads = 0;
  int head_dim = 0;
  DType kv_dtype = DType::kF32;
  float k_scale = 1;  // of a cache of kFp8
  float v_scale = 1;
  int block_size = 0;
  void* k = nullptr;         // the layer's K of block 0, head 0, token 0
  void* v = nullptr;         // likewise V
  int64_t block_stride = 0;  // elements
};

}  // namespace baton::kernels::cuda
