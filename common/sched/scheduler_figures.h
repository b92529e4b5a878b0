#pragma once

#include <array>
#include <cstdint>

#include "common/sched/proposal.h"

namespace baton {

// What has happened so far, and what is so now. Whoever shows these figures to people adds nothing.
struct SchedulerFigures {
  int32_t running = 0, waiting = 0, reserved = 0;
  int32_t seats = 0;  // that these take or wait for; a beam search as many as it is wide
  // How many sequences, of those three kinds, there may be without one that waits for long.
  int32_t places = 0;
  bool short_of_blocks = false;  // one of them waits for blocks, so nobody else is let in
  uint64_t ended = 0;            // sequences, in whatever way
  int32_t foreseen = 0;          // running sequences with LiveSequence::expected_end
  // Over these, with what remains held to their limits: tokens to come; tokens in the KV cache
  // times tokens to come; and how many are expected to end within the horizon kEndHorizons[2].
  double expected_tokens = 0, expected_kv_tokens = 0, expected_ends = 0;
  int64_t queued_prompt_tokens = 0;  // not computed yet
  uint64_t preemptions = 0, revocations = 0, reservations_expired = 0;
  uint64_t displaced = 0;  // of the preemptions: by the policy, not for want of a block
  uint64_t swaps = 0;  // of the preemptions: whose KV went to the host, or had not left it again
  // Preemptions that were to be of these but found no room there, and such of these that had to
  // compute again, because blocks that were left in the prefix cache were gone.
  uint64_t swaps_without_room = 0, swaps_lost = 0;
  uint64_t blocks_swapped_out = 0, blocks_swapped_in = 0;
  uint64_t prefix_queries = 0, prefix_hits = 0;  // tokens
  uint64_t prompt_tokens_computed = 0, prompt_tokens_cached = 0, prompt_tokens_received = 0;
  uint64_t generated_tokens = 0;
  uint64_t prefill_chunks = 0;  // rows that held only a part of what had to be computed
  int32_t largest_batch = 0;
  uint64_t rows_ahead = 0;       // planned behind a token that was not known yet
  uint64_t rows_discarded = 0;   // of sequences that had ended before
  uint64_t ends_not_finite = 0;  // sequences ended because their logits were not finite numbers
  // Rows that fed proposals, the ids that were proposed, and those of them that were drawn, in all
  // and by their place behind the last token.
  uint64_t rows_proposed = 0, ids_proposed = 0, ids_accepted = 0;
  std::array<uint64_t, kMaxProposals> accepted_at{};
  // Tokens that guides forced, and those of them that came with the token before them.
  uint64_t ids_forced = 0, ids_jumped = 0;
};

}  // namespace baton
