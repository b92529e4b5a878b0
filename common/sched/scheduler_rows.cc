// The part of Scheduler that makes the rows of a step.
#include <algorithm>

#include "common/base/check.h"
#include "common/sched/batch.h"
#include "common/sched/scheduler.h"
#include "common/sched/sort_in_order.h"

namespace baton {

StepPlan Scheduler::BuildPlan() {
  std::vector<LiveSequence*> ready;
  for (LiveSequence* const sequence : running_) {
    if (sequence->plannable() && HasBlocks(*sequence)) ready.push_back(sequence);
  }
  // A guide that is slow to say what may come sits a step out, so that it costs nobody but its own
  // request. Where nothing else runs the step waits for one of them, and not for all: somebody else
  // may come meanwhile.
  const auto holds_up = [](const LiveSequence* sequence) { return sequence->holds_up(); };
  const bool others = !plans_out_.empty() || !std::ranges::all_of(ready, holds_up);
  if (others) {
    std::erase_if(ready, holds_up);
  } else if (!ready.empty()) {
    ready = {*std::ranges::min_element(ready, {}, &LiveSequence::last_turn)};
  }
  AskGuides(&ready);
  SortInOrder(&ready, [&](const auto* a, const auto* b) { return StartsBefore(*a, *b); });
  std::vector<BatchCandidate> candidates;
  candidates.reserve(ready.size());
  for (const LiveSequence* sequence : ready) {
    candidates.push_back({.pending = sequence->to_feed(),
                          .decodes = sequence->will_decode(),
                          .last_turn = sequence->last_turn,
                          .proposals = static_cast<int32_t>(sequence->proposals().size()),
                          .bare = sequence->spec.follows != nullptr && BareForced(*sequence),
                          .scores = sequence->scores(),
                          .rows = sequence->searches() ? sequence->beams->rows() : 1});
  }
  const std::vector<BatchShare> shares =
      ShareStep(candidates, {.max_rows = options_.max_num_seqs,
                             .max_tokens = options_.max_num_batched_tokens,
                             .max_prefill_tokens = options_.max_prefill_tokens,
                             .max_draws = options_.max_draws});
  StepPlan plan;
  if (ready.empty()) return plan;
  plan.step = ++step_;
  plans_out_.push_back({.step = step_, .planned = moment_.now});
  PlanSwaps(&plan);
  for (const BatchShare& share : shares) AddRow(ready[share.candidate], share.tokens, &plan);
  counters_.largest_batch =
      std::max(counters_.largest_batch, static_cast<int32_t>(plan.rows.size()));
  return plan;
}

void Scheduler::AddRow(LiveSequence* sequence, int32_t tokens, StepPlan* plan) {
  if (sequence->searches()) return AddBeams(sequence, plan);
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
    if (sequence->spec.follows != nullptr) FillForced(sequence, &row);
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
