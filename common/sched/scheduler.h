#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "common/base/clock.h"
#include "common/kv/block_pool.h"
#include "common/kv/prefix_cache.h"
#include "common/sched/draw_health.h"
#include "common/sched/events.h"
#include "common/sched/limits.h"
#include "common/sched/live_sequence.h"
#include "common/sched/policy.h"
#include "common/sched/proposal.h"
#include "common/sched/scheduler_figures.h"
#include "common/sched/sequence.h"
#include "common/sched/step_plan.h"
#include "common/sched/swap.h"

namespace baton {

struct SchedulerOptions {
  SequenceLimits limits;
  int32_t block_size = 16;
  int32_t max_num_seqs = 64;          // running or reserved, beams counted; so also rows of a step
  int32_t max_prefill_tokens = 2048;  // of a step, in rows that do not decode
  int32_t max_num_batched_tokens = 2048;  // of a step
  int32_t max_steps_in_flight = 1;        // plans that may be out; 2: one more while one computes
  int32_t max_draws = 0;                  // of a step, those behind proposals included
  ProposalLimits proposals;
  // Feed what a guide forces in one row, or one token of it in each step.
  bool jump_forward = false;
  bool measures_forced = false;  // somebody here reads what is measured at every token
  base::Duration prefill_batch_wait{};
  Policy policy = kFcfsPolicy;
  std::vector<TokenId> eos_ids;
  std::vector<uint8_t> token_boundaries;  // by id, see common/base/token_boundary.h
  std::vector<TokenId> special_ids;       // ascending; none of `eos_ids`
  RunawayAction runaway = RunawayAction::kOff;
};

// Decides which sequences run next and which of them own which blocks. It is a deterministic state
// machine without threads, clock, I/O or device: calls go in, plans and events come out, and the
// same calls always give the same plans. Only the engine's thread may call it.
//
//   Scheduler scheduler({.limits = limits, .eos_ids = eos_ids}, &pool, &cache);
//   scheduler.Add(SequenceId(1), std::move(spec), now);
//   for (StepPlan plan = scheduler.Plan(now); !plan.empty(); plan = scheduler.Plan(now)) {
//     runner->Submit(plan);                            // a ModelRunner computes the step
//     scheduler.Commit(plan, *runner->Wait(), now);    // its tokens come back in
//     for (SchedEvent& event : scheduler.TakeEvents()) Tell(event);
//   }
//
// Blocks go to running sequences first; then to those that were preempted; then to
// queued prompts and reservations in policy order, each of which gets all its blocks at once and
// leaves one free for every sequence that may still grow. Of the queued the one that came first is
// the first whatever the policy says. When a running sequence finds no block, a reservation is
// revoked, else another sequence is preempted, as the policy says, but never the one of them that
// came first. So one sequence alone always finishes.
//
// With two steps in flight a plan is made while the one before computes. Rows may then feed a token
// that is still being drawn. What a token decides (ends, states, the prefix cache) is decided at
// commit; a row behind a token that was the end is discarded there. Blocks are given back when no
// row that is out touches them, so a victim first sits out a step.
//
// A beam search is one sequence that counts as many as its width wherever they are counted. Its
// prompt is computed as any other; then it has a row for each beam, all in one step, and sits the
// second step in flight out. It is preempted as one, and begins anew with its prompt.
//
// Propose, called before Plan, lets somebody say what may come next. A row then feeds these ids
// behind its last token and draws behind each of them; Commit takes the drawn tokens up to the
// first that was not proposed there, and gives blocks back that only others needed. So tokens are
// those of one step each, and only their number in a step differs. Proposals get what rows and
// prompts leave of a step, and blocks that nobody else may need.
//
// With a second arena, on the host, the KV of a victim may be copied there and back, where that
// takes less time than computing it again and does not hold a step up for long; see SwapCosts.
// Steps do the copies. Until they are done no reservation is granted, because its blocks are
// written beside the steps.
//
// What a guide forces is fed and drawn in the same way, without being asked for; all of it counts.
class Scheduler {
 public:
  // `cache` is null when prefix caching is off, `host` where there is no second arena.
  Scheduler(SchedulerOptions options, BlockPool* pool, PrefixCache* cache,
            BlockPool* host = nullptr);

  // What preemptions go by from now on.
  void set_swap_costs(const SwapCosts& costs) { swap_costs_ = costs; }

  // `spec` passed CheckSpec. Ids grow from call to call.
  void Add(SequenceId id, SequenceSpec spec, base::Instant now);
  // These do nothing for a sequence that is over.
  void Cancel(SequenceId id, base::Instant now);
  void CommitImport(SequenceId id, SampledToken first, base::Instant now);
  // What is known of its end before its next token is drawn. Later ones come with the tokens.
  void Foresee(SequenceId id, const std::optional<EndEstimate>& end);
  void ReturnLease(SequenceId id);
  // Ends sequences that are past their deadline, and refuses reservations that waited too long.
  void ExpireAt(base::Instant now);
  // The next moment at which ExpireAt or Plan would do something without other input, where Plan
  // was last called with `now`. It may have passed since.
  base::Instant NextWake(base::Instant now) const;

