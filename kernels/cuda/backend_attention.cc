#include "kernels/cuda/attention/flashinfer_attention.h"
#include "kernels/cuda/attention/key_scale.h"
#include "kernels/cuda/attention/plain_attention.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/graph/row_buckets.h"

namespace baton::kernels {
namespace {

// Whether two shapes have one plan, which does not depend on the scales of keys and values.
bool SamePlan(const AttentionShape& a, const AttentionShape& b) {
  return a.q_heads == b.q_heads && a.kv_heads == b.kv_heads && a.head_dim == b.head_dim &&
         a.sliding_window == b.sliding_window && a.scale == b.scale;
}

// What multiplies the scores of queries that are scaled as RopeAndStoreKv leaves them.
float ScoreScale(const AttentionShape& shape) {
  return shape.scale * cuda::SplitKeyScale(shape.k_scale).score;
}

}  // namespace

void CudaBackend::PlanAttention(const StepLayout& layout, const PagedKv& kv, bool capture,
                                cuda::StepSizes& sizes) {
  if (!cuda::FlashInferHas(info_.compute_dtype, kv.layout.dtype, kv.layout.head_dim)) return;
  for (FlashInferShape& flashinfer : flashinfer_) {
    cuda::PlanAttention(layout.sequences, flashinfer.shape, sizes.rows, flashinfer.max_partials,
                        flashinfer.plan);
    const auto narrow = static_cast<int32_t>(flashinfer.plan.narrow_sequence.size());
    sizes.grids.push_back({.narrow = capture ? cuda::GridBucket(narrow) : narrow,
                           .wide = static_cast<int32_t>(flashinfer.plan.wide_sequence.size())});
  }
}

const CudaBackend::FlashInferShape* CudaBackend::FindFlashInfer(const AttentionShape& shape) const {
  for (size_t i = 0; i < sizes_.grids.size(); ++i) {
    if (SamePlan(flashinfer_[i].shape, shape)) return &flashinfer_[i];
  }
  return nullptr;
}

void CudaBackend::RunFlashInfer(const FlashInferShape& flashinfer, const AttentionShape& shape,
                                Matrix qkv, int layer, Matrix out) {
  const cuda::StepArrays& step = inputs_->device();
  const auto index = static_cast<size_t>(&flashinfer - flashinfer_.data());
  const cuda::PlanInputs& inputs = inputs_->device().plans[index];
  const cuda::StepSizes::Grid& grid = sizes_.grids[index];
  cuda::FlashInferArgs args = {.dtype = qkv.dtype,
                               .kv_dtype = kv_.layout.dtype,
                               .q = qkv.data,
                               .q_stride = static_cast<int32_t>(qkv.stride),
                               .out = out.data,
                               .q_heads = shape.q_heads,
                               .kv_heads = shape.kv_heads,
                               .head_dim = shape.head_dim,
                               .sliding_window = shape.sliding_window,
                               .scale = ScoreScale(shape),
                               .v_scale = shape.v_scale,
                               .rows = out.rows,
                               .k = Plane(layer, 0),
                               .v = Plane(layer, 1),
                               .block_stride = static_cast<int64_t>(kv_.layout.block_elements()),
                               .block_size = kv_.layout.block_size,
                               .sequences = static_cast<int>(sizes_.sequences),
                               .row_indptr = step.row_indptr,
                               .blocks = step.blocks,
                               .block_indptr = step.block_indptr,
                               .last_block_tokens = step.last_block_tokens,
                               .items = grid.narrow,
                               .item_sequence = inputs.narrow_sequence,
                               .item_tile = inputs.narrow_tile,
                               .item_split = inputs.narrow_split,
                               .item_valid = inputs.narrow_valid,
                               .split_tokens = inputs.split_tokens,
                               .partial_indptr = inputs.partial_indptr,
                               .merge_indptr = inputs.merge_indptr,
                               .partial_out = partial_out_->data(),
                               .partial_lse = static_cast<float*>(partial_lse_->data())};
  Note(cuda::LaunchNarrowAttention(args, stream_.handle()), "attention");
  args.items = grid.wide;
  args.item_sequence = inputs.wide_sequence;
  args.item_tile = inputs.wide_tile;
  args.item_split = inputs.wide_tile;  // not read: keys are not split
  args.item_valid = nullptr;
  Note(cuda::LaunchWideAttention(args, stream_.handle()), "attention");
}

void CudaBackend::RunPlain(const AttentionShape& shape, Matrix qkv, int layer, Matrix out) {
  const cuda::StepArrays& step = inputs_->device();
  Note(cuda::LaunchPlainAttention(
           {.qkv = qkv,
            .out = out,
            .positions = step.positions,
            .row_sequences = step.row_sequences,
            .block_indptr = step.block_indptr,
            .blocks = step.blocks,
            .q_heads = shape.q_heads,
            .kv_heads = shape.kv_heads,
            .head_dim = shape.head_dim,
            .sliding_window = shape.sliding_window,
            .scale = ScoreScale(shape),
            .v_scale = shape.v_scale,
            .kv_dtype = kv_.layout.dtype,
            .block_size = kv_.layout.block_size,
            .k = Plane(layer, 0),
            .v = Plane(layer, 1),
            .block_stride = static_cast<int64_t>(kv_.layout.block_elements())},
           stream_.handle()),
       "attention");
}

void CudaBackend::PagedAttention(Matrix qkv, int layer, const AttentionShape& shape, Matrix out) {
  check_.PagedAttention(qkv, layer, shape, out);
  const FlashInferShape* const flashinfer = FindFlashInfer(shape);
  if (flashinfer == nullptr) {
    RunPlain(shape, qkv, layer, out);
  } else {
    RunFlashInfer(*flashinfer, shape, qkv, layer, out);
  }
}

}  // namespace baton::kernels
