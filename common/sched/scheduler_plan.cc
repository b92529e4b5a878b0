// The part of Scheduler that plans a step: what the policy is shown, who gets blocks, and who gives
// way for want of them.
#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/sched/scheduler.h"
#include "common/sched/sort_in_order.h"

namespace baton {

StepPlan Scheduler::Plan(base::Instant now) {
  BATON_CHECK(plans_out_.size() < static_cast<size_t>(options_.max_steps_in_flight))
      << "step " << plans_out_.front().step << " was not committed";
  LookAround(now);
  SortInOrder(&running_, [&](const auto* a, const auto* b) {
    if (a->id == oldest_ || b->id == oldest_) return a->id == oldest_ && b->id != oldest_;
    return YieldsBefore(*b, *a);  // who yields last comes first
  });
  waits_for_copies_ = false;
  short_of_blocks_ = !SecureBlocks(now);
  if (!short_of_blocks_) StartWaiting(now);
  StepPlan plan = BuildPlan();
  // A step would have taken the copies along, and none is out or comes.
  if (plan.empty() && plans_out_.empty() && waits_for_copies_) {
    ForgetCopiesOut();
    StartWaiting(now);
    plan = BuildPlan();
  }
  if (plan.shape.prefill_tokens > 0) last_prompt_ = now;
  return plan;
}

// What the policy is shown is made once for a plan: nothing of it changes while that is made.
void Scheduler::LookAround(base::Instant now) {
  moment_ = {.now = now, .token_time = token_time_, .settings = options_.policy.settings};
  beside_.clear();
  const LiveSequence* oldest = nullptr;
  for (const auto& [id, sequence] : live_) {
    sequence->held_back = false;
    if (sequence->over()) continue;
    sequence->seen = sequence->view();
    // They come by id, so of equals the first counts.
    if (oldest == nullptr || sequence->arrived < oldest->arrived) oldest = sequence.get();
  }
  oldest_ = oldest == nullptr ? SequenceId() : oldest->id;
}

bool Scheduler::StartsBefore(const LiveSequence& a, const LiveSequence& b) const {
  if (a.id == oldest_ || b.id == oldest_) return a.id == oldest_ && b.id != oldest_;
  return options_.policy.starts_before(a.seen, b.seen, moment_);
}

bool Scheduler::YieldsBefore(const LiveSequence& a, const LiveSequence& b) const {
  return options_.policy.yields_before(a.seen, b.seen, moment_);
}

bool Scheduler::HasBlocks(const LiveSequence& sequence) const {
  if (sequence.searches()) return sequence.beams->HasBlocks(*pool_);
  return int64_t{sequence.table.size()} * options_.block_size >= sequence.future_length();
}

// Gives every sequence that can run the block of its next token, who yields last first. False when
// one has to wait for it.
bool Scheduler::SecureBlocks(base::Instant now) {
  int32_t waiting_for_returns = 0;
  const std::vector<LiveSequence*> in_order = running_;
  for (LiveSequence* const sequence : in_order) {
    while (sequence->plannable() && !HasBlocks(*sequence)) {
      if (BlockRef block = pool_->Allocate()) {
        GiveBlock(sequence, std::move(block));
        continue;
      }
      // No victims for a token that may turn out to be behind the end, nor for what comes back
      // soon.
      const bool may_be_over = sequence->unknown > 0;
      if (may_be_over || BlocksComingBack() > waiting_for_returns || !MakeRoom(now)) {
        ++waiting_for_returns;
        break;
      }
    }
  }
  return waiting_for_returns == 0;
}

// Blocks that become free soon without another victim: those that an ended reservation leased, of
// sequences that are over but for a row that is out, and of those that are held back to be
// preempted. What a peer reads is not among them: where that hangs it takes long.
int32_t Scheduler::BlocksComingBack() const {
  int32_t blocks = 0;
  for (const auto& [id, sequence] : live_) {
    if (sequence->over() && sequence->leased() && sequence->spec.kind == SequenceKind::kReserved) {
      blocks += sequence->table.size() - sequence->leased_from;
    }
    const bool ends = sequence->over() && sequence->rows_out > 0 && !sequence->leased();
    if (!ends && !sequence->held_back) continue;
    blocks += BlocksReturnedBy(*sequence);
  }
  return blocks;
}

// Of those whose blocks may be taken, the one that came first; it keeps them. Null if there is
// none.
const LiveSequence* Scheduler::FirstPreemptible() const {
  const LiveSequence* first = nullptr;
  for (const LiveSequence* sequence : running_) {
    if (!sequence->preemptible()) continue;
    if (first == nullptr || CameBefore(sequence->seen, first->seen)) first = sequence;
  }
  return first;
}

// Takes one victim's blocks. False when there is none but the oldest, or when the victim has a row
// out: it sits this step out and is taken in the next.
bool Scheduler::MakeRoom(base::Instant now) {
  const auto yields = [&](const LiveSequence* a, const LiveSequence* b) {
    return YieldsBefore(*a, *b);
  };
  const auto reservation = std::min_element(reserved_.begin(), reserved_.end(), yields);
  if (reservation != reserved_.end()) {
    Revoke(*reservation, now);
    return true;
  }
  std::vector<LiveSequence*> candidates;
  const LiveSequence* const first = FirstPreemptible();
  std::ranges::copy_if(running_, std::back_inserter(candidates), [&](const auto* s) {
    return s->preemptible() && s != first && !s->held_back;
  });
  if (candidates.empty()) return false;
  LiveSequence* const victim = *std::min_element(candidates.begin(), candidates.end(), yields);
  if (victim->rows_out > 0) {
    victim->held_back = true;
    return false;
  }
  Preempt(victim, now);
  return true;
}

void Scheduler::Preempt(LiveSequence* sequence, base::Instant now) {
  BATON_CHECK(sequence->rows_out == 0 && !sequence->leased())
      << "sequence " << sequence->id.value();
  ++counters_.preemptions;
  ++sequence->preemptions;
  const bool swapped = SwapOut(sequence);
  counters_.swaps += swapped ? 1 : 0;
  sequence->table.Clear();
  if (swapped && sequence->searches()) {
    sequence->beams->LeaveBlocks();
  } else if (sequence->beams != nullptr) {
    sequence->beams->Restart();
  }
  sequence->chain = {};
  sequence->computed = sequence->planned = 0;
  sequence->scores_planned = sequence->scored;
  SetState(sequence, SequenceState::kPreempted, now);
}

}  // namespace baton