  // All that Propose may ask about as things are, and what it would ask at most if everybody got as
  // much as that; also sequences that it is going to ask about. None that is not here is asked
  // about before it was here.
  std::vector<ProposalRequest> Proposable() const;
  // Asks what may come next in each sequence that generates. The answers are of use for the next
  // Plan.
  void Propose(Proposer ask);
  // Makes the next step; the plan is empty when nothing can run now. At most max_steps_in_flight
  // plans that are not empty may be uncommitted; they are committed in the order they were made.
  StepPlan Plan(base::Instant now);
  void Commit(const StepPlan& plan, const StepOutput& output, base::Instant now);

  // Takes what happened since the last call, in order.
  std::vector<SchedEvent> TakeEvents();
  // Sequences that ended since the last call and whose lease, if any, is over.
  std::vector<SequenceId> TakeForgotten();
  // The live sequences, oldest first.
  std::vector<SequenceId> LiveIds() const;
  // Shows every live sequence to `visitor`, oldest first; also those that only a lease keeps.
  void Visit(const std::function<void(const LiveSequence&)>& visitor) const;

  SchedulerFigures figures() const;
  const DrawHealth& draw_health() const { return draw_health_; }
  int32_t live() const { return static_cast<int32_t>(live_.size()); }
  // How many sequences count against the bound of the queue.
  int32_t num_queued() const;

 private:
  LiveSequence* Find(SequenceId id);
  // When a reservation that stands in line is sent away, if nothing ends until then.
  base::Instant RefusedAt(const LiveSequence& sequence) const;
  int32_t Places() const;
  template <typename Event>
  void Emit(const LiveSequence& sequence, base::Instant now, Event event);
  void SetState(LiveSequence* sequence, SequenceState to, base::Instant now);
  std::vector<LiveSequence*>* ListOf(SequenceState state);

  // The ways in which a sequence ends. Each destroys it unless a lease or a row is out.
  void End(LiveSequence* sequence, FinishReason reason, std::optional<TokenId> stop_token,
           base::Instant now, absl::Status why = {});
  void Refuse(LiveSequence* sequence, absl::Status status, base::Instant now);
  void Revoke(LiveSequence* sequence, base::Instant now);
  void EndEarlyOrDefer(LiveSequence* sequence, FinishReason reason, base::Instant now);
  // Gives the blocks of a sequence that is over back. Leased ones stay held until ReturnLease, and
  // all of them until no row is out.
  void FreeBlocks(LiveSequence* sequence, base::Instant now);
  void ForgetIfUnused(LiveSequence* sequence);
  void MoveSlot(LiveSequence* sequence, bool runs);
  FinishedEvent Summary(const LiveSequence& sequence, base::Instant now) const;

  // What Plan does: who gets blocks, and who gives way for want of them (scheduler_plan.cc).
  void LookAround(base::Instant now);
  bool StartsBefore(const LiveSequence& a, const LiveSequence& b) const;
  bool YieldsBefore(const LiveSequence& a, const LiveSequence& b) const;
  bool HasBlocks(const LiveSequence& sequence) const;
  bool SecureBlocks(base::Instant now);
  int32_t BlocksComingBack() const;
  const LiveSequence* FirstPreemptible() const;
  bool MakeRoom(base::Instant now);
  void Preempt(LiveSequence* sequence, base::Instant now);

  // Then who starts (scheduler_start.cc).
  void StartWaiting(base::Instant now);
  bool Displace(const LiveSequence& candidate, const LiveSequence* ran_first, base::Instant now);
  bool FitsWithout(const LiveSequence& victim, const LiveSequence& candidate) const;
  bool Admits(const LiveSequence& candidate);
  base::Instant HoldUntil() const;
  LiveSequence* NextWaiting(bool hold_prompts) const;
  int32_t GrowingSequences() const;
  bool TryStart(LiveSequence* sequence, base::Instant now);
  void TakeBlocks(LiveSequence* sequence, PrefixCache::Found found, int32_t needed);
  void Grant(LiveSequence* sequence, base::Instant now);

  // Then the rows of all that run (scheduler_rows.cc).
  StepPlan BuildPlan();
  void AddRow(LiveSequence* sequence, int32_t tokens, StepPlan* plan);
  void FillScores(LiveSequence* sequence, int32_t end, StepRow* row);
  void FillTokens(LiveSequence* sequence, int32_t tokens, StepRow* row);

  // What is done about ids that guides force (scheduler_forced.cc).
  bool BareForced(const LiveSequence& sequence) const;
  void AskGuides(std::vector<LiveSequence*>* ready) const;
  void TakeForced(LiveSequence* sequence) const;
  void FillForced(LiveSequence* sequence, StepRow* row) const;

