#pragma once

#include <cstdint>
#include <span>

#include "absl/functional/function_ref.h"
#include "common/base/ids.h"
#include "common/base/max_proposals.h"

namespace baton {

// Asks for ids that may come next in a sequence. Right ones make a step give several tokens of it,
// wrong ones cost their share of the step; neither changes a token.
struct ProposalRequest {
  SequenceId sequence;
  std::span<const TokenId> history;  // prompt and answer, as far as they are known
  // One more token is being drawn, which the first proposed id stands for. If others come behind
  // it, the sequence sits the next step out, and is asked again when the token is known.
  bool drawing = false;
  int32_t most = 0;  // ids that are of use, >= 1; 0 only in Scheduler::Proposable: none now
  // Only there: nothing is asked yet, but soon will be, when the tokens so far were computed here
  // or have come from elsewhere. Who has to read them, too, may do so meanwhile.
  bool ahead = false;
  // Of what was proposed for the sequence so far: ids that were fed, and those of them that were
  // drawn.
  int64_t fed = 0, accepted = 0;
};

// Answers with ids behind the history, perhaps none. They are read before the next call.
using Proposer = absl::FunctionRef<std::span<const TokenId>(const ProposalRequest&)>;

// How much of a step may be spent on proposals.
struct ProposalLimits {
  int32_t most = 0;  // ids for one row, at most kMaxProposals; 0: nothing is asked for
  // Sequences that generate and ids proposed for them, together: with more sequences each gets
  // fewer ids, and none from this many sequences on.
  int32_t batch = 0;
};

// Tokens that guides force, of a step, for which something is measured, beside one for each row.
inline constexpr int32_t kForcedDraws = 32;

// The most tokens that a step of so many sequences draws.
inline int32_t MaxDraws(int32_t max_num_seqs, const ProposalLimits& proposals, bool jump_forward) {
  return max_num_seqs + (proposals.most > 0 ? proposals.batch : 0) +
         (jump_forward ? kForcedDraws : 0);
}

}  // namespace baton
