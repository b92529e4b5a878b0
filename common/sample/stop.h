#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "common/base/eos_signal.h"
#include "common/base/ids.h"
#include "common/sample/params.h"
#include "kernels/sampling.h"

namespace baton {

// Everything about ending that one sequence carries. This is the only place that decides by which
// token a request stops: workers stop generating by it, and the router, which alone sees the text
// and matches stop strings, ends the request by it without waiting for the worker to say so.
class StopCriteria {
 public:
  // `max_tokens`, at least 1, is the limit over all attempts, and `natural_end_step` is what
  // earlier attempts saw of the natural end.
  StopCriteria(const StopParams& params, std::span<const TokenId> eos_ids, int32_t max_tokens,
               std::optional<int32_t> natural_end_step);

  struct Decision {
    FinishReason reason = FinishReason::kNone;  // kNone: goes on
    std::optional<TokenId> stop_token;
  };
  // Takes the token drawn at `step` (1-based over all attempts) and sets `natural_end` on it as its
  // contract says. EOS at the last allowed step is stop_eos, not length.
  Decision Take(int32_t step, SampledToken* token);

  // How a request ends for good where this id is drawn; kNone: it goes on.
  FinishReason EndOf(TokenId id) const;
  bool EndsBy(TokenId id) const { return EndOf(id) != FinishReason::kNone; }

  // Fills the parts of the sampler's row that say what ends, for a draw after `generated` tokens.
  void FillRow(int32_t generated, kernels::SampleRow* row) const;

  int32_t max_tokens() const { return max_tokens_; }
  // 1-based step of the first end that the model wanted, under any policy.
  std::optional<int32_t> natural_end_step() const { return natural_end_step_; }

 private:
  bool IsEos(TokenId id) const;

  const StopParams params_;
  const std::vector<TokenId> eos_ids_;   // ascending, each once
  const std::vector<TokenId> stop_set_;  // EOS ids and the request's own, likewise
  const int32_t max_tokens_;
  std::optional<int32_t> natural_end_step_;
};

// What `control` adds to the logits of the EOS ids when token `step` is drawn, counted from 1.
float LengthBias(const LengthControl& control, int32_t step);

// Makes the sampler's row for the token after `history` (prompt, then generated), and, with
// `pending_output`, after one more that is not known yet, or after `given`. Spans refer to the
// arguments.
kernels::SampleRow MakeSampleRow(const SamplingParams& params, const StopCriteria& stop,
                                 std::span<const TokenId> history, int32_t prompt_tokens,
                                 bool pending_output = false, std::span<const TokenId> given = {});

}  // namespace baton
