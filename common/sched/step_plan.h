#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "common/base/eos_signal.h"
#include "common/base/ids.h"
#include "common/sched/sequence_guide.h"
#include "kernels/paged_kv.h"
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
  // How tokens are drawn behind the last draws.size() tokens of the row, one behind each. A row
  // that only computes has none. Usually there is one; where there are more, each further one holds
  // for the case that the draw before it gives the token that the row feeds behind that one.
  absl::InlinedVector<kernels::SampleRow, 1> draws;
  // What the first draws give: ids that a guide forces, of which all but perhaps the last are fed
  // behind their places. Who runs the step lets these draws have no other.
  std::span<const TokenId> forced;
  bool bare_forced = false;  // nothing need be computed for them: BareToken is all that is wanted
  // Whose mask the draw behind these, the row's last, has to keep to; null: no guide, or that draw
  // is forced as well. Who runs the step sets SampleRow::allowed.
  SequenceGuide* guide = nullptr;

  // Which beam of its sequence's search this is; its draw is there for the most likely tokens that
  // come with it. Such a row has no slot. -1: the sequence draws one answer.
  int32_t beam = -1;

  // Tokens of the prompt that are scored: the first by the logits at the row's position
  // `first_scored`, counted from 0 in the row, each other by those of the position behind.
  std::span<const TokenId> scored;
  int32_t first_scored = 0;
  int32_t score_alternatives = 0;  // how many of the most likely tokens come with each score

  int32_t num_tokens() const { return feeds_sampled ? 1 : static_cast<int32_t>(tokens.size()); }
  int32_t num_draws() const { return static_cast<int32_t>(draws.size()); }
};

// A token that was not drawn but is known, without figures: not a number is no chance of an end.
inline SampledToken BareToken(TokenId id) {
  SampledToken token;
  token.token = id;
  token.eos.eos_logprob = std::numeric_limits<float>::quiet_NaN();
  return token;
}

// How many of the tokens that were drawn for a row count, from the first on: those up to the first
// that the row did not feed behind its place. `drawn` has one token for each draw.
inline int32_t CountingDraws(const StepRow& row, std::span<const SampledToken> drawn) {
  const std::span<const TokenId> fed = row.tokens;
  int32_t count = 1;
  while (count < row.num_draws() &&
         drawn[static_cast<size_t>(count - 1)].token ==
             fed[fed.size() - row.draws.size() + static_cast<size_t>(count)]) {
    ++count;
  }
  return count;
}

// How many tokens and sequences of a plan prefill, and how many decode.
struct StepShape {
  int32_t prefill_tokens = 0, decode_tokens = 0;
  int32_t prefill_sequences = 0, decode_sequences = 0;
};

// What the model computes next: a ragged batch. Prefill, chunked prefill, decode and recompute
// differ only in the lengths of their rows.
struct StepPlan {
  uint64_t step = 0;  // numbers the plans of an engine from 1
  // Blocks that are copied before the rows compute, in this order: those of victims to the host's
  // arena; those of sequences that come back from there; and those that beams shared and now go on
  // in.
  std::vector<kernels::BlockCopy> swaps_out, swaps_in;
  std::vector<kernels::BlockCopy> copies;
  std::vector<StepRow> rows;
  int32_t num_tokens = 0;   // sum over rows
  int32_t num_samples = 0;  // draws of all rows
  int32_t num_scores = 0;   // sum of `scored` over rows
  StepShape shape;

  bool empty() const { return rows.empty(); }
  bool swaps() const { return !swaps_out.empty() || !swaps_in.empty(); }
};

// What the model drew for a plan.
struct StepOutput {
  std::vector<SampledToken> samples;  // one per draw, in the order of rows and of their draws
  std::vector<TokenScore> scores;     // of all that is `scored`, in row order
};

}  // namespace baton
