#include "kernels/cuda/attention/attention_plan.h"

#include <algorithm>

#include "kernels/operation_check.h"

namespace baton::kernels::cuda {
namespace {

int32_t PackedRows(const StepLayout::Sequence& sequence, const AttentionShape& shape) {
  return sequence.num_tokens * (shape.q_heads / shape.kv_heads);
}

// How many parts the keys have that the rows of a narrow tile can see, as the kernel counts them:
// with a window it begins where the tile's first row does and goes on for window - 1 + tile tokens.
int32_t Parts(const StepLayout::Sequence& sequence, const AttentionShape& shape,
              int32_t split_tokens) {
  int32_t seen = sequence.context;
  if (shape.sliding_window > 0) {
    seen = static_cast<int32_t>(
        std::min<int64_t>(seen, int64_t{shape.sliding_window} - 1 + AttentionPlan::kNarrowTile));
  }
  return (seen + split_tokens - 1) / split_tokens;
}

void Fill(std::span<const StepLayout::Sequence> sequences, const AttentionShape& shape,
          AttentionPlan& plan) {
  plan.narrow_sequence.clear();
  plan.narrow_split.clear();
  plan.wide_sequence.clear();
  plan.wide_tile.clear();
  plan.partial_indptr.assign(1, 0);
  plan.merge_indptr.assign(1, 0);
  for (size_t i = 0; i < sequences.size(); ++i) {
    const StepLayout::Sequence& sequence = sequences[i];
    const int32_t packed = PackedRows(sequence, shape);
    const auto index = static_cast<int32_t>(i);
    const bool narrow = packed <= AttentionPlan::kNarrowTile;
    const int32_t parts = narrow ? Parts(sequence, shape, plan.split_tokens) : 0;
    for (int32_t part = 0; part < parts; ++part) {
      plan.narrow_sequence.push_back(index);
      plan.narrow_split.push_back(part);
    }
    for (int32_t row = 0; row < sequence.num_tokens; ++row) {
      plan.merge_indptr.push_back(plan.merge_indptr.back() + parts);
    }
    plan.partial_indptr.push_back(plan.merge_indptr.back());
    if (narrow) continue;
    const int32_t tiles = (packed + AttentionPlan::kWideTile - 1) / AttentionPlan::kWideTile;
    // The last tile sees the most keys. It goes first, so that no multiprocessor is left with a
    // long one.
    for (int32_t tile = tiles - 1; tile >= 0; --tile) {
      plan.wide_sequence.push_back(index);
      plan.wide_tile.push_back(tile);
    }
  }
}

}  // namespace

void PlanAttention(std::span<const StepLayout::Sequence> sequences, const AttentionShape& shape,
                   int64_t rows, int64_t max_partials, AttentionPlan& plan) {
  CheckHeads(shape);
  plan.split_tokens = AttentionPlan::kSplitTokens;
  Fill(sequences, shape, plan);
  while (plan.partials() > max_partials && plan.split_tokens < (1 << 24)) {
    plan.split_tokens *= 2;
    Fill(sequences, shape, plan);
  }
  plan.merge_indptr.resize(std::max<size_t>(plan.merge_indptr.size(), rows + 1),
                           plan.merge_indptr.back());
}

}  // namespace baton::kernels::cuda
