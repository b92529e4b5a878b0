#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/backend.h"

namespace baton::kernels::cuda {

// The work of FlashInfer's paged attention for one step and one AttentionShape, divided on the
// host.
//
// Sequences with few query rows (decode, verification) form the narrow launch: one tile of query
// rows each, their keys split into parts of a fixed number of tokens, merged afterwards. The others
// form the wide launch: tiles of query rows over all keys. So the arithmetic of a row depends on
// its own sequence only, as long as the partial results fit the workspace; a step with more of them
// than `max_partials` takes longer parts. FlashInfer packs the query heads of a group into rows: a
// tile holds tile / group tokens.
struct AttentionPlan {
  static constexpr int32_t kNarrowTile = 16;
  static constexpr int32_t kWideTile = 128;
  static constexpr int32_t kSplitTokens = 256;

  // One entry per part of a narrow sequence.
  std::vector<int32_t> narrow_sequence;
  std::vector<int32_t> narrow_split;
  // One entry per tile of a wide sequence.
  std::vector<int32_t> wide_sequence;
  std::vector<int32_t> wide_tile;

  std::vector<int32_t> partial_indptr;  // [sequences + 1] first partial row of a narrow sequence
  std::vector<int32_t> merge_indptr;    // [rows + 1] partials of each row, none for wide sequences
  int32_t split_tokens = kSplitTokens;

  int32_t partials() const { return merge_indptr.back(); }
};

// `rows` is the step's token rows with padding, `max_partials` what the workspace holds. Reuses the
// memory of `plan`.
void PlanAttention(std::span<const StepLayout::Sequence> sequences, const AttentionShape& shape,
                   int64_t rows, int64_t max_partials, AttentionPlan& plan);

}  // namespace baton::kernels::cuda
