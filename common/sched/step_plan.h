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
  // The place of the sequence while it runs, in [0, max_num_seqs); no other row of the step has it.
  // Whoever runs steps keeps the last token that was drawn for each slot.
  int32_t slot = -1;
  std::span<const TokenId> tokens;  // fed in this step
  // The row feeds one token in place of `tokens`: the last that `slot` drew. The step that draws it
  // was planned before this one and is not committed, so the host does not know it.
  bool feeds_sampled = false;
  int32_t first_position = 0;       // of the first token; the row attends to those before it too
  std::span<const BlockId> blocks;  // block table that covers first_position + num_tokens()
  bool sample = false;              // draw a token after the last one
  kernels::SampleRow sampling;      // only if `sample`

  int32_t num_tokens() const { return feeds_sampled ? 1 : static_cast<int32_t>(tokens.size()); }
};

// How many tokens and sequences of a plan prefill, and how many decode.
struct StepShape {
  int32_t prefill_tokens = 0, decode_tokens = 0;
  int32_t prefill_sequences = 0, decode_sequences = 0;
};

// What the model computes next: a ragged batch. Prefill, chunked prefill, decode and recompute
// differ only in the lengths of their rows.
struct StepPlan {
  uint64_t step = 0;  // numbers the plans of an engine from 1
  std::vector<StepRow> rows;
  int32_t num_tokens = 0;   // sum over rows
  int32_t num_samples = 0;  // rows with `sample`
  StepShape shape;

  bool empty() const { return rows.empty(); }
};

// What the model drew for a plan.
struct StepOutput {
  std::vector<SampledToken> samples;  // one per row with `sample`, in row order
};

}  // namespace baton
