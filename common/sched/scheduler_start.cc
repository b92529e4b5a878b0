// The part of Scheduler that lets sequences start: whose turn it is, whether its blocks are there,
// and who gives up its place.
#include <algorithm>
#include <utility>

#include "common/sched/scheduler.h"

namespace baton {

void Scheduler::StartWaiting(base::Instant now) {
  const base::Instant hold_until = HoldUntil();
  const bool hold_prompts = hold_until != base::kNever && now < hold_until;
  const LiveSequence* const ran_first = FirstPreemptible();
  bool displaced = false;
  while (LiveSequence* const next = NextWaiting(hold_prompts)) {
    const bool has_place = SeatsTaken() + next->seats() <= options_.max_num_seqs;
    waits_for_copies_ = has_place && WaitsForCopies(*next);
    if (waits_for_copies_) return;
    if (has_place && Admits(*next) && TryStart(next, now)) {
      if (!beside_.empty()) beside_.push_back(next->seen);
      short_of_blocks_ = false;
      continue;
    }
    // They start strictly in order: who does not fit is not overtaken, so it cannot starve.
    short_of_blocks_ = has_place;
    if (has_place || displaced || !Displace(*next, ran_first, now)) return;
    displaced = true;
  }
}

// Takes the place, with its blocks, of one that runs for `candidate`, as the policy says. False
// when there is none, or when it has a row out: it sits this step out and is taken in the next.
// `ran_first` came first of those that ran when the plan began; it stays, as does who came first of
// those that run now.
bool Scheduler::Displace(const LiveSequence& candidate, const LiveSequence* ran_first,
                         base::Instant now) {
  if (candidate.state == SequenceState::kPreempted && !candidate.displaced) return false;
  if (std::ranges::any_of(waiting_, [](const auto* s) { return s->displaced; })) return false;
  LiveSequence* victim = nullptr;
  const LiveSequence* const first = FirstPreemptible();
  for (LiveSequence* const sequence : running_) {
    const bool stays = sequence == first || sequence == ran_first || sequence->gave_way;
    if (stays || !sequence->preemptible()) continue;
    // Else it would be next again, and only have lost what it had computed.
    if (!StartsBefore(candidate, *sequence)) continue;
    if (!options_.policy.displaces(candidate.seen, sequence->seen, moment_)) continue;
    if (victim != nullptr && !YieldsBefore(*sequence, *victim)) continue;
    if (FitsWithout(*sequence, candidate)) victim = sequence;
  }
  if (victim == nullptr) return false;
  if (victim->rows_out > 0) {
    victim->held_back = true;
    return false;
  }
  victim->gave_way = victim->displaced = true;
  ++counters_.displaced;
  Preempt(victim, now);
  beside_.clear();
  return true;
}

// Whether `candidate` finds its place and blocks once `victim` gives its own back; what a cache has
// of it does not count.
bool Scheduler::FitsWithout(const LiveSequence& victim, const LiveSequence& candidate) const {
  if (SeatsTaken() - victim.seats() + candidate.seats() > options_.max_num_seqs) return false;
  const int32_t growing = GrowingSequences() - victim.seats();  // it is always one of these
  return pool_->available() + BlocksReturnedBy(victim) >=
         BlocksFor(candidate.length(), options_.block_size) + growing;
}

// Whether the policy lets `candidate` in. It has no say where refusing could keep everybody
// waiting.
bool Scheduler::Admits(const LiveSequence& candidate) {
  const size_t here = running_.size() + reserved_.size();
  if (candidate.id == oldest_ || here == 0) return true;
  if (beside_.empty()) {
    beside_.reserve(here);
    for (const LiveSequence* sequence : running_) beside_.push_back(sequence->seen);
    for (const LiveSequence* sequence : reserved_) beside_.push_back(sequence->seen);
  }
  const AdmissionView view = {.beside = beside_,
                              .pool_tokens = int64_t{pool_->total()} * options_.block_size,
                              .free_tokens = int64_t{pool_->available()} * options_.block_size,
                              .block_size = options_.block_size};
  return options_.policy.admits(candidate.seen, view, moment_);
}

// How long queued prompts wait for company, so that one prefill batch serves them all; kNever when
// nothing has to wait.
base::Instant Scheduler::HoldUntil() const {
  if (options_.prefill_batch_wait <= base::Duration::zero()) return base::kNever;
  for (const LiveSequence* sequence : running_) {
    if (sequence->state == SequenceState::kPrefilling) return base::kNever;
  }
  base::Instant oldest = base::kNever;
  int64_t tokens = 0;
  int32_t prompts = 0;  // with their beams
  for (const LiveSequence* sequence : waiting_) {
    if (sequence->state == SequenceState::kPreempted) return base::kNever;
    if (sequence->spec.kind == SequenceKind::kReserved) continue;
    oldest = std::min(oldest, sequence->admitted);
    tokens += sequence->pending();
    prompts += sequence->seats();
  }
  const bool full =
      tokens >= options_.max_prefill_tokens || SeatsTaken() + prompts >= options_.max_num_seqs;
  if (prompts == 0 || full) return base::kNever;
  return oldest + options_.prefill_batch_wait;
}

LiveSequence* Scheduler::NextWaiting(bool hold_prompts) const {
  const auto starts_before = [&](const LiveSequence& a, const LiveSequence& b) {
    const bool a_resumes = a.state == SequenceState::kPreempted && !a.displaced;
    const bool b_resumes = b.state == SequenceState::kPreempted && !b.displaced;
    if (a_resumes != b_resumes) return a_resumes;
    return StartsBefore(a, b);
  };
  LiveSequence* best = nullptr;
  for (LiveSequence* const sequence : waiting_) {
    const bool is_prompt =
        sequence->state == SequenceState::kQueued && sequence->spec.kind != SequenceKind::kReserved;
    if (hold_prompts && is_prompt) continue;
    if (best == nullptr || starts_before(*sequence, *best)) best = sequence;
  }
  return best;
}

int32_t Scheduler::GrowingSequences() const {
  int32_t growing = 0;
  for (const LiveSequence* sequence : running_) {
    if (sequence->spec.kind != SequenceKind::kPrefill) growing += sequence->seats();
  }
  return growing;
}

bool Scheduler::TryStart(LiveSequence* sequence, base::Instant now) {
  const bool reserves = sequence->reserves();
  // A reservation draws nothing of its prompt, and a search that has begun has drawn behind it.
  const bool draws = !reserves && !sequence->searches();
  int32_t provable = draws ? sequence->length() - 1 : sequence->length();  // tokens
  if (sequence->scores()) provable = std::min(provable, sequence->scored - 1);
  PrefixCache::Found found;
  if (cache_ != nullptr) {
    found =
        cache_->Match(sequence->spec.cache_salt, sequence->tokens, provable / options_.block_size);
  }
  ForgetIfLost(sequence, found.table.size());
  const int32_t needed = BlocksToStart(*sequence) - found.table.size();
  if (pool_->available() < needed + GrowingSequences()) return false;
  if (cache_ != nullptr) counters_.prefix_queries += static_cast<uint64_t>(provable);
  const bool found_some = found.table.size() > 0;
  TakeBlocks(sequence, std::move(found), needed);
  sequence->displaced = false;
  if (reserves) {
    Grant(sequence, now);
    return true;
  }
  const bool decodes = sequence->decoded() || sequence->searches();
  SetState(sequence, decodes ? SequenceState::kDecoding : SequenceState::kPrefilling, now);
  if (found_some && sequence->spec.kind == SequenceKind::kPrefill) {
    ReportProven(sequence, /*last=*/false, now);
  }
  return true;
}

// Gives a sequence that starts what the prefix cache has of it, `needed` blocks more, and what is
// kept of it on the host.
void Scheduler::TakeBlocks(LiveSequence* sequence, PrefixCache::Found found, int32_t needed) {
  sequence->table = std::move(found.table);
  sequence->chain = std::move(found.chain);
  const int32_t matched = sequence->table.size();
  // Plans that are out span both, so neither may move while the sequence grows. A prefill draws one
  // token, whatever its request may have elsewhere.
  const int64_t longest = sequence->spec.kind == SequenceKind::kPrefill
                              ? int64_t{sequence->length()} + 1
                              : int64_t{sequence->prompt_tokens()} + sequence->stop.max_tokens();
  sequence->tokens.reserve(static_cast<size_t>(longest));
  sequence->table.Reserve(BlocksFor(longest, options_.block_size));
  // A search has those behind the prompt's full ones for its beams.
  const int32_t in_table =
      sequence->searches() ? sequence->prompt_tokens() / options_.block_size : matched + needed;
  for (int32_t i = matched; i < in_table; ++i) sequence->table.Append(pool_->Allocate());
  counters_.prefix_hits += static_cast<uint64_t>(matched * options_.block_size);
  sequence->computed = sequence->planned = sequence->started_at = TakeSwapped(sequence, matched);
  if (sequence->state == SequenceState::kQueued) {
    sequence->cached_tokens = sequence->computed;
    counters_.prompt_tokens_cached += static_cast<uint64_t>(sequence->cached_prompt_tokens());
  }
}

void Scheduler::Grant(LiveSequence* sequence, base::Instant now) {
  SetState(sequence, SequenceState::kReserved, now);
  BlocksGranted granted;
  granted.cached_blocks = sequence->computed / options_.block_size;
  for (int32_t i = granted.cached_blocks; i < sequence->table.size(); ++i) {
    granted.lease.push_back({.ordinal = i, .block = sequence->table[i]});
  }
  sequence->leased_from = granted.cached_blocks;
  sequence->lease = Lease::kOut;
  Emit(*sequence, now, std::move(granted));
}

}  // namespace baton
