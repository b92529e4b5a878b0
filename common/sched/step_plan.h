#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/base/eos_signal.h"
#include "common/base/ids.h"
#include "kernels/sampling.h"

namespace baton {

// One sequence's share of a step. Everything spanned belongs to the scheduler and stays unchanged
// until the plan was committed.
struct StepRow {
  SequenceId sequence;
  std::span<const TokenId> tokens;  // fed in this step
  int32_t first_position = 0;       // of tokens[0]; the row attends to positions before it too
  std::span<const BlockId> blocks;  // block table that covers first_position + tokens.size()
  bool sample = false;              // draw a token after the last one
  kernels::SampleRow sampling;      // only if `sample`
};

// What the model computes next: a ragged batch. Prefill, chunked prefill, decode and recompute
// differ only in the lengths of their rows.
struct StepPlan {
  uint64_t step = 0;  // numbers the plans of an engine from 1
  std::vector<StepRow> rows;
  int32_t num_tokens = 0;   // sum over rows
  int32_t num_samples = 0;  // rows with `sample`

  bool empty() const { return rows.empty(); }
};

struct StepOutput {
  std::vector<SampledToken> samples;  // one per row with `sample`, in row order
};

}  // namespace baton
