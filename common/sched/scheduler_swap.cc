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

// What else holds something of it, in the order in which it goes out and comes back.
std::vector<BlockId> Scheduler::BlocksToCopy(LiveSequence* sequence, int32_t first) const {
  const bool searches = sequence->searches();
  const auto table = sequence->table.ids();
  const auto end = static_cast<size_t>(
      searches ? sequence->table.size() : BlocksFor(sequence->computed, options_.block_size));
  std::vector<BlockId> blocks(table.begin() + first, table.begin() + static_cast<ptrdiff_t>(end));
  if (!searches) return blocks;
  const std::vector<BlockId> beams = sequence->beams->SettledBlocks(pool_);
  blocks.insert(blocks.end(), beams.begin(), beams.end());
  return blocks;
}

bool Scheduler::CopyingIsCheaper(const LiveSequence& sequence, int32_t first, size_t copied) const {
  if (swap_costs_.token_s <= 0) return true;
  const double copying = static_cast<double>(copied) * (swap_costs_.out_s + swap_costs_.in_s);
  int32_t tokens = sequence.computed - first * options_.block_size;
  if (sequence.searches()) tokens += sequence.beams->rows() * sequence.beams->steps();
  return copying < tokens * swap_costs_.token_s;
}

// Gives the KV of a victim, whose rows are all committed, to the host, if there is room and that is
// cheaper than computing it again. Its blocks are still its own.
bool Scheduler::SwapOut(LiveSequence* sequence) {
  // It has come back in this plan, so all of it is still there.
  const auto returning = [&](const ComesBack& back) { return back.sequence == sequence; };
  if (std::erase_if(swapping_in_, returning) > 0) return true;
  if (host_ == nullptr) return false;
  const int32_t first = BlocksLeftCached(*sequence);
  const std::vector<BlockId> copied = BlocksToCopy(sequence, first);
  if (copied.empty() || !CopyingIsCheaper(*sequence, first, copied.size())) return false;
  // Longer ones would come back in a step that takes too long as well.
  const auto blocks = static_cast<double>(swapping_out_.size() + copied.size());
  const double back = static_cast<double>(copied.size()) * swap_costs_.in_s;
  if (std::max(blocks * swap_costs_.out_s, back) > swap_costs_.step_s) return false;
  if (host_->available() < std::ssize(copied)) {
    ++counters_.swaps_without_room;
    return false;
  }
  SwappedKv& kept = sequence->swapped.emplace();
  kept.first = first;
  kept.computed = sequence->computed;
  for (const BlockId block : copied) {
    BlockRef there = host_->Allocate();
    swapping_out_.push_back({sequence->id, {block.value(), there.id().value()}});
    kept.blocks.Append(std::move(there));
  }
  return true;
}

// How many blocks it needs to start, with those that the prefix cache has.
int32_t Scheduler::BlocksToStart(const LiveSequence& sequence) const {
  if (!sequence.searches()) return BlocksFor(sequence.length(), options_.block_size);
  return sequence.swapped->first + sequence.swapped->blocks.size() + sequence.beams->BlocksToGoOn();
}

// Whether what is kept of it is still of use behind the blocks that the prefix cache has.
void Scheduler::ForgetIfLost(LiveSequence* sequence, int32_t matched) {
  if (!sequence->swapped || matched >= sequence->swapped->first) return;
  ++counters_.swaps_lost;
  ForgetSwapped(sequence);
}

// The sequence starts again and has its blocks, of which the prefix cache gave the first `matched`.
// Returns how many tokens of it will be there when its next row computes.
int32_t Scheduler::TakeSwapped(LiveSequence* sequence, int32_t matched) {
  const int32_t cached = matched * options_.block_size;
  if (!sequence->swapped) return cached;
  const SwappedKv& kept = *sequence->swapped;
  // Of a search there are also blocks behind its prompt.
  if (cached >= kept.computed && !sequence->searches()) {
    ForgetSwapped(sequence);
    return cached;
  }
  ComesBack back = {.sequence = sequence};
  std::vector<BlockRef> of_beams;
  for (int32_t i = matched - kept.first; i < kept.blocks.size(); ++i) {
    const int32_t ordinal = kept.first + i;
    const bool in_table = ordinal < sequence->table.size();
    if (!in_table) of_beams.push_back(pool_->Allocate());
    const BlockId to = in_table ? sequence->table[ordinal] : of_beams.back().id();
    back.blocks.push_back({kept.blocks[i].value(), to.value()});
  }
  if (sequence->searches()) {
    sequence->beams->TakeBlocks(std::move(of_beams), pool_);
    while (!HasBlocks(*sequence)) GiveBlock(sequence, pool_->Allocate());
  }
  swapping_in_.push_back(std::move(back));
  return kept.computed;
}

// What was not copied yet no longer has to be.
void Scheduler::ForgetSwapped(LiveSequence* sequence) {
  if (!sequence->swapped) return;
  std::erase_if(swapping_out_, [&](const CopyOut& out) { return out.owner == sequence->id; });
  std::erase_if(swapping_in_, [&](const ComesBack& in) { return in.sequence == sequence; });
  sequence->swapped.reset();
  if (sequence->searches() && !sequence->over()) sequence->beams->Restart();
}

// Has the step do what is to be copied. Blocks of the host that it reads stay taken until it is
// committed.
void Scheduler::PlanSwaps(StepPlan* plan) {
  PlanOut& out = plans_out_.back();
  for (const CopyOut& copy : std::exchange(swapping_out_, {})) {
    plan->swaps_out.push_back(copy.blocks);
  }
  for (const ComesBack& back : std::exchange(swapping_in_, {})) {
    plan->swaps_in.insert(plan->swaps_in.end(), back.blocks.begin(), back.blocks.end());
    out.read_on_host.push_back(std::move(back.sequence->swapped->blocks));
    back.sequence->swapped.reset();
  }
  counters_.blocks_swapped_out += plan->swaps_out.size();
  counters_.blocks_swapped_in += plan->swaps_in.size();
  out.swaps = plan->swaps();
}

// Copies out leave with a step. Where none runs any more, and none can begin before they are done,
// those whose blocks they are compute again.
void Scheduler::ForgetCopiesOut() {
  while (!swapping_out_.empty()) {
    LiveSequence* const owner = Find(swapping_out_.front().owner);
    BATON_CHECK(owner != nullptr && owner->swapped) << swapping_out_.front().owner.value();
    ForgetSwapped(owner);
  }
}

// Whether copies are still to be done, so that a block that looks free may be read or written by
// one.
bool Scheduler::Swaps() const {
  return !swapping_out_.empty() || !swapping_in_.empty() ||
         std::ranges::any_of(plans_out_, [](const PlanOut& plan) { return plan.swaps; });
}

// Whether the next to start has to wait for copies: a reservation, because its blocks are written
// beside the steps; and who comes back, while the step that would copy it in has enough to copy.
bool Scheduler::WaitsForCopies(const LiveSequence& next) const {
  if (next.reserves()) return Swaps();
  if (!next.swapped || swapping_in_.empty()) return false;
  int64_t blocks = next.swapped->blocks.size();
  for (const ComesBack& back : swapping_in_) blocks += std::ssize(back.blocks);
  return static_cast<double>(blocks) * swap_costs_.in_s > swap_costs_.step_s;
}

}  // namespace baton
