// The part of Scheduler that keeps KV of preempted sequences in a second arena: what goes there,
// how it comes back, and when copies are over. Blocks are copied by steps, before their rows: first
// out, then in. So the blocks of a victim may be handed to whoever runs at once, though not to a
// transfer, which writes beside the steps.
#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/sched/scheduler.h"

namespace baton {

// The blocks at the beginning of the sequence that others use as well and that the prefix cache
// knows. They are likely to be there still when it comes back, and holding on to them would keep
// them from those for whom it gives way.
int32_t Scheduler::BlocksLeftCached(const LiveSequence& sequence) const {
  const auto ids = sequence.table.ids();
  const auto own = std::ranges::find_if(
      ids, [&](BlockId id) { return !pool_->is_cached(id) || pool_->references(id) == 1; });
  return static_cast<int32_t>(own - ids.begin());
}

// Gives the KV of a victim, whose rows are all committed, to the host, if there is room and that is
// cheaper than computing it again. Its blocks are still its own.
bool Scheduler::SwapOut(LiveSequence* sequence) {
  // It has come back in this plan, so all of it is still there.
  if (std::erase_if(swapping_in_, [&](const ComesBack& in) { return in.sequence == sequence; }) >
      0) {
    return true;
  }
  if (host_ == nullptr || sequence->searches()) return false;
  SwappedKv kept = {.first = BlocksLeftCached(*sequence), .computed = sequence->computed};
  const int32_t blocks = BlocksFor(kept.computed, options_.block_size);
  const int32_t copied = blocks - kept.first;
  if (copied <= 0) return false;
  const double copying = copied * (swap_costs_.out_s + swap_costs_.in_s);
  const double computing = (kept.computed - kept.first * options_.block_size) * swap_costs_.token_s;
  if (swap_costs_.token_s > 0 && computing <= copying) return false;
  if (host_->available() < copied) {
    ++counters_.swaps_without_room;
    return false;
  }
  for (int32_t i = kept.first; i < blocks; ++i) {
    kept.blocks.Append(host_->Allocate());
    swapping_out_.push_back(
        {sequence->id, {sequence->table[i].value(), kept.blocks[i - kept.first].value()}});
  }
  sequence->swapped = std::move(kept);
  return true;
}

// The sequence starts again and has its blocks, of which the prefix cache gave the first `matched`.
// Returns how many tokens of it will be there when its next row computes.
int32_t Scheduler::TakeSwapped(LiveSequence* sequence, int32_t matched) {
  const int32_t cached = matched * options_.block_size;
  if (!sequence->swapped) return cached;
  const SwappedKv& kept = *sequence->swapped;
  if (matched < kept.first || cached >= kept.computed) {
    counters_.swaps_lost += matched < kept.first ? 1 : 0;
    ForgetSwapped(sequence);
    return cached;
  }
  swapping_in_.push_back({sequence, matched});
  return kept.computed;
}

// What was not copied yet no longer has to be.
void Scheduler::ForgetSwapped(LiveSequence* sequence) {
  if (!sequence->swapped) return;
  std::erase_if(swapping_out_, [&](const CopyOut& out) { return out.owner == sequence->id; });
  sequence->swapped.reset();
}

// Has the step do what is to be copied. Blocks of the host that it reads stay taken until it is
// committed.
void Scheduler::PlanSwaps(StepPlan* plan) {
  PlanOut& out = plans_out_.back();
  for (const CopyOut& copy : std::exchange(swapping_out_, {})) {
    plan->swaps_out.push_back(copy.blocks);
  }
  for (const ComesBack& in : std::exchange(swapping_in_, {})) {
    SwappedKv kept = *std::exchange(in.sequence->swapped, std::nullopt);
    for (int32_t i = in.first - kept.first; i < kept.blocks.size(); ++i) {
      plan->swaps_in.push_back(
          {kept.blocks[i].value(), in.sequence->table[kept.first + i].value()});
    }
    out.read_on_host.push_back(std::move(kept.blocks));
  }
  counters_.blocks_swapped_out += plan->swaps_out.size();
  counters_.blocks_swapped_in += plan->swaps_in.size();
  out.swaps = plan->swaps();
}

// Whether copies are still to be done, so that a block that looks free may be read or written by
// one.
bool Scheduler::Swaps() const {
  return !swapping_out_.empty() || !swapping_in_.empty() ||
         std::ranges::any_of(plans_out_, [](const PlanOut& plan) { return plan.swaps; });
}

}  // namespace baton
