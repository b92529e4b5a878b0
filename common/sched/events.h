#pragma once

#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "common/base/clock.h"
#include "common/base/eos_signal.h"
#include "common/base/ids.h"
#include "common/sample/params.h"
#include "common/sample/runaway.h"
#include "common/sched/beam_group.h"
#include "common/sched/sequence.h"

// What the scheduler says about its sequences. The engine passes most of it on as it is; blocks get
// their addresses there.
namespace baton {

// A sequence that was admitted is refused after all: FULL when it stood in the reservation line for
// too long, or because the request's deadline passed.
struct RefusedEvent {
  absl::Status status;
};
// The sequence changed its state.
struct StateEvent {
  SequenceState from, to;
};
// Tokens of the prompt were scored: those from `first_index` on, counted from 0. They come in order
// and before the first token that is drawn, each once.
struct ScoresEvent {
  int32_t first_index = 0;
  std::vector<TokenScore> scores;
};
// A token was drawn. `index` counts all generated tokens of the request from 0.
struct TokenEvent {
  int32_t index = 0;
  SampledToken token;
  double unix_time = 0;       // when sampled
  int32_t cached_tokens = 0;  // of prompt and generated, found in this worker's prefix cache
  // With this token the answer has run away, for the first time here, and what is done about it;
  // kOff: it has not.
  RunawayAction runaway = RunawayAction::kOff;
};
// The sequence is over for the engine. After it only Detach may follow.
struct FinishedEvent {
  FinishReason reason = FinishReason::kNone;  // kNone: kPrefill whose request goes on elsewhere
  std::optional<TokenId> stop_token;          // the EOS or stop id
  std::optional<int32_t> natural_end_step;    // 1-based
  int32_t prompt_tokens = 0;
  int32_t cached_tokens = 0;     // of the prompt, found in this worker's prefix cache
  int32_t generated_tokens = 0;  // of all attempts
  int32_t max_tokens = 0;        // as many it might have generated
  int32_t preemptions = 0;
  // A special token that is none of the stop set, drawn where a line or sentence had ended: the
  // first one, if the answer went on behind it.
  std::optional<TokenId> passed_special;
  base::Duration queue_time{}, prefill_time{}, decode_time{};
  absl::Status status;               // for kError and kDeadline
  std::vector<EndScore> end_scores;  // what came of estimates of its end, if there were any
  // What a beam search found, best first, and how many tokens its beams had; the others say of it
  // what they say of the best.
  std::vector<BeamResult> beams;
  int32_t beam_steps = 0;
};
// A reservation lost its blocks to sequences that need them more. Detach follows, and the router
// opens a new attempt.
struct RevokedEvent {};
// The holder of the lease has to stop touching the blocks and then to call ReturnLease. Until it
// does, they are quarantined.
struct DetachEvent {};

// A block of a lease by its id; `ordinal` is its index in the sequence's block table.
struct BlockAt {
  int32_t ordinal = 0;
  BlockId block;
};
// A reservation got its blocks. The first `cached_blocks` hold proven KV, the others are leased.
struct BlocksGranted {
  int32_t cached_blocks = 0;
  std::vector<BlockAt> lease;
};
// These blocks of a kPrefill are final. The last one holds `last_block_tokens` tokens.
struct BlocksProven {
  std::vector<BlockAt> blocks;
  int32_t last_block_tokens = 0;
  int32_t cached_tokens = 0;
  bool last = false;
};

struct SchedEvent {
  SequenceId sequence;
  base::Instant at{};
  std::variant<BlocksGranted, RefusedEvent, StateEvent, BlocksProven, ScoresEvent, TokenEvent,
               FinishedEvent, RevokedEvent, DetachEvent>
      what;
};

}  // namespace baton
