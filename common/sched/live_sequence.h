#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "common/kv/block_table.h"
#include "common/kv/prefix_cache.h"
#include "common/sample/ngram_index.h"
#include "common/sample/runaway.h"
#include "common/sample/stop.h"
#include "common/sched/live_beams.h"
#include "common/sched/policy.h"
#include "common/sched/sequence.h"
#include "common/sched/sequence_guide.h"
#include "common/sched/swap.h"

namespace baton {

// Whether somebody outside the engine may touch the blocks of a sequence.
enum class Lease {
  kNone,     // nothing was lent yet
  kOut,      // blocks are lent
  kReturned  // they were given back, and a kPrefill lends no others
};

// A sequence inside the scheduler. Tokens [0, computed) have their KV in the blocks; the rest is
// still to be fed, and a token is drawn once all of it was. Plans that are out have fed up to
// `planned`, and drawn `unknown` tokens more than `tokens` holds.
struct LiveSequence {
  LiveSequence(SequenceId sequence, SequenceSpec request, std::span<const TokenId> eos_ids,
               std::span<const uint8_t> boundaries, int32_t max_tokens, int32_t block_size,
               base::Instant now)
      : id(sequence),
        spec(std::move(request)),
        tokens(spec.prompt),
        ngrams(spec.sampling.no_repeat_ngram_size),
        stop(spec.stop, eos_ids, max_tokens, spec.natural_end_step),
        arrived(now - spec.waited),
        admitted(now),
        state_since(now) {
    tokens.insert(tokens.end(), spec.generated.begin(), spec.generated.end());
    // Where the prompt is not computed nothing of it is scored.
    const bool scores = spec.score_from && spec.kind != SequenceKind::kReserved;
    scored = scores_planned =
        scores ? std::min(*spec.score_from, prompt_tokens()) : prompt_tokens();
    if (spec.stop.eos_policy == EosPolicy::kHonor) {
      guard.emplace(spec.generated, spec.end_chance_step, boundaries);
      runaway_told = ran_away();
    }
    if (!spec.beams.on()) return;
    beam_candidates = BeamCandidates(spec.beams.width, eos_ids, spec.stop.stop_token_ids);
    if (spec.kind == SequenceKind::kPrefill) return;
    beams = std::make_unique<LiveBeams>(spec.beams, max_tokens, prompt_tokens(), block_size,
                                        [this](TokenId token) { return stop.EndOf(token); });
  }

  const SequenceId id;
  const SequenceSpec spec;
  std::vector<TokenId> tokens;  // prompt, then generated
  NgramIndex ngrams;            // over `tokens`
  StopCriteria stop;
  // The beam search; null where one answer is drawn, and at a kPrefill. `tokens` is then the
  // prompt.
  std::unique_ptr<LiveBeams> beams;
  int32_t beam_candidates = 0;        // that are wanted of a row; 0: it draws
  std::optional<RunawayGuard> guard;  // over the answer; none where EOS is ignored
  bool runaway_told = false;
  std::optional<TokenId> passed_special;  // see FinishedEvent
  SequenceState state = SequenceState::kQueued;
  const base::Instant arrived;   // at the router that sent it first
  const base::Instant admitted;  // here
  base::Instant state_since;

  BlockTable table;
  PrefixCache::Chain chain;  // blocks of ours that entered the prefix cache
  // While it is preempted, unless all of it is to be computed again.
  std::optional<SwappedKv> swapped;
  int32_t computed = 0;         // tokens
  int32_t planned = 0;          // tokens, >= computed
  int32_t unknown = 0;          // tokens drawn in plans that are out
  int32_t scored = 0;           // the next token of the prompt to be scored; its length: none
  int32_t scores_planned = 0;   // likewise, behind the plans that are out
  int32_t rows_out = 0;         // rows in plans that are out: their blocks are in use
  int32_t slot = -1;            // while it runs
  int32_t started_at = 0;       // `computed` when it last got its blocks
  int32_t blocks_reported = 0;  // kPrefill: blocks already in a BlocksProven
  int32_t cached_tokens = 0;    // found in the prefix cache when it first got its blocks
  int32_t leased_from = 0;      // kReserved: first leased ordinal
  Lease lease = Lease::kNone;
  bool held_back = false;  // not in the plan being made: its blocks are wanted next
  uint64_t last_turn = 0;  // number of our last row, over all rows
  std::optional<FinishReason> end_after_step;  // asked for while in flight
  std::optional<EndEstimate> end;              // made from its last token
  std::optional<float> class_tokens;           // see SequenceView

  std::vector<TokenId> feed;    // the last token, and behind it what was proposed, or is forced
  int32_t proposed_behind = 0;  // the length at which that was said
  int32_t fed_behind = 0;       // how many of these ids the row behind that token may feed
  int32_t stays_behind = 0;     // the length at which it sits out, to be asked for proposals
  bool verifies = false;        // a row that feeds proposals is out
  int64_t proposals_fed = 0, proposals_accepted = 0;

  int32_t preemptions = 0;
  bool gave_way = false;  // see SequenceView
  bool displaced =
      false;          // it gave way and waits for its turn; who else was preempted resumes first
  SequenceView seen;  // its view when the plan that is being made began
  base::Duration queue_time{}, prefill_time{};
  base::Instant first_token_at{};