  // What is kept on the host (scheduler_swap.cc).
  int32_t BlocksLeftCached(const LiveSequence& sequence) const;
  std::vector<BlockId> BlocksToCopy(LiveSequence* sequence, int32_t first) const;
  bool CopyingIsCheaper(const LiveSequence& sequence, int32_t first, size_t copied) const;
  bool SwapOut(LiveSequence* sequence);
  int32_t BlocksToStart(const LiveSequence& sequence) const;
  void ForgetIfLost(LiveSequence* sequence, int32_t matched);
  int32_t TakeSwapped(LiveSequence* sequence, int32_t matched);
  void ForgetSwapped(LiveSequence* sequence);
  void PlanSwaps(StepPlan* plan);
  void ForgetCopiesOut();
  bool Swaps() const;
  bool WaitsForCopies(const LiveSequence& next) const;

  // Beam searches (scheduler_beams.cc).
  int32_t SeatsTaken() const;
  int32_t BlocksReturnedBy(const LiveSequence& sequence) const;
  void GiveBlock(LiveSequence* sequence, BlockRef block);
  void AddBeams(LiveSequence* sequence, StepPlan* plan);
  void ImportBeams(LiveSequence* sequence, SampledToken first, base::Instant now);
  void BeginBeams(LiveSequence* sequence, SampledToken first, base::Instant now);
  void CommitBeam(LiveSequence* sequence, const StepRow& row, const SampledToken& drawn,
                  base::Instant now);
  void EndBeamsIfDone(LiveSequence* sequence, base::Instant now);

  // What is done about proposals (scheduler_propose.cc).
  int32_t NumDecoding() const;
  int32_t ProposalsOfUse(const LiveSequence& sequence) const;
  void TakeProposals(LiveSequence* sequence, std::span<const TokenId> ids);
  int32_t GrowForProposals(LiveSequence* sequence, int32_t proposals);
  void AddDraws(LiveSequence* sequence, int32_t proposals, StepRow* row);
  void NoteProposals(LiveSequence* sequence, int32_t proposed, int32_t accepted);
  void CommitVerified(LiveSequence* sequence, const StepRow& row,
                      std::span<const SampledToken> drawn, base::Instant now);

  // What Commit does (scheduler_commit.cc).
  void NoteTime(base::Instant planned, base::Instant now);
  void CommitRow(LiveSequence* sequence, const StepRow& row, std::span<const SampledToken> drawn,
                 std::span<const TokenScore> scores, base::Instant now);
  // Whether the sequence goes on here; if not, it may be forgotten already.
  bool TakeSample(LiveSequence* sequence, SampledToken token, base::Instant now);
  StopCriteria::Decision Append(LiveSequence* sequence, SampledToken* token);
  static void GoOnByGuide(LiveSequence* sequence, TokenId token);
  void NoteSpecial(LiveSequence* sequence, TokenId token) const;
  RunawayAction JudgeRunaway(LiveSequence* sequence) const;
  void EndSpoilt(LiveSequence* sequence, base::Instant now);
  void EnterProven(LiveSequence* sequence);
  void ReportProven(LiveSequence* sequence, bool last, base::Instant now);

  const SchedulerOptions options_;
  BlockPool* const pool_;
  PrefixCache* const cache_;
  BlockPool* const host_;
  SwapCosts swap_costs_;

  std::map<SequenceId, std::unique_ptr<LiveSequence>> live_;  // by age
  std::vector<LiveSequence*> waiting_;                        // queued or preempted
  std::vector<LiveSequence*> reserved_;
  std::vector<LiveSequence*> running_;
  std::vector<SchedEvent> events_;
  std::vector<SequenceId> forgotten_;
  uint64_t step_ = 0;
  uint64_t last_turn_ = 0;
  struct PlanOut {
    uint64_t step = 0;
    base::Instant planned{};
    std::vector<BlockTable> read_on_host = {};
    bool swaps = false;  // it copies blocks to the host or back
  };
  std::deque<PlanOut> plans_out_;
  // What the next plan is to copy.
  struct CopyOut {
    SequenceId owner;
    kernels::BlockCopy blocks;
  };
  struct ComesBack {
    LiveSequence* sequence;
    std::vector<kernels::BlockCopy> blocks = {};
  };
  std::vector<CopyOut> swapping_out_;
  std::vector<ComesBack> swapping_in_;
  base::Instant last_commit_{};
  base::Duration token_time_{};  // see PolicyMoment
  // What the policy is shown of the plan that is being made.
  PolicyMoment moment_;
  std::vector<SequenceView> beside_;  // of who has a place; empty until somebody asks
  std::vector<bool> slots_taken_;     // [max_num_seqs]
  base::Instant last_end_{};          // when a sequence ended last
  base::Instant last_prompt_{};       // when a step with tokens of prompts was planned last
  bool short_of_blocks_ = false;      // in the last Plan somebody found none or was not let in
  bool waits_for_copies_ = false;     // in it the first in line waited for copies alone
  SequenceId oldest_;                 // that came first, of all that are not over; of the last Plan
  SchedulerFigures counters_;
  DrawHealth draw_health_;
};

template <typename Event>
void Scheduler::Emit(const LiveSequence& sequence, base::Instant now, Event event) {
  events_.push_back({.sequence = sequence.id, .at = now, .what = std::move(event)});
}

}  // namespace baton
