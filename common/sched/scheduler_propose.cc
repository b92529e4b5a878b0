// The part of Scheduler that deals with proposals: who is asked, what of the answers is of use, and
// what becomes of a row that fed them.
#include <algorithm>

#include "common/sched/scheduler.h"

namespace baton {
namespace {

// A guide has one mask at a time, beams go on in many ways, and a prefill draws one token.
bool MayBeForetold(const LiveSequence& sequence) {
  return sequence.spec.kind != SequenceKind::kPrefill && !sequence.spec.beams.on() &&
         sequence.spec.follows == nullptr;
}

ProposalRequest RequestOf(const LiveSequence& sequence) {
  return {.sequence = sequence.id,
          .history = sequence.tokens,
          .drawing = sequence.unknown > 0,
          .fed = sequence.proposals_fed,
          .accepted = sequence.proposals_accepted};
}

}  // namespace

int32_t Scheduler::NumDecoding() const {
  return static_cast<int32_t>(std::ranges::count_if(
      running_, [](const auto* s) { return s->state == SequenceState::kDecoding; }));
}

std::vector<ProposalRequest> Scheduler::Proposable() const {
  std::vector<ProposalRequest> all;
  if (options_.proposals.most == 0) return all;
  const int32_t generating = NumDecoding();
  int32_t room = options_.proposals.batch - generating;
  const bool any = room > 0;
  const int32_t share = std::max(1, room / std::max(1, generating));
  for (const auto* sequences : {&running_, &reserved_}) {
    for (const LiveSequence* const sequence : *sequences) {
      if (!MayBeForetold(*sequence)) continue;
      ProposalRequest& asked = all.emplace_back(RequestOf(*sequence));
      const int32_t most = std::min({ProposalsOfUse(*sequence), share, room});
      // The first of the tokens that are left is drawn by the step that ends the prompt.
      const bool decodes = sequence->state == SequenceState::kDecoding;
      const bool reads = !decodes || sequence->pending() > 1;
      asked.ahead = any && reads && sequence->tokens_left() > (decodes ? 1 : 2);
      if (most < 1) continue;
      asked.most = most + (asked.drawing ? 1 : 0);
      if (!asked.drawing) room -= most;
    }
  }
  return all;
}

void Scheduler::Propose(Proposer ask) {
  if (options_.proposals.most == 0) return;
  const int32_t generating = NumDecoding();
  if (generating == 0) return;
  int32_t room = options_.proposals.batch - generating;
  const int32_t share = std::max(1, room / generating);
  for (LiveSequence* const sequence : running_) {
    const bool drawing = sequence->unknown > 0;
    const int32_t most = std::min({ProposalsOfUse(*sequence), share, room});
    if (most < 1) continue;
    ProposalRequest asked = RequestOf(*sequence);
    asked.most = most + (drawing ? 1 : 0);
    const std::span<const TokenId> ids = ask(asked);
    if (drawing) {
      if (ids.size() > 1) sequence->stays_behind = sequence->length();
      continue;
    }
    TakeProposals(sequence, ids.first(std::min(ids.size(), static_cast<size_t>(most))));
    room -= static_cast<int32_t>(sequence->proposals().size());
  }
}

// How many ids the next row with all tokens known could feed, each of which may bring a token. The
// last token of an answer is drawn, never fed.
int32_t Scheduler::ProposalsOfUse(const LiveSequence& sequence) const {
  if (sequence.state != SequenceState::kDecoding || !sequence.plannable()) return 0;
  if (sequence.pending() != 1 || !MayBeForetold(sequence)) return 0;
  return std::min(options_.proposals.most, sequence.tokens_left() - sequence.unknown - 1);
}

// An id that ends the answer brings nothing: if it is drawn, there is nothing to draw behind it.
void Scheduler::TakeProposals(LiveSequence* sequence, std::span<const TokenId> ids) {
  const auto end = std::ranges::find_if(ids, [&](TokenId id) { return sequence->stop.EndsBy(id); });
  sequence->feed.assign(1, sequence->tokens.back());
  sequence->feed.insert(sequence->feed.end(), ids.begin(), end);
  sequence->fed_behind = static_cast<int32_t>(sequence->feed.size()) - 1;
  sequence->proposed_behind = sequence->length();
}

// Gives the sequence blocks for these ids, as long as one stays free for everybody who grows.
// Returns for how many there is room.
int32_t Scheduler::GrowForProposals(LiveSequence* sequence, int32_t proposals) {
  const auto room = [&] {
    return int64_t{sequence->table.size()} * options_.block_size - sequence->future_length();
  };
  while (room() < proposals && pool_->available() > GrowingSequences()) {
    sequence->table.Append(pool_->Allocate());
  }
  return static_cast<int32_t>(std::min<int64_t>(proposals, room()));
}

// How tokens are drawn behind the last one and behind each of the ids proposed after it.
void Scheduler::AddDraws(LiveSequence* sequence, int32_t proposals, StepRow* row) {
  if (sequence->beam_candidates > 0) {
    row->beam = 0;
    row->draws.push_back(sequence->BeamDraw());
    return;
  }
  const auto count = static_cast<size_t>(proposals);
  for (size_t i = 0; i <= count; ++i) {
    const auto given =
        i == 0 ? std::span<const TokenId>() : std::span<const TokenId>(row->tokens).subspan(1, i);
    kernels::SampleRow& draw = row->draws.emplace_back(
        MakeSampleRow(sequence->spec.sampling, sequence->stop, sequence->tokens,
                      sequence->prompt_tokens(), row->feeds_sampled, given));
    draw.slot = sequence->slot;
    draw.one_of_several = proposals > 0;
  }
  if (proposals == 0) {
    row->draws[0].banned_ids = sequence->ngrams.BannedAfter(sequence->tokens);
    return;
  }
  sequence->verifies = true;
  if (sequence->spec.sampling.no_repeat_ngram_size == 0) return;
  std::vector<TokenId>& tokens = sequence->tokens;  // has room for all that will ever stand in it
  tokens.insert(tokens.end(), row->tokens.begin() + 1, row->tokens.end());
  const auto banned = sequence->ngrams.BannedAlong(tokens, count);
  for (size_t i = 0; i <= count; ++i) row->draws[i].banned_ids = banned[i];
  tokens.resize(tokens.size() - count);
}

void Scheduler::NoteProposals(LiveSequence* sequence, int32_t proposed, int32_t accepted) {
  ++counters_.rows_proposed;
  counters_.ids_proposed += static_cast<uint64_t>(proposed);
  counters_.ids_accepted += static_cast<uint64_t>(accepted);
  for (int32_t i = 0; i < accepted; ++i) ++counters_.accepted_at[static_cast<size_t>(i)];
  sequence->proposals_fed += proposed;
  sequence->proposals_accepted += accepted;
}

// The row is committed as so many rows of one token as its draws count, so that everything is
// decided as it would be without proposals.
void Scheduler::CommitVerified(LiveSequence* sequence, const StepRow& row,
                               std::span<const SampledToken> drawn, base::Instant now) {
  const int32_t proposed = row.num_draws() - 1;
  const int32_t accepted = CountingDraws(row, drawn) - 1;
  if (row.forced.empty()) {
    NoteProposals(sequence, proposed, accepted);
  } else {
    counters_.ids_jumped += static_cast<uint64_t>(accepted);
  }
  sequence->verifies = false;
  --sequence->unknown;
  for (int32_t i = 0; i <= accepted; ++i) {
    if (!drawn[static_cast<size_t>(i)].valid) return EndSpoilt(sequence, now);
    if (!row.bare_forced) draw_health_.Drew();
    ++sequence->computed;
    EnterProven(sequence);
    if (!TakeSample(sequence, drawn[static_cast<size_t>(i)], now)) return;
  }
  sequence->planned = sequence->computed;
  sequence->table.Truncate(BlocksFor(sequence->length(), options_.block_size));
}

}  // namespace baton
