#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/bounded_queue.h"
#include "common/base/clock.h"
#include "common/base/eos_signal.h"
#include "common/base/ids.h"
#include "common/base/prefix_report.h"
#include "common/engine/proposal_source.h"
#include "common/eos/predict/end_predictor.h"
#include "common/kv/kv_cache.h"
#include "common/model/model_runner.h"
#include "common/sample/params.h"
#include "common/sample/runaway.h"
#include "common/sched/events.h"
#include "common/sched/policy.h"
#include "common/sched/proposal.h"
#include "common/sched/sequence.h"
#include "common/sched/swap.h"
#include "common/speculate/ngram_lookup.h"

namespace baton {

// One block as a transfer sees it: its index in the sequence and its bytes. The addresses are valid
// while the block is leased.
struct LeasedBlock {
  int32_t ordinal = 0;  // index in the sequence's block table
  std::span<std::byte> bytes;
  ByteParts peers{};  // the block's bytes on ranks 1, 2, … of a tensor-parallel worker

  // The block's bytes on every rank, rank 0 first.
  ByteParts ranks() const {
    ByteParts all = {bytes};
    all.insert(all.end(), peers.begin(), peers.end());
    return all;
  }
};

// --- What the engine says. Each event names its sequence; per sequence they come in order:
//   kLocal     State..., Scores..., Token..., State, Finished
//   kPrefill   State, BlocksReady and Scores..., Token, BlocksReady(last), State, Finished
//              (no BlocksReady(last) when the token ends the request: nothing is to be committed)
//   kReserved  State, Reserved, State (the commit was accepted), Token..., State, Finished;
//              or State and Refused or Revoked in place of what follows
// Any of them may end early with State and Finished(aborted or deadline), and with Detach behind it
// when a lease is out. Plain events are in common/sched/events.h. ---

// A reservation got its blocks. [0, cached_blocks) hold proven KV already; `lease` lists the
// others. The holder may write `lease` until it gets Detach; it answers Detach with ReturnLease.
struct ReservedEvent {
  int32_t cached_blocks = 0;
  std::vector<LeasedBlock> lease;
};
// These blocks of a kPrefill are final and may be read until ReturnLease. `cached_tokens` of the
// prompt were not computed. The first `last_block_tokens` positions of the last one hold KV, the
// others what was there before: who sends them away zeroes those. The blocks stay also after
// Finished until ReturnLease, which ends the lease of all of them.
struct BlocksReadyEvent {
  std::vector<LeasedBlock> blocks;
  int32_t last_block_tokens = 0;
  int32_t cached_tokens = 0;
  bool last = false;  // no more blocks will come
};
struct SequenceEvent {
  SequenceId sequence;
  base::Instant at{};
  std::variant<ReservedEvent, RefusedEvent, StateEvent, BlocksReadyEvent, ScoresEvent, TokenEvent,
               FinishedEvent, RevokedEvent, DetachEvent>
      what;
};

// What one finished step held, and how long it took.
struct StepEvent {
  base::Instant at{};
  base::Duration duration{};  // since it was submitted, or since the end of the step before it
  int32_t prefill_tokens = 0, decode_tokens = 0;
  int32_t prefill_sequences = 0, decode_sequences = 0;
  base::Duration predicting{};  // of the engine's thread, for estimates of ends
};
// The engine stopped: a device fault or a bug. Nothing follows.
struct FaultEvent {
  absl::Status status;
};

using EngineEvent = std::variant<SequenceEvent, StepEvent, FaultEvent>;

// --- Options and figures. ---

struct EngineOptions {
  int32_t max_model_len = 0;              // tokens of prompt and output
  int32_t max_num_seqs = 64;              // sequences in one step
  int32_t max_prefill_tokens = 2048;      // prompt tokens in one step
  int32_t max_num_batched_tokens = 2048;  // tokens in one step; any budget >= 1 is legal
  bool enable_prefix_caching = true;
  base::Duration prefill_batch_wait{};  // how long a prefill batch may wait to fill
  Policy policy = kFcfsPolicy;
  int32_t max_num_queued_reqs = 256;  // reservation line and local queue, beside the policy's line
  std::vector<TokenId> eos_ids;       // the model's EOS set
  int32_t vocab_size = 0;             // ids outside [0, vocab_size) are refused
  // What ends with a token, by id, as common/base/token_boundary.h says; empty where no tokenizer
  // is known.
  std::vector<uint8_t> token_boundaries;
  std::vector<TokenId> special_ids;  // ids of special tokens, ascending; none of `eos_ids`
  RunawayAction runaway = RunawayAction::kOff;  // for answers that go round in circles
  // Foresees ends, on the engine's thread. It outlives the engine; null: nothing is foreseen.
  EndPredictor* predictor = nullptr;
  // Whether the products of the runner's probe go out with the tokens.
  bool tells_products = true;
  base::Duration stall_timeout = std::chrono::seconds(30);  // what a stall is: watchdog.h
  // Plan the next step while one computes. Changes when things happen, never what is drawn.
  bool overlap = false;
  // Blocks of a second arena, on the host, which the runner knows, too; 0: there is none. What
  // copies to it cost, and, until steps have shown that, computing a token.
  int32_t swap_blocks = 0;
  SwapCosts swap_costs;
  // Feed what guides force in one row. Changes how many tokens a step gives, never which.
  bool jump_forward = false;
  // What is proposed for steps to verify; `most` is 0 for nothing. Changes how many tokens a step
  // gives, never which.
  ProposalLimits proposals;
  // Who says it, on the engine's thread. It outlives the engine; null: it is looked up in prompt
  // and answer, by these n-grams.
  ProposalSource* proposals_from = nullptr;
  NgramLengths proposal_ngrams;
};

// A consistent snapshot of an engine, taken between steps.
struct EngineFigures {
  int32_t running = 0;              // prefilling or decoding
  int32_t waiting = 0;              // queued or preempted
  int32_t reserved = 0;             // granted, KV not there yet
  int32_t prefill_places_free = 0;  // prompts that would start at once
  int32_t places = 0;               // sequences that there may be in all before one waits for long
  bool short_of_blocks = false;     // one waits for blocks, so nobody else is let in
  int32_t seats = 0;                // max_num_seqs
  int32_t seats_asked = 0;          // by those three; a beam search asks for as many as it is wide
  uint64_t ended = 0;               // sequences, in whatever way
  // What is foreseen of those that run, as SchedulerFigures says.
  int32_t foreseen = 0;
  double expected_tokens = 0, expected_kv_tokens = 0, expected_ends = 0;
  int32_t step_prompt_tokens = 0;         // tokens of prompts that one step takes
  double step_s = 0, prompt_token_s = 0;  // as StepTimes says
  int64_t queued_prompt_tokens = 0;
  int32_t blocks_total = 0, blocks_free = 0, blocks_cached = 0, blocks_quarantined = 0,
          blocks_used = 0;  // free + cached + quarantined + used = total
  uint64_t steps = 0;
  uint64_t preemptions = 0;
  // Of the swap space, as SchedulerFigures says.
  int32_t swap_blocks_total = 0, swap_blocks_used = 0;
  uint64_t swaps = 0, swaps_without_room = 0, swaps_lost = 0;
  uint64_t blocks_swapped_out = 0, blocks_swapped_in = 0;
  uint64_t revocations = 0;
  uint64_t reservations_expired = 0;
  uint64_t prefix_queries = 0, prefix_hits = 0;  // tokens
  uint64_t evicted_blocks = 0;
  uint64_t prompt_tokens_computed = 0, prompt_tokens_cached = 0, prompt_tokens_received = 0;
  uint64_t generated_tokens = 0;
  uint64_t prefill_chunks = 0;    // rows that were part of a prompt only
  int32_t largest_batch = 0;      // sequences in one step, so far
  uint64_t steps_overlapped = 0;  // submitted while another was on the device
  uint64_t rows_ahead = 0;        // planned behind a token that was still being drawn
  uint64_t rows_discarded = 0;    // computed for sequences that had ended
  uint64_t ends_not_finite = 0;   // sequences ended because their logits were not finite numbers
  // Of proposals, as SchedulerFigures says.
  uint64_t rows_proposed = 0, ids_proposed = 0, ids_accepted = 0;
  std::array<uint64_t, kMaxProposals> accepted_at{};
  DraftFigures draft;
  uint64_t ids_forced = 0, ids_jumped = 0;  // likewise
  bool healthy = true;                      // false after a fault or a stall
};

// The engine of one worker: a thread that owns scheduler, block pool and model runner. Everybody
// else sends it commands and takes its events, from any thread:
//
//   auto engine = Engine::Start(options, kv, std::move(runner), &clock);
//   auto id = (*engine)->Admit({.prompt = {1, 2, 3}, .stop = {.max_tokens = 16}});
//   while (auto event = (*engine)->events().PopUntil(base::kNever)) {
//     if (auto* said = std::get_if<SequenceEvent>(&*event)) Pass(said);  // tokens, then Finished
//   }
//
// Admission may be refused. Commit, cancel and lease returns may not: an admitted sequence has
// their queue places reserved, and all commands of a sequence pass through one FIFO. Events leave
// through `events()`, a bounded queue that the owner must keep draining: when it is full the engine
// waits.
class Engine {
 public:
  // `kv` are the arenas the runner computes in: one, or one per rank. Starts the thread.
  static absl::StatusOr<std::unique_ptr<Engine>> Start(const EngineOptions& options,
                                                       const KvCache& kv,
                                                       std::unique_ptr<ModelRunner> runner,
                                                       const base::Clock* clock);
  virtual ~Engine() = default;

