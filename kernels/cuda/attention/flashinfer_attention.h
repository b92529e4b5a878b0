#pragma once

#include <cstdint>

#include "kernels/dtype.h"

struct CUstream_st;

namespace baton::kernels::cuda {

// Whether FlashInfer's paged prefill, which serves decode as well, is built for such heads. Of e4m3
// it reads heads of 128 only: its own source doubts those of 64.
constexpr bool FlashInferHas(DType dtype, DType kv_dtype, int head_dim) {
  if (dtype == DType::kF32) return false;
  if (kv_dtype == DType::kFp8) return head_dim == 128;
  return dtype == kv_dtype && (head_dim == 64 || head_dim == 128);
}

// One launch over the items of an AttentionPlan: over parts of narrow sequences or tiles of wide
// ones. Pointers are to device memory; strides count elements.
struct FlashInferArgs {
  DType dtype = DType::kBF16;     // of q and out
  DType kv_dtype = DType::kBF16;  // of K and V: the same, or kFp8
  void* q = nullptr;              // [rows, q_stride], head after head; rotated and scaled
  int32_t q_stride = 0;
  void* out = nullptr;  // [rows, q_heads * head_dim]
  int q_heads = 0;
  int kv_heads = 0;
  int head_dim = 0;
  int sliding_window = 0;  // 0 = full
  float scale = 0;         // of scores of what the cache holds
  float v_scale = 1;       // multiplies the result; of kFp8
  int64_t rows = 0;        // tokens of the step, with padding

  void* k = nullptr;  // the layer's K of block 0, head 0, token 0
  void* v = nullptr;  // likewise V
  int64_t block_stride = 0;
  int block_size = 0;
  int sequences = 0;                     // with padding
  int32_t* row_indptr = nullptr;         // [sequences + 1] a sequence's first row
  int32_t* blocks = nullptr;             // block tables, one after the other
  int32_t* block_indptr = nullptr;       // [sequences + 1] a sequence's first entry of blocks
  int32_t* last_block_tokens = nullptr;  // [sequences] tokens in the last block

  int32_t items = 0;                 // of the launch, with padding
  int32_t* item_sequence = nullptr;  // [items]
  int32_t* item_tile = nullptr;      // [items] tile of query rows
  int32_t* item_split = nullptr;     // [items] part of the keys
  bool* item_valid = nullptr;        // [items] false for padding; null: all are valid
  int32_t* split_tokens = nullptr;   // [1] length of a part; not used where keys are not split

  // Only the narrow launch has these.
  int32_t* partial_indptr = nullptr;  // [sequences + 1]
  int32_t* merge_indptr = nullptr;    // [rows + 1]
  void* partial_out = nullptr;        // [partials, q_heads, head_dim] in dtype
  float* partial_lse = nullptr;       // [partials, q_heads]
};

// Computes the narrow sequences: keys in parts, which are merged at the end. It writes every row of
// `out`, zeros where a row has no part, so it goes before the wide launch. Returns a cudaError_t,
// which is cudaErrorInvalidConfiguration where FlashInfer refuses the arguments.
int LaunchNarrowAttention(const FlashInferArgs& args, CUstream_st* stream);
// Computes the wide sequences and writes their rows only. Returns the same errors.
int LaunchWideAttention(const FlashInferArgs& args, CUstream_st* stream);

}  // namespace baton::kernels::cuda
