#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/attention_split.h"
#include "kernels/backend.h"

namespace baton::kernels::cuda {

// How the host divides the work of FlashInfer's paged attention for one step and one
// AttentionShape.
//
// FlashInfer packs the query heads that share a KV head into rows, so a tile of 16 rows holds the
// queries of 16 / group tokens. Sequences whose rows fit one such tile, as those that decode do,
// form the narrow launch: their keys are split into parts of a fixed number of tokens, which are
// computed side by side and merged afterwards. All other sequences form the wide launch: tiles of
// 128 rows, each over all of its keys. So the arithmetic of a row depends on its own sequence only,
// as long as the partial results fit the workspace; a step with more than `max_partials` takes
// longer parts.
struct AttentionPlan {
  static constexpr int32_t kNarrowTile = 16;  // packed rows
  static constexpr int32_t kWideTile = 128;   // packed rows
  static constexpr int32_t kSplitTokens = kAttentionSplitTokens;

  // One entry per part of a narrow sequence.
  std::vector<int32_t> narrow_sequence;
  std::vector<int32_t> narrow_split;
  // One entry per tile of a wide sequence.
  std::vector<int32_t> wide_sequence;
  std::vector<int32_t> wide_tile;

  std::vector<int32_t> partial_indptr;  // [sequences + 1] a sequence's first partial result
  std::vector<int32_t> merge_indptr;    // [rows + 1] a row's first; wide sequences have none
  int32_t split_tokens = kSplitTokens;

  int32_t partials() const { return merge_indptr.back(); }
};

// Divides the step into `plan`, whose memory it reuses. `rows` counts the tokens of the step with
// padding, `max_partials` the partial results that the workspace holds.
void PlanAttention(std::span<const StepLayout::Sequence> sequences, const AttentionShape& shape,
                   int64_t rows, int64_t max_partials, AttentionPlan& plan);

}  // namespace baton::kernels::cuda
