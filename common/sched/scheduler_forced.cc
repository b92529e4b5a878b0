// The part of Scheduler that deals with what guides force: how much of it a row feeds, and what its
// draws give then. Which ids these are is the guide's answer and depends on the tokens so far
// alone; how many of them come in one step changes no token.
#include <algorithm>

#include "common/sched/scheduler.h"

namespace baton {

// Whether nothing is measured at what is forced, so that a step may feed more of it. Where it feeds
// one token at a time that gains nothing, and a step of a device's graph has a draw in each row. A
// prefill's one token is measured in any case: it costs little, and the worker that goes on may
// want to know.
bool Scheduler::BareForced(const LiveSequence& sequence) const {
  return options_.jump_forward && sequence.spec.bare_forced && !options_.measures_forced &&
         sequence.spec.kind != SequenceKind::kPrefill;
}

// Notes what has to come behind the last token. Of that the row may feed as much as leaves a token
// to be drawn: the last one of an answer, and one that ends it, are never fed.
void Scheduler::TakeForced(LiveSequence* sequence) const {
  const ForcedRun run = sequence->spec.follows->Forced();
  sequence->feed.assign(1, sequence->tokens.back());
  sequence->feed.insert(sequence->feed.end(), run.ids.begin(), run.ids.end());
  sequence->proposed_behind = sequence->length();
  sequence->fed_behind = 0;
  if (!options_.jump_forward || run.ids.empty()) return;
  const auto end =
      std::ranges::find_if(run.ids, [&](TokenId id) { return sequence->stop.EndsBy(id); });
  const auto known = static_cast<int32_t>(end - run.ids.begin());
  // Behind a part of a run only the ids that are known can be drawn.
  const auto all = static_cast<int32_t>(run.ids.size());
  const int32_t drawable = run.whole ? known : std::min(known, all - 1);
  sequence->fed_behind = std::min(drawable, sequence->tokens_left() - 1);
}

// What has to come is worked out here where nobody has done so yet. That a guide is slow shows when
// it was asked: whom nobody has asked by then sits this step out. Prompts that surely draw nothing
// in this step are not asked.
void Scheduler::AskGuides(std::vector<LiveSequence*>* ready) const {
  bool waited = false;
  std::erase_if(*ready, [&](LiveSequence* sequence) {
    SequenceGuide* const guide = sequence->spec.follows.get();
    const bool draws =
        sequence->will_decode() || sequence->to_feed() <= options_.max_prefill_tokens;
    if (guide == nullptr || !draws) return false;
    if (waited && !guide->knows_forced()) return true;
    if (sequence->decodes()) {
      TakeForced(sequence);
    } else {
      guide->Forced();
    }
    waited |= guide->took_long();
    return false;
  });
}

// What the row's draws give, as far as it is forced, and the mask of the last one, if that is free.
void Scheduler::FillForced(LiveSequence* sequence, StepRow* row) const {
  if (sequence->proposed_behind != sequence->length()) TakeForced(sequence);
  const std::span<const TokenId> ids = std::span<const TokenId>(sequence->feed).subspan(1);
  row->forced = ids.first(std::min(ids.size(), row->draws.size()));
  row->bare_forced = row->num_tokens() > 1 && BareForced(*sequence);
  if (row->forced.size() == row->draws.size()) return;
  row->guide = sequence->spec.follows.get();
  row->guide->Prepare();
}

}  // namespace baton
