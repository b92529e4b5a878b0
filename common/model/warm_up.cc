#include "common/model/warm_up.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "common/base/status.h"
#include "common/model/kv_arena.h"
#include "kernels/attention_split.h"

namespace baton {
namespace {

// A step of `count` sequences that add one token each behind `context` - 1 others, all in block 0.
// Returns how many rows it had with padding.
absl::StatusOr<size_t> RunDecodeStepTwice(Transformer& transformer, const kernels::PagedKv& kv,
                                          size_t count, int32_t context) {
  const std::vector<int32_t> tokens(count, 0);
  const std::vector<int32_t> positions(count, context - 1);
  const std::vector<int32_t> table(
      static_cast<size_t>((context + kv.layout.block_size - 1) / kv.layout.block_size), 0);
  std::vector<int32_t> rows(count);
  std::iota(rows.begin(), rows.end(), 0);
  std::vector<kernels::StepLayout::Sequence> sequences;
  for (const int32_t row : rows) {
    sequences.push_back({.token_begin = row, .num_tokens = 1, .context = context, .blocks = table});
  }
  size_t padded = count;
  for (int time = 0; time < 2; ++time) {
    BATON_ASSIGN_OR_RETURN(
        const kernels::Matrix logits,
        transformer.Forward(
            {.tokens = tokens, .positions = positions, .sequences = sequences, .sample_rows = rows},
            kv));
    BATON_RETURN_IF_ERROR(transformer.backend().EndStep());
    padded = std::max(padded, static_cast<size_t>(logits.rows));
  }
  return padded;
}

}  // namespace

int32_t LargestStepBlocks(const StepLimits& limits, const kernels::KvLayout& layout) {
  return (limits.max_tokens + layout.block_size - 1) / layout.block_size;
}

absl::Status RunLargestStep(Transformer& transformer, const kernels::KvLayout& layout) {
  const int32_t count = transformer.limits().max_tokens;
  const int32_t blocks = LargestStepBlocks(transformer.limits(), layout);
  BATON_ASSIGN_OR_RETURN(const KvArena arena,
                         KvArena::Create(transformer.backend(), layout, blocks));
  const std::vector<int32_t> tokens(static_cast<size_t>(count), 0);
  std::vector<int32_t> positions(static_cast<size_t>(count));
  std::iota(positions.begin(), positions.end(), 0);
  std::vector<int32_t> table(static_cast<size_t>(blocks));
  std::iota(table.begin(), table.end(), 0);
  const kernels::StepLayout::Sequence sequence = {
      .num_tokens = count, .context = count, .blocks = table};
  const auto samples = static_cast<size_t>(transformer.limits().max_samples);
  BATON_RETURN_IF_ERROR(transformer
                            .Forward({.tokens = tokens,
                                      .positions = positions,
                                      .sequences = {&sequence, 1},
                                      .sample_rows = std::span(positions).first(samples)},
                                     arena.kv())
                            .status());
  return transformer.backend().EndStep();
}

std::vector<int32_t> WarmUpContexts(int32_t longest) {
  std::vector<int32_t> contexts = {1};
  int64_t tokens = kernels::kAttentionSplitTokens;
  while (tokens < longest) {
    tokens *= 2;
    contexts.push_back(static_cast<int32_t>(tokens));
  }
  return contexts;
}

absl::Status RunDecodeSteps(Transformer& transformer, const kernels::PagedKv& kv,
                            int32_t max_context) {
  const int64_t pool_tokens = int64_t{kv.num_blocks} * kv.layout.block_size;
  const StepLimits& limits = transformer.limits();
  const auto most = static_cast<size_t>(std::min(
      {limits.max_samples, limits.max_sequences, transformer.backend().info().max_captured_rows}));
  for (size_t count = 1; count <= most;) {
    const auto each = pool_tokens / static_cast<int64_t>(count);
    const auto longest =
        static_cast<int32_t>(std::clamp<int64_t>(each, 1, std::max(1, max_context)));
    size_t padded = count;
    for (const int32_t context : WarmUpContexts(longest)) {
      BATON_ASSIGN_OR_RETURN(padded, RunDecodeStepTwice(transformer, kv, count, context));
    }
    count = padded + 1;
  }
  return absl::OkStatus();
}

}  // namespace baton
