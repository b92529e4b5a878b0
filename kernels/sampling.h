#pragma once

#include <cstdint>
#include <span>
#include <utility>

#include "common/base/eos_signal.h"

namespace baton::kernels {

// How the token of one row of logits is drawn. Spans are host memory, valid until Sample returns.
//
// The logits are processed in this order: repetition penalty (of prompt and output), presence and
// frequency penalty (of the output), bias, EOS bias, masks, temperature, top-k, top-p, min-p. What
// is off costs nothing.
struct SampleRow {
  float temperature = 0;  // 0 = greedy: highest processed logit, ties to the lowest id
  int32_t top_k = 0;      // 0 = off
  float top_p = 1;
  float min_p = 0;
  float repetition_penalty = 1;
  float presence_penalty = 0;
  float frequency_penalty = 0;
  std::span<const std::pair<int32_t, float>> logit_bias;
  float eos_bias = 0;  // added to the logits of `eos_ids`; finite
  // Cannot be drawn: they would repeat an n-gram. Where this and `mask_stop_ids` leave no id that
  // is allowed, the two do not count; penalties and biases do.
  std::span<const int32_t> banned_ids;
  // The only ids that can be drawn: bit id % 32 of word id / 32; ids beyond its words cannot.
  // Empty: all can.
  std::span<const uint32_t> allowed;

  std::span<const int32_t> prompt;  // ids
  std::span<const int32_t> output;  // ids sampled so far, of all attempts
  // Ids that follow `output` if this step draws them. A sequence may draw at several positions of a
  // step; the first of these draws has none, and each further one has one more.
  std::span<const int32_t> given;
  // Whether this is one of several such draws. Which of them count is decided on the host, so what
  // a device keeps of a slot (its last id, its penalty counts) stays as it was before them.
  bool one_of_several = false;
  // One more id follows `output`: the last that `slot` drew, in a step whose tokens the host had
  // not seen when it planned this one. A device that keeps the last id of each slot reads it there;
  // for the others the runner sets `pending_id`.
  bool pending_output = false;
  int32_t pending_id = -1;
  int32_t slot = -1;  // of the sequence while it runs, in [0, max_num_seqs); -1 = none

  // Sets of ids: ascending, each once, so that they are searched and summed without a pass for
  // each.
  std::span<const int32_t> eos_ids;   // for the signal and `eos_bias`
  std::span<const int32_t> stop_ids;  // EOS ids and the request's own: the stop set
  bool mask_stop_ids = false;         // min_tokens not reached: the stop set cannot be drawn
  bool redraw_eos = false;  // IGNORE_MASK: an EOS draw is recorded, then redrawn without EOS

  // The coin: Coin(seed, position, draw), position = SamplePosition(row).
  uint64_t seed = 0;
  int32_t num_top_logprobs = 0;
};

// How many tokens stand before the one that is drawn.
inline uint32_t SamplePosition(const SampleRow& row) {
  return static_cast<uint32_t>(row.prompt.size() + row.output.size() + row.given.size()) +
         (row.pending_output ? 1U : 0U);
}

// The number of the token that is drawn among those of the answer, counted from 1.
inline int32_t SampleStep(const SampleRow& row) {
  return static_cast<int32_t>(SamplePosition(row)) - static_cast<int32_t>(row.prompt.size()) + 1;
}

}  // namespace baton::kernels
