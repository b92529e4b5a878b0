#include "common/model/warm_up.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "common/base/status.h"
#include "common/model/kv_arena.h"

namespace baton {

absl::Status RunLargestStep(Transformer& transformer, const kernels::KvLayout& layout) {
  const int32_t count = transformer.limits().max_tokens;
  const int32_t blocks = (count + layout.block_size - 1) / layout.block_size;
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

absl::Status RunDecodeSteps(Transformer& transformer, const kernels::PagedKv& kv) {
  const auto most = static_cast<size_t>(transformer.limits().max_samples);
  const std::vector<int32_t> zeros(most, 0);
  std::vector<int32_t> rows(most);
  std::iota(rows.begin(), rows.end(), 0);
  std::vector<kernels::StepLayout::Sequence> sequences;
  for (const int32_t row : rows) {
    sequences.push_back(
        {.token_begin = row, .num_tokens = 1, .context = 1, .blocks = std::span(zeros).first(1)});
  }
  for (size_t count = 1; count <= most;) {
    size_t padded = count;
    for (int time = 0; time < 2; ++time) {
      BATON_ASSIGN_OR_RETURN(const kernels::Matrix logits,
                             transformer.Forward({.tokens = std::span(zeros).first(count),
                                                  .positions = std::span(zeros).first(count),
                                                  .sequences = std::span(sequences).first(count),
                                                  .sample_rows = std::span(rows).first(count)},
                                                 kv));
      BATON_RETURN_IF_ERROR(transformer.backend().EndStep());
      padded = std::max(padded, static_cast<size_t>(logits.rows));
    }
    count = padded + 1;
  }
  return absl::OkStatus();
}

}  // namespace baton
