// The part of RequestFlow that learns what the prefix caches of decode workers may hold, for
// --local-prefill-below.
#include <span>
#include <utility>

#include "router/request/request_flow.h"

namespace baton {

std::shared_ptr<const PrefixChain> RequestFlow::PrefixOf(size_t generated) const {
  const bool wanted =
      context_->options.local_prefill_below > 0 && !context_->options.prefill_workers.empty();
  if (!wanted) return nullptr;
  return std::make_shared<PrefixChain>(ChainOf(spec_.cache_salt, spec_.prompt,
                                               std::span(output_->ids()).first(generated),
                                               context_->directory->BlockTokens()));
}

void RequestFlow::LearnPrompt(const worker::v1::DecodeStarted& started) {
  const PrefixChain* prefix = attempt_->need.prefix.get();
  if (prefix == nullptr) return;
  const WorkerKey key = attempt_->placement.decode.view.key();
  // A first attempt's prompt is all that is computed, so that the worker's count tells.
  const bool tells = attempt_->local() && attempt_->first_index == 0;
  if (tells && started.cached_tokens() < attempt_->placement.held_tokens) {
    context_->directory->MarkNotHeld(key);
  }
  context_->directory->MarkHeld(key, *prefix);
}

void RequestFlow::LearnAnswer(const Attempt& attempt) {
  if (!attempt.started() || output_->size() == attempt.first_index) return;
  // A conversation's next prompt begins with the answer. Its last token was not computed.
  if (const auto prefix = PrefixOf(output_->ids().size() - 1)) {
    context_->directory->MarkHeld(attempt.placement.decode.view.key(), *prefix);
  }
}

}  // namespace baton
