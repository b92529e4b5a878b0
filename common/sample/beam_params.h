#pragma once

#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "common/base/ids.h"
#include "common/sample/params.h"

// What a request says about beam search, as plain data, and what it costs.
namespace baton {

// When a search ends that has as many finished beams as its width; docs/beams.md says it in full.
enum class EarlyStopping {
  kFalse,  // once no running beam is expected to be better, as long as it is now
  kTrue,   // at once
  kNever,  // once no running beam could be better, however long it gets
};

// The search keeps the `width` best beginnings of an answer, and gives the `results` best of those
// that ended, by the sum of their tokens' logprobs divided by their number to the power of
// `length_penalty`.
struct BeamParams {
  int32_t width = 0;  // 0: no beams, the answer is drawn
  int32_t results = 0;
  float length_penalty = 1;
  EarlyStopping early_stopping = EarlyStopping::kFalse;

  bool on() const { return width > 0; }
  friend bool operator==(const BeamParams&, const BeamParams&) = default;
};

// A beam needs so many of its row's most likely tokens: as many may end a beam as the stop set has
// ids, and `width` of the others may go on. Samplers give at most kMaxTopLogprobs of them.
int32_t BeamCandidates(int32_t width, std::span<const TokenId> eos_ids,
                       std::span<const TokenId> stop_ids);

// The most tokens of KV blocks that a search takes up: the full blocks of its prompt once, and all
// behind them for each beam.
int64_t BeamPoolTokens(int64_t prompt, int64_t output, int32_t width, int64_t block_size);
// The longest output, perhaps none, for which that is no more than `pool` tokens.
int64_t BeamOutputThatFits(int64_t prompt, int32_t width, int64_t block_size, int64_t pool);

// Refuses parameters out of their ranges, and what cannot stand beside beams: INVALID_SAMPLING,
// LIMIT_EXCEEDED, CONFLICTING_OPTIONS. Nothing is refused where there are no beams.
absl::Status ValidateBeams(const BeamParams& beams, const SamplingParams& sampling,
                           const StopParams& stop);
// Refuses a width that needs more candidates than samplers give or than there are ids.
absl::Status CheckBeamCandidates(const BeamParams& beams, std::span<const TokenId> eos_ids,
                                 const StopParams& stop, int32_t vocab_size);

}  // namespace baton
