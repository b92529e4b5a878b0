// The part of Scheduler that runs beam searches: the rows of their beams, what comes of these, and
// what a search counts for among other sequences.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/sched/scheduler.h"

namespace baton {

// Greedy, of the raw distribution: nothing of the request's sampling counts.
kernels::SampleRow LiveSequence::BeamDraw() const {
  kernels::SampleRow draw;
  stop.FillRow(0, &draw);
  draw.num_top_logprobs = beam_candidates;
  return draw;
}

int32_t Scheduler::SeatsTaken() const {
  int32_t seats = 0;
  for (const LiveSequence* sequence : running_) seats += sequence->seats();
  for (const LiveSequence* sequence : reserved_) seats += sequence->seats();
  return seats;
}

int32_t Scheduler::BlocksReturnedBy(const LiveSequence& sequence) const {
  const auto own = std::ranges::count_if(
      sequence.table.ids(), [&](BlockId block) { return pool_->references(block) == 1; });
  return static_cast<int32_t>(own) + (sequence.beams ? sequence.beams->OwnBlocks(*pool_) : 0);
}

void Scheduler::GiveBlock(LiveSequence* sequence, BlockRef block) {
  if (sequence->searches()) return sequence->beams->TakeBlock(std::move(block), *pool_);
  sequence->table.Append(std::move(block));
}

// All beams of a search are in one step, or none is.
void Scheduler::AddBeams(LiveSequence* sequence, StepPlan* plan) {
  LiveBeams& beams = *sequence->beams;
  const std::vector<kernels::BlockCopy> copies = beams.TakeCopies();
  plan->copies.insert(plan->copies.end(), copies.begin(), copies.end());
  const int32_t rows = beams.rows();
  for (int32_t i = 0; i < rows; ++i) {
    StepRow& row = plan->rows.emplace_back();
    row.sequence = sequence->id;
    row.tokens = beams.TokenOf(i);
    row.first_position = beams.position();
    row.blocks = beams.BlocksOf(i, sequence->table);
    row.draws.push_back(sequence->BeamDraw());
    row.beam = i;
  }
  plan->num_tokens += rows;
  plan->num_samples += rows;
  plan->shape.decode_sequences += rows;
  plan->shape.decode_tokens += rows;
  sequence->rows_out += rows;
  sequence->last_turn = ++last_turn_;
}

void Scheduler::ImportBeams(LiveSequence* sequence, SampledToken first, base::Instant now) {
  const auto sent = std::ssize(first.top_logprobs);
  if (sent == sequence->beam_candidates) return BeginBeams(sequence, std::move(first), now);
  End(sequence, FinishReason::kError, std::nullopt, now,
      absl::InternalError(absl::StrCat("the commit carries ", sent,
                                       " candidates of the first position; beams need ",
                                       sequence->beam_candidates)));
}

// The prompt's KV is complete, here or received, and `first` carries what may follow it. It is told
// once, so that whoever waits for a first token hears of it.
void Scheduler::BeginBeams(LiveSequence* sequence, SampledToken first, base::Instant now) {
  const bool again = sequence->first_token_at != base::Instant();
  if (!again) {
    sequence->first_token_at = now;
    // The prompt of a reserved one was computed elsewhere.
    if (sequence->spec.kind == SequenceKind::kLocal) {
      sequence->prefill_time = now - sequence->state_since;
    }
  }
  sequence->beams->Begin(first.top_logprobs, &sequence->table, pool_);
  ++counters_.generated_tokens;
  SetState(sequence, SequenceState::kDecoding, now);
  if (!again && sequence->spec.kind == SequenceKind::kLocal) {
    Emit(*sequence, now,
         TokenEvent{.token = std::move(first), .cached_tokens = sequence->cached_tokens});
  }
  EndBeamsIfDone(sequence, now);
}

void Scheduler::CommitBeam(LiveSequence* sequence, const StepRow& row, const SampledToken& drawn,
                           base::Instant now) {
  ++counters_.generated_tokens;
  sequence->beams->Hear(row.beam, drawn.top_logprobs, pool_);
  EndBeamsIfDone(sequence, now);
}

void Scheduler::EndBeamsIfDone(LiveSequence* sequence, base::Instant now) {
  if (!sequence->beams->done()) return;
  FinishedEvent best;
  sequence->beams->Tell(&best);
  const FinishReason reason = best.beams.front().reason;
  std::optional<TokenId> stop_token;
  if (reason != FinishReason::kLength) stop_token = best.beams.front().tokens.back();
  End(sequence, reason, stop_token, now);
}

}  // namespace baton
