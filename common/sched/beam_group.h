#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "common/base/eos_signal.h"
#include "common/base/ids.h"
#include "common/sample/beam_params.h"
#include "common/sample/params.h"

namespace baton {

// An answer that a beam search found.
struct BeamResult {
  std::vector<TokenId> tokens;  // with the id that ended it
  double score = 0;
  FinishReason reason = FinishReason::kNone;  // kStopEos, kStopToken or kLength
};

// Decides a beam search by the candidates of each step, as transformers does:
//
//   BeamGroup group({.width = 4, .results = 2}, /*max_tokens=*/64, ends);
//   group.Advance({{candidates of the prompt}});
//   while (!group.done()) {
//     // Each member feeds its token behind what its parent fed before.
//     group.Advance(candidates of each member);
//   }
//   for (const BeamResult& result : group.Results()) …
//
// All candidates of a step are ranked by the sum of logprobs of their beam; of equal ones the
// earlier member's come first, and of one member's those of lower ids. Of the first `width` those
// that end are finished: they are kept if their scores are among the `width` best, where of equal
// ones the one that finished first is better. The best that do not end become the new members. At
// max_tokens all end. It is a pure function of what it is given.
class BeamGroup {
 public:
  // Why a beam ends with this id; kNone: it does not.
  using Ends = std::function<FinishReason(TokenId id)>;

  BeamGroup(const BeamParams& params, int32_t max_tokens, Ends ends);

  // A beginning of an answer. `parent` is its index among the members of the step before, which
  // has all its tokens but the last.
  struct Member {
    int32_t parent = 0;
    TokenId token = 0;
    double logprobs = 0;  // the sum of its tokens'

   private:
    friend class BeamGroup;
    int32_t node = -1;
  };

  // Takes the most likely tokens of each member's next position, most likely first, as many as
  // BeamCandidates says; of the first step those behind the prompt.
  void Advance(std::span<const std::span<const TokenLogprob>> candidates);

  // At the beginning one that has no token.
  std::span<const Member> members() const { return members_; }
  int32_t steps() const { return steps_; }  // tokens of each member
  bool done() const { return done_; }
  // The best of those that ended, best first. Call when it is done.
  std::vector<BeamResult> Results() const;

 private:
  // Tokens of all beams are kept as a tree, in which each knows the one before it.
  struct Node {
    int32_t before = -1;
    TokenId token = 0;
  };
  struct Finished {
    int32_t node = -1;
    double score = 0;
    FinishReason reason = FinishReason::kNone;
  };
  struct Ranked {
    int32_t member = 0;
    TokenId token = 0;
    double logprobs = 0;
  };

  std::vector<Ranked> Rank(std::span<const std::span<const TokenLogprob>> candidates) const;
  int32_t AddNode(const Ranked& candidate);
  double Score(double logprobs, int32_t length) const;
  void Finish(const Ranked& candidate, FinishReason reason);
  bool CanImprove() const;

  const BeamParams params_;
  const int32_t max_tokens_;
  const Ends ends_;
  std::vector<Node> nodes_;
  std::vector<Member> members_;     // best first
  std::vector<Finished> finished_;  // likewise, at most `width`
  int32_t steps_ = 0;
  bool done_ = false;
};

}  // namespace baton