  int32_t prompt_tokens() const { return static_cast<int32_t>(spec.prompt.size()); }
  int32_t cached_prompt_tokens() const { return std::min(cached_tokens, prompt_tokens()); }
  int32_t length() const { return static_cast<int32_t>(tokens.size()); }
  int32_t generated() const { return length() - prompt_tokens(); }
  std::span<const TokenId> answer() const { return std::span(tokens).subspan(spec.prompt.size()); }
  int32_t pending() const { return length() - computed; }
  // Tokens that it has to compute before it draws the next one, once it runs.
  int32_t to_compute() const { return swapped ? length() - swapped->computed : pending(); }
  // It has ended, and only a lease or rows that are out keep it here.
  bool over() const { return state == SequenceState::kDone || state == SequenceState::kFailed; }
  // Somebody outside may touch its blocks.
  bool leased() const { return lease == Lease::kOut; }
  // A token was drawn or received here, so it has reached kDecoding.
  bool decoded() const { return tokens.size() > spec.prompt.size() + spec.generated.size(); }
  // The length once all plans that are out have drawn their tokens.
  int32_t future_length() const { return length() + unknown; }
  int32_t to_feed() const { return future_length() - planned; }
  bool running() const {
    return state == SequenceState::kPrefilling || state == SequenceState::kDecoding;
  }
  // Its beams go on behind a prompt that was computed: it has a row for each of them.
  bool searches() const { return beams != nullptr && beams->begun(); }
  // It waits for blocks that a transfer is to write.
  bool reserves() const {
    return spec.kind == SequenceKind::kReserved && state == SequenceState::kQueued;
  }
  // How many sequences it counts for in places and growth.
  int32_t seats() const { return beams != nullptr ? beams->width() : 1; }
  // The draw of a row whose most likely tokens alone are wanted.
  kernels::SampleRow BeamDraw() const;
  // Its next row feeds one token behind a complete KV, which is the usual step of generation.
  bool decodes() const { return state == SequenceState::kDecoding && pending() == 1; }
  // Whether the next row that is planned will be such a row.
  bool will_decode() const {
    if (searches()) return true;
    return to_feed() == 1 && (state == SequenceState::kDecoding || unknown > 0);
  }
  // The ids that its next row feeds behind the last token, if there is room for them.
  std::span<const TokenId> proposals() const {
    if (proposed_behind != length() || unknown > 0 || !decodes()) return {};
    return std::span(feed).subspan(1, static_cast<size_t>(fed_behind));
  }
  // Tokens of its prompt are still to be scored, each at the position before it.
  bool scores() const { return scores_planned < prompt_tokens(); }
  // Whether its next row can be planned now. While a token is not known yet, the row behind it is
  // planned only if that token cannot be the last by its number, and if the next draw does not have
  // to look at it, as the rule against repeated n-grams and guides do.
  bool plannable() const {
    if (!running() || end_after_step || held_back) return false;
    if (beams != nullptr && (unknown > 0 || (searches() && rows_out > 0))) return false;
    if (unknown == 0) return true;
    if (verifies || stays_behind == length()) return false;
    return unknown == 1 && spec.kind != SequenceKind::kPrefill &&
           spec.sampling.no_repeat_ngram_size == 0 && spec.follows == nullptr &&
           generated() + unknown < stop.max_tokens();
  }
  // Its next row would make the step wait for the mask of its draw.
  bool holds_up() const {
    return spec.follows != nullptr && will_decode() && spec.follows->holds_up();
  }
  // Whether its blocks may be taken away and computed again later.
  bool preemptible() const { return running() && !leased() && spec.kind != SequenceKind::kPrefill; }
  // Before min_tokens no answer has run away: it is not meant to end yet.
  bool ran_away() const { return guard && generated() >= spec.stop.min_tokens && guard->runaway(); }
  int32_t tokens_left() const {
    return std::max(0, stop.max_tokens() - (beams != nullptr ? beams->steps() : generated()));
  }
  // What is to be expected of its end here: the last estimate or, where EOS is ignored, the limit,
  // to which it runs whatever the model wants.
  std::optional<EndEstimate> expected_end() const {
    if (spec.kind == SequenceKind::kPrefill) return std::nullopt;  // it goes on elsewhere
    if (spec.stop.eos_policy == EosPolicy::kHonor) return end;
    const auto left = static_cast<float>(tokens_left());
    EndEstimate limit = {
        .at_step = generated(), .expected_remaining = left, .p50 = left, .p90 = left};
    for (size_t i = 0; i < kEndHorizons.size(); ++i) {
      limit.p_within[i] = tokens_left() <= kEndHorizons[i] ? 1 : 0;
    }
    return limit;
  }
  // How long its whole answer is expected to be by its class, or by its limit.
  std::optional<float> expected_length() const {
    if (spec.kind == SequenceKind::kPrefill) return std::nullopt;
    const auto longest = static_cast<float>(stop.max_tokens());
    if (spec.stop.eos_policy != EosPolicy::kHonor) return longest;
    if (!class_tokens) return std::nullopt;
    return std::min(*class_tokens, longest);
  }
  SequenceView view() const {
    return {.id = id,
            .arrived = arrived,
            .prompt_tokens = prompt_tokens(),
            .generated_tokens = generated(),
            .tokens_left = tokens_left(),
            .end = expected_end(),
            .class_tokens = expected_length(),
            .gave_way = gave_way};
  }
};

}  // namespace baton
