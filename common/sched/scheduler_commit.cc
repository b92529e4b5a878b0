// The part of Scheduler that commits a finished step: what it proves and what its tokens decide.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "common/base/token_boundary.h"
#include "common/sched/scheduler.h"

namespace baton {
namespace {

// Notes on a token that was drawn by a guide whether nothing but it or the end was allowed. An
// error when the guide has failed: then the token counts for nothing.
absl::Status AskGuide(const LiveSequence& sequence, SampledToken* token) {
  const auto& guide = sequence.spec.follows;
  if (guide == nullptr) return absl::OkStatus();
  if (absl::Status status = guide->status(); !status.ok()) return status;
  token->forced = !guide->Forced().ids.empty();
  token->only_end = guide->only_end();
  return absl::OkStatus();
}

bool Valid(std::span<const SampledToken> drawn, std::span<const TokenScore> scores) {
  return std::ranges::all_of(drawn, &SampledToken::valid) &&
         std::ranges::all_of(scores, &TokenScore::valid);
}

}  // namespace

void Scheduler::Commit(const StepPlan& plan, const StepOutput& output, base::Instant now) {
  BATON_CHECK(!plans_out_.empty() && plan.step == plans_out_.front().step)
      << "step " << plan.step << " is not the oldest that is out";
  BATON_CHECK(output.samples.size() == static_cast<size_t>(plan.num_samples))
      << output.samples.size() << " samples for " << plan.num_samples << " draws";
  BATON_CHECK(output.scores.size() == static_cast<size_t>(plan.num_scores))
      << output.scores.size() << " scores; expected " << plan.num_scores;
  NoteTime(plans_out_.front().planned, now);
  plans_out_.pop_front();
  std::span<const SampledToken> rest = output.samples;
  std::span<const TokenScore> rest_of_scores = output.scores;
  for (const StepRow& row : plan.rows) {
    const std::span<const SampledToken> drawn = rest.first(row.draws.size());
    rest = rest.subspan(row.draws.size());
    const std::span<const TokenScore> scores = rest_of_scores.first(row.scored.size());
    rest_of_scores = rest_of_scores.subspan(row.scored.size());
    LiveSequence* const sequence = Find(row.sequence);
    BATON_CHECK(sequence != nullptr && sequence->rows_out > 0) << row.sequence.value();
    --sequence->rows_out;
    if (sequence->over()) {
      ++counters_.rows_discarded;
      ForgetIfUnused(sequence);
    } else if (sequence->end_after_step) {
      End(sequence, *sequence->end_after_step, std::nullopt, now);
    } else {
      CommitRow(sequence, row, drawn, scores, now);
    }
  }
}

// A step behind another one begins when that one ends.
void Scheduler::NoteTime(base::Instant planned, base::Instant now) {
  constexpr int kOfLate = 16;  // steps
  const base::Duration took = now - std::max(planned, std::exchange(last_commit_, now));
  token_time_ += token_time_ == base::Duration::zero() ? took : (took - token_time_) / kOfLate;
}

void Scheduler::CommitRow(LiveSequence* sequence, const StepRow& row,
                          std::span<const SampledToken> drawn, std::span<const TokenScore> scores,
                          base::Instant now) {
  if (drawn.size() > 1) return CommitVerified(sequence, row, drawn, now);
  if (!Valid(drawn, scores)) return EndSpoilt(sequence, now);
  if (!drawn.empty() && !row.bare_forced) draw_health_.Drew();
  if (sequence->searches()) return CommitBeam(sequence, row, drawn[0], now);
  const int32_t fed = row.num_tokens();
  if (sequence->state == SequenceState::kPrefilling) {
    counters_.prompt_tokens_computed += static_cast<uint64_t>(fed);
  }
  const bool in_one_go = row.first_position == sequence->started_at && !drawn.empty();
  if (!sequence->decodes() && !in_one_go) ++counters_.prefill_chunks;
  sequence->computed += fed;
  EnterProven(sequence);
  if (!scores.empty()) {
    Emit(*sequence, now, ScoresEvent{sequence->scored, {scores.begin(), scores.end()}});
    sequence->scored += static_cast<int32_t>(scores.size());
  }
  if (!drawn.empty()) {
    --sequence->unknown;
    if (sequence->beams != nullptr) return BeginBeams(sequence, drawn[0], now);
    TakeSample(sequence, drawn[0], now);
  } else if (sequence->spec.kind == SequenceKind::kPrefill) {
    ReportProven(sequence, /*last=*/false, now);
  }
}

bool Scheduler::TakeSample(LiveSequence* sequence, SampledToken token, base::Instant now) {
  if (absl::Status broken = AskGuide(*sequence, &token); !broken.ok()) {
    End(sequence, FinishReason::kError, std::nullopt, now, std::move(broken));
    return false;
  }
  const int32_t index = sequence->generated();
  auto decision = Append(sequence, &token);
  if (sequence->spec.beams.on()) decision = {};  // it is one of several that may follow
  RunawayAction runaway = RunawayAction::kOff;
  if (decision.reason == FinishReason::kNone) runaway = JudgeRunaway(sequence);
  token.runaway_end = runaway == RunawayAction::kEnd;
  if (token.runaway_end) decision.reason = FinishReason::kRunaway;
  // Behind the end that the model wanted nothing is foreseen, whether the request goes on or not.
  if (decision.reason != FinishReason::kNone || sequence->stop.natural_end_step()) {
    token.end.reset();
  }
  sequence->end = token.end;
  ++counters_.generated_tokens;
  counters_.ids_forced += token.forced ? 1 : 0;
  if (sequence->first_token_at == base::Instant()) {
    sequence->first_token_at = now;
    sequence->prefill_time = now - sequence->state_since;
  }
  Emit(*sequence, now,
       TokenEvent{.index = index,
                  .token = std::move(token),
                  .cached_tokens = sequence->cached_tokens,
                  .runaway = runaway});
  const bool hands_over = sequence->spec.kind == SequenceKind::kPrefill;
  if (hands_over && decision.reason == FinishReason::kNone) {
    ReportProven(sequence, /*last=*/true, now);
  }
  if (hands_over || decision.reason != FinishReason::kNone) {
    End(sequence, decision.reason, decision.stop_token, now);
    return false;
  }
  if (sequence->state == SequenceState::kPrefilling) {
    SetState(sequence, SequenceState::kDecoding, now);
  }
  return true;
}

// Appends a token, drawn here or received, and decides by it alone whether the request ends.
StopCriteria::Decision Scheduler::Append(LiveSequence* sequence, SampledToken* token) {
  const auto decision = sequence->stop.Take(sequence->generated() + 1, token);
  sequence->tokens.push_back(token->token);
  if (sequence->guard) sequence->guard->Take(sequence->answer(), token);
  if (decision.reason == FinishReason::kNone) {
    NoteSpecial(sequence, token->token);
    GoOnByGuide(sequence, token->token);
  }
  return decision;
}

// Its mask is worked out while events go out and the model computes the next step.
void Scheduler::GoOnByGuide(LiveSequence* sequence, TokenId token) {
  if (sequence->spec.follows == nullptr) return;
  sequence->spec.follows->Take(token);
  if (sequence->spec.kind != SequenceKind::kPrefill) sequence->spec.follows->Prepare();
}

// Notes a special token behind the end of a line or sentence, where EOS was to be expected.
void Scheduler::NoteSpecial(LiveSequence* sequence, TokenId token) const {
  const bool honors = sequence->spec.stop.eos_policy == EosPolicy::kHonor;
  if (!honors || sequence->passed_special || sequence->generated() < 2) return;
  if (!std::ranges::binary_search(options_.special_ids, token)) return;
  const TokenId before = sequence->tokens[sequence->tokens.size() - 2];
  if (BoundaryOf(options_.token_boundaries, before) != 0) sequence->passed_special = token;
}

// What is to be done about the answer as it is now: once, unless it ends.
RunawayAction Scheduler::JudgeRunaway(LiveSequence* sequence) const {
  if (!sequence->ran_away()) return RunawayAction::kOff;
  if (options_.runaway == RunawayAction::kEnd) return RunawayAction::kEnd;
  return std::exchange(sequence->runaway_told, true) ? RunawayAction::kOff : options_.runaway;
}

// Others go on: their rows have nothing of this one. Its KV may be what spoilt the logits, in
// blocks that were found in the prefix cache, too, so nobody is to find them there.
void Scheduler::EndSpoilt(LiveSequence* sequence, base::Instant now) {
  if (cache_ != nullptr) cache_->Forget(sequence->spec.cache_salt, sequence->tokens);
  ++counters_.ends_not_finite;
  draw_health_.Spoilt(sequence->spec.prompt);
  End(sequence, FinishReason::kError, std::nullopt, now,
      MakeError(absl::StatusCode::kInternal, {.reason = Reason::kLogitsNotFinite},
                absl::StrCat("the logits behind ", sequence->length(),
                             " tokens are not finite numbers; the weights may be broken, or what "
                             "the model computes of this text is too large for its dtype")));
}

// Enters full blocks that became proven into the prefix cache.
void Scheduler::EnterProven(LiveSequence* sequence) {
  if (cache_ == nullptr) return;
  PrefixCache::Chain& chain = sequence->chain;
  while (!chain.broken && (chain.blocks + 1) * options_.block_size <= sequence->computed) {
    const auto tokens = std::span(sequence->tokens)
                            .subspan(static_cast<size_t>(chain.blocks * options_.block_size),
                                     static_cast<size_t>(options_.block_size));
    cache_->Insert(&chain, tokens, sequence->table[chain.blocks]);
  }
}

// Leases the blocks that became final, which are the full ones and, with `last`, also the one that
// is filled in part.
void Scheduler::ReportProven(LiveSequence* sequence, bool last, base::Instant now) {
  if (sequence->lease == Lease::kReturned) return;
  const int32_t block_size = options_.block_size;
  const int32_t final_blocks =
      last ? BlocksFor(sequence->computed, block_size) : sequence->computed / block_size;
  if (final_blocks == sequence->blocks_reported && !last) return;
  BlocksProven proven{.blocks = {},
                      .last_block_tokens = sequence->computed - (final_blocks - 1) * block_size,
                      .cached_tokens = sequence->cached_prompt_tokens(),
                      .last = last};
  proven.last_block_tokens = std::min(proven.last_block_tokens, block_size);
  for (int32_t i = sequence->blocks_reported; i < final_blocks; ++i) {
    proven.blocks.push_back({.ordinal = i, .block = sequence->table[i]});
  }
  sequence->blocks_reported = final_blocks;
  sequence->lease = Lease::kOut;
  Emit(*sequence, now, std::move(proven));
}

}  // namespace baton