  // Refuses with TOO_LONG, EMPTY_PROMPT, INVALID_TOKEN_ID, INVALID_MAX_TOKENS, FULL or DRAINING.
  virtual absl::StatusOr<SequenceId> Admit(SequenceSpec spec) = 0;

  // Every block that was leased for a kReserved was written and verified, and `first` is the token
  // that the prefill worker drew. Decoding goes on from there. The lease is over with this call.
  virtual void CommitImport(SequenceId sequence, SampledToken first) = 0;

  // Ends a sequence in any state between two steps. Its blocks return, leased ones after
  // ReturnLease. Nothing happens to one that is over.
  virtual void Cancel(SequenceId sequence) = 0;

  // Says that the holder no longer touches the leased bytes, and that no peer can.
  virtual void ReturnLease(SequenceId sequence) = 0;

  virtual base::BoundedQueue<EngineEvent>& events() = 0;
  virtual EngineFigures figures() const = 0;
  // What its prefix cache holds, for who knows `version` of it (0: nothing): PrefixJournal.
  virtual PrefixReport CachedSince(uint64_t version) const = 0;

  // Refuses new sequences from now on; what runs goes on.
  virtual void Drain() = 0;
  // Ends every sequence and joins the thread. `events()` is closed after the last event.
  virtual void Stop() = 0;
};

}  // namespace baton
