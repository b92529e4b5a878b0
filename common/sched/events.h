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
#include "common/sched/sequence.h"

// What the scheduler says about its sequences. The engine passes most of it on as it is; blocks get
// their addresses there.
namespace baton {

// Admission's late refusal: FULL after the line's deadline, or the request's deadline passed.
struct RefusedEvent {
  absl::Status status;
};
struct StateEvent {
  SequenceState from, to;
};
// Index 0-based over all generated tokens of the request.
struct TokenEvent {
  int32_t index = 0;
  SampledToken token;
  double unix_time = 0;       // when sampled
  int32_t cached_tokens = 0;  // of prompt and generated, found in this worker's prefix cache
};
// The sequence is over for the engine. After it only Detach may follow.
struct FinishedEvent {
  FinishReason reason = FinishReason::kNone;  // kNone: kPrefill whose request goes on elsewhere
  std::optional<TokenId> stop_token;          // the EOS or stop id
  std::optional<int32_t> natural_end_step;    // 1-based
  int32_t prompt_tokens = 0;
  int32_t cached_tokens = 0;  // of the prompt, found in this worker's prefix cache
  int32_t preemptions = 0;
  base::Duration queue_time{}, prefill_time{}, decode_time{};
  absl::Status status;  // for kError and kDeadline
};
// kReserved lost its blocks (victim of memory pressure): the router opens a new attempt. Detach
// follows.
struct RevokedEvent {};
// The blocks of the lease are to be given back: stop touching them, then call ReturnLease. Until
// then they are quarantined.
struct DetachEvent {};

// A block of a lease by its id; `ordinal` is its index in the sequence's block table.
struct BlockAt {
  int32_t ordinal = 0;
  BlockId block;
};
// kReserved was granted; the first `cached_blocks` hold proven KV, the others are leased.
struct BlocksGranted {
  int32_t cached_blocks = 0;
  std::vector<BlockAt> lease;
};
// kPrefill: these blocks are final. The last one holds `last_block_tokens` tokens.
struct BlocksProven {
  std::vector<BlockAt> blocks;
  int32_t last_block_tokens = 0;
  int32_t cached_tokens = 0;
  bool last = false;
};

struct SchedEvent {
  SequenceId sequence;
  base::Instant at{};
  std::variant<BlocksGranted, RefusedEvent, StateEvent, BlocksProven, TokenEvent, FinishedEvent,
               RevokedEvent, DetachEvent>
      what;
};

}  // namespace baton
