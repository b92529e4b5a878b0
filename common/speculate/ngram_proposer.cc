#include "common/speculate/ngram_proposer.h"

#include <algorithm>

namespace baton {

std::span<const TokenId> NgramProposer::Propose(SequenceId id, std::span<const TokenId> history,
                                                int32_t most, int32_t drawing, int64_t fed,
                                                int64_t accepted) {
  auto found = live_.find(id);
  if (found == live_.end()) {
    found =
        live_.emplace(id, Live{.lookup = NgramLookup(lengths_), .pace = ProposalPace(most_)}).first;
  }
  Live& live = found->second;
  const int32_t wanted = live.pace.Next(std::ssize(history), fed, accepted);
  if (wanted == 0) return {};
  return live.lookup.After(history, std::min(wanted + drawing, most));
}

}  // namespace baton
