#pragma once

// Calls FlashInfer's paged prefill kernels. Each dtype and head size is instantiated in a file of
// its own, because a kernel takes long to compile.
#include <cuda_runtime.h>

#include <exception>
#include <flashinfer/attention/default_prefill_params.cuh>
#include <flashinfer/attention/mask.cuh>
#include <flashinfer/attention/prefill.cuh>
#include <flashinfer/attention/variants.cuh>
#include <flashinfer/page.cuh>
#include <flashinfer/pos_enc.cuh>

#include "kernels/cuda/attention/flashinfer_attention.h"

namespace baton::kernels::cuda {

// FlashInfer's parameters, with a member of a name that its variants look for.
template <typename T, typename Kv>
struct AttentionParams : flashinfer::BatchPrefillPagedParams<T, Kv, T, int32_t> {
  using flashinfer::BatchPrefillPagedParams<T, Kv, T, int32_t>::BatchPrefillPagedParams;
  float v_scale = 1;
};

// The arguments in FlashInfer's own words.
template <typename T, typename Kv>
AttentionParams<T, Kv> FlashInferParams(const FlashInferArgs& args) {
  // FlashInfer calls this layout of a page HND: [head][token][element].
  const int64_t strides[3] = {args.block_stride, int64_t{args.block_size} * args.head_dim,
                              args.head_dim};
  const flashinfer::paged_kv_t<Kv, int32_t> kv(
      static_cast<uint32_t>(args.kv_heads), static_cast<uint32_t>(args.block_size),
      static_cast<uint32_t>(args.head_dim), static_cast<uint32_t>(args.sequences),
      flashinfer::QKVLayout::kHND, static_cast<Kv*>(args.k), static_cast<Kv*>(args.v), strides,
      args.blocks, args.block_indptr, args.last_block_tokens);
  // FlashInfer's window counts the tokens before the query.
  const int32_t window_left = args.sliding_window > 0 ? args.sliding_window - 1 : -1;
  AttentionParams<T, Kv> params(
      static_cast<T*>(args.q), kv, /*maybe_custom_mask=*/nullptr, args.row_indptr,
      /*maybe_mask_indptr=*/nullptr, /*maybe_q_rope_offset=*/nullptr, static_cast<T*>(args.out),
      /*lse=*/nullptr, /*maybe_alibi_slopes=*/nullptr, static_cast<uint32_t>(args.q_heads),
      args.q_stride, args.head_dim, window_left, /*logits_soft_cap=*/0.0f, args.scale,
      /*rope_scale=*/1.0f, /*rope_theta=*/1.0f);
  params.request_indices = args.item_sequence;
  params.qo_tile_indices = args.item_tile;
  params.kv_tile_indices = args.item_split;
  params.block_valid_mask = args.item_valid;
  params.kv_chunk_size_ptr = args.split_tokens;
  params.padded_batch_size = static_cast<uint32_t>(args.items);
  params.max_total_num_rows = static_cast<uint32_t>(args.rows);
  params.v_scale = args.v_scale;
  return params;
}

// Launches the kernel for tiles of kTile packed rows. FlashInfer throws where it refuses arguments.
template <typename T, typename Kv, int kHeadDim, int kTile>
int RunFlashInfer(const AttentionParams<T, Kv>& params, T* partial_out, float* partial_lse,
                  cudaStream_t stream) {
  using Params = AttentionParams<T, Kv>;
  using Variant = flashinfer::DefaultAttention</*use_custom_mask=*/false,
                                               /*use_sliding_window=*/true,
                                               /*use_logits_soft_cap=*/false, /*use_alibi=*/false>;
  try {
    return flashinfer::BatchPrefillWithPagedKVCacheDispatched<
        kTile, kHeadDim, kHeadDim, flashinfer::PosEncodingMode::kNone,
        /*USE_FP16_QK_REDUCTION=*/false, flashinfer::MaskMode::kCausal, Variant, Params>(
        params, partial_out, partial_lse, /*enable_pdl=*/false, stream);
  } catch (const std::exception&) {
    return cudaErrorInvalidConfiguration;
  }
}

template <typename T, int kHeadDim, typename Kv = T>
int RunNarrow(const FlashInferArgs& args, cudaStream_t stream) {
  auto params = FlashInferParams<T, Kv>(args);
  params.o_indptr = args.partial_indptr;
  params.merge_indptr = args.merge_indptr;
  return RunFlashInfer<T, Kv, kHeadDim, 16>(params, static_cast<T*>(args.partial_out),
                                            args.partial_lse, stream);
}

template <typename T, int kHeadDim, typename Kv = T>
int RunWide(const FlashInferArgs& args, cudaStream_t stream) {
  auto params = FlashInferParams<T, Kv>(args);
  params.o_indptr = args.row_indptr;  // without parts a row's result goes to its own place
  return RunFlashInfer<T, Kv, kHeadDim, 128>(params, nullptr, nullptr, stream);
}

}  // namespace baton::kernels::cuda
