// The part of Scheduler that plans a step: who gets blocks, who starts, who gives way, and the
// rows.
#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/sched/batch.h"
#include "common/sched/scheduler.h"

namespace baton {
namespace {

// A stable sort, which keeps to its memory also under an order that contradicts itself. Orders of
// who runs seldom change from one step to the next, so it looks first.
template <typename Before>
void SortInOrder(std::vector<LiveSequence*>* sequences, Before before) {
  if (std::ranges::is_sorted(*sequences, before)) return;
  std::stable_sort(sequences->begin(), sequences->end(), before);
}

}  // namespace

StepPlan Scheduler::Plan(base::Instant now) {
  BATON_CHECK(plans_out_.size() < static_cast<size_t>(options_.max_steps_in_flight))
      << "step " << plans_out_.front().step << " was not committed";
  LookAround(now);
  SortInOrder(&running_, [&](const auto* a, const auto* b) {
    if (a->id == oldest_ || b->id == oldest_) return a->id == oldest_ && b->id != oldest_;
    return YieldsBefore(*b, *a);  // who yields last comes first
  });
  short_of_blocks_ = !SecureBlocks(now);
  if (!short_of_blocks_) StartWaiting(now);
  return BuildPlan();
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
        sequence->table.Append(std::move(block));
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

// Blocks that become free without another victim: of ended leases, of sequences that are over but
// for a row that is out, and of those that are held back to be preempted.
int32_t Scheduler::BlocksComingBack() const {
  int32_t blocks = pool_->num_quarantined();
  for (const auto& [id, sequence] : live_) {
    const bool ends = sequence->over() && sequence->rows_out > 0 && !sequence->leased();
    if (!ends && !sequence->held_back) continue;
    for (const BlockId block : sequence->table.ids()) {
      if (pool_->references(block) == 1) ++blocks;
    }
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
  sequence->table.Clear();
  sequence->chain = {};
  sequence->computed = sequence->planned = 0;
  sequence->scores_planned = sequence->scored;
  SetState(sequence, SequenceState::kPreempted, now);
}

void Scheduler::StartWaiting(base::Instant now) {
  const base::Instant hold_until = HoldUntil();
  const bool hold_prompts = hold_until != base::kNever && now < hold_until;
  const LiveSequence* const ran_first = FirstPreemptible();
  bool displaced = false;
  while (LiveSequence* const next = NextWaiting(hold_prompts)) {
    const bool has_place =
        running_.size() + reserved_.size() < static_cast<size_t>(options_.max_num_seqs);
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

// Whether `candidate` finds its blocks once `victim` gives its own back; what a cache has of it
// does not count.
bool Scheduler::FitsWithout(const LiveSequence& victim, const LiveSequence& candidate) const {
  const auto returned = std::ranges::count_if(
      victim.table.ids(), [&](BlockId block) { return pool_->references(block) == 1; });
  const int32_t growing = GrowingSequences() - 1;  // a victim is always one of these
  return pool_->available() + returned >=
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
  size_t prompts = 0;
  for (const LiveSequence* sequence : waiting_) {
    if (sequence->state == SequenceState::kPreempted) return base::kNever;
    if (sequence->spec.kind == SequenceKind::kReserved) continue;
    oldest = std::min(oldest, sequence->admitted);
    tokens += sequence->pending();
    ++prompts;
  }
  const size_t places = static_cast<size_t>(options_.max_num_seqs);
  const bool full = tokens >= options_.max_prefill_tokens ||
                    running_.size() + reserved_.size() + prompts >= places;
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
  return static_cast<int32_t>(std::ranges::count_if(
      running_, [](const auto* s) { return s->spec.kind != SequenceKind::kPrefill; }));
}

bool Scheduler::TryStart(LiveSequence* sequence, base::Instant now) {
  const bool reserves =
      sequence->spec.kind == SequenceKind::kReserved && sequence->state == SequenceState::kQueued;
  int32_t provable = reserves ? sequence->length() : sequence->length() - 1;  // tokens
  if (sequence->scores()) provable = std::min(provable, sequence->scored - 1);
  PrefixCache::Found found;
  if (cache_ != nullptr) {
    found =
        cache_->Match(sequence->spec.cache_salt, sequence->tokens, provable / options_.block_size);
  }
  const int32_t needed = BlocksFor(sequence->length(), options_.block_size) - found.table.size();
  if (pool_->available() < needed + GrowingSequences()) return false;
  if (cache_ != nullptr) counters_.prefix_queries += static_cast<uint64_t>(provable);

  sequence->table = std::move(found.table);
  sequence->chain = std::move(found.chain);
  const int32_t matched = sequence->table.size();
  // Plans that are out span both, so neither may move while the sequence grows.
  const int64_t longest = int64_t{sequence->prompt_tokens()} + sequence->stop.max_tokens();
  sequence->tokens.reserve(static_cast<size_t>(longest));
  sequence->table.Reserve(BlocksFor(longest, options_.block_size));
  for (int32_t i = 0; i < needed; ++i) sequence->table.Append(pool_->Allocate());
  sequence->computed = sequence->planned = sequence->started_at = matched * options_.block_size;
  counters_.prefix_hits += static_cast<uint64_t>(sequence->computed);
  if (sequence->state == SequenceState::kQueued) {
    sequence->cached_tokens = sequence->computed;
    counters_.prompt_tokens_cached += static_cast<uint64_t>(sequence->cached_prompt_tokens());
  }
  sequence->displaced = false;
  if (reserves) {
    Grant(sequence, now);
    return true;
  }
  SetState(sequence, sequence->decoded() ? SequenceState::kDecoding : SequenceState::kPrefilling,
           now);
  if (matched > 0 && sequence->spec.kind == SequenceKind::kPrefill) {
    ReportProven(sequence, /*last=*/false, now);
  }
  return true;
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

StepPlan Scheduler::BuildPlan() {
  std::vector<LiveSequence*> ready;
  for (LiveSequence* const sequence : running_) {
    if (sequence->plannable() && HasBlocks(*sequence)) ready.push_back(sequence);
  }
  // A guide that is slow to say what may come sits a step out, so that it costs nobody but its own
  // request. Where nothing else runs the step waits for it.
  const auto holds_up = [](const LiveSequence* sequence) { return sequence->holds_up(); };
  if (!std::ranges::all_of(ready, holds_up)) std::erase_if(ready, holds_up);
  SortInOrder(&ready, [&](const auto* a, const auto* b) { return StartsBefore(*a, *b); });
  std::vector<BatchCandidate> candidates;
  candidates.reserve(ready.size());
  for (const LiveSequence* sequence : ready) {
    candidates.push_back({.pending = sequence->to_feed(),
                          .decodes = sequence->will_decode(),
                          .last_turn = sequence->last_turn,
                          .proposals = static_cast<int32_t>(sequence->proposals().size()),
                          .scores = sequence->scores()});
  }
  const std::vector<BatchShare> shares =
      ShareStep(candidates, {.max_rows = options_.max_num_seqs,
                             .max_tokens = options_.max_num_batched_tokens,
                             .max_prefill_tokens = options_.max_prefill_tokens,
                             .max_draws = options_.max_draws});
  StepPlan plan;
  if (ready.empty()) return plan;
  plan.step = ++step_;
  plans_out_.push_back({step_, moment_.now});
  for (const BatchShare& share : shares) AddRow(ready[share.candidate], share.tokens, &plan);
  counters_.largest_batch =
      std::max(counters_.largest_batch, static_cast<int32_t>(plan.rows.size()));
  return plan;
}

void Scheduler::AddRow(LiveSequence* sequence, int32_t tokens, StepPlan* plan) {
  int32_t proposals = 0;
  if (sequence->will_decode()) {
    proposals = GrowForProposals(sequence, tokens - 1);
    tokens = 1 + proposals;
    ++plan->shape.decode_sequences;
    plan->shape.decode_tokens += tokens;
  } else {
    ++plan->shape.prefill_sequences;
    plan->shape.prefill_tokens += tokens;
  }
  StepRow row;
  FillTokens(sequence, tokens, &row);
  const int32_t end = sequence->planned + tokens;
  if (end - proposals == sequence->future_length()) {
    AddDraws(sequence, proposals, &row);
    row.guide = sequence->spec.follows.get();
    if (row.guide != nullptr) row.guide->Prepare();
    ++sequence->unknown;
    plan->num_samples += row.num_draws();
  }
  if (sequence->scores()) FillScores(sequence, end, &row);
  plan->num_scores += static_cast<int32_t>(row.scored.size());
  plan->num_tokens += tokens;
  sequence->planned = end;
  ++sequence->rows_out;
  sequence->last_turn = ++last_turn_;
  plan->rows.push_back(std::move(row));
}

// The row ends before position `end`; what stands at a position scores the token behind it.
void Scheduler::FillScores(LiveSequence* sequence, int32_t end, StepRow* row) {
  const int32_t first = std::max(sequence->planned + 1, sequence->scores_planned);
  const int32_t behind = std::min(end + 1, sequence->prompt_tokens());
  if (first >= behind) return;
  row->first_scored = first - 1 - sequence->planned;
  row->scored = std::span(sequence->tokens)
                    .subspan(static_cast<size_t>(first), static_cast<size_t>(behind - first));
  row->score_alternatives = sequence->spec.sampling.num_top_logprobs;
  sequence->scores_planned = behind;
}

void Scheduler::FillTokens(LiveSequence* sequence, int32_t tokens, StepRow* row) {
  row->sequence = sequence->id;
  row->slot = sequence->slot;
  row->first_position = sequence->planned;
  row->feeds_sampled = sequence->unknown > 0;
  if (row->feeds_sampled) {
    BATON_CHECK(tokens == 1 && sequence->planned == sequence->length()) << sequence->id.value();
    ++counters_.rows_ahead;
  } else if (sequence->will_decode() && tokens > 1) {
    row->tokens = std::span(sequence->feed).first(static_cast<size_t>(tokens));
  } else {
    row->tokens = std::span(sequence->tokens)
                      .subspan(static_cast<size_t>(sequence->planned), static_cast<size_t>(tokens));
  }
  const int32_t blocks = BlocksFor(sequence->planned + tokens, options_.block_size);
  row->blocks = sequence->table.ids().first(static_cast<size_t>(blocks));
}

}  // namespace baton
