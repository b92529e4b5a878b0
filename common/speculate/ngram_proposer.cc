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
  const int64_t length = std::ssize(history);
  const int32_t wanted = live.pace.Next(length, fed, accepted);
  const std::span<const TokenId> ids =
      wanted == 0 ? std::span<const TokenId>()
                  : live.lookup.After(history, std::min(wanted + drawing, most));
  const bool came_of_it = drawing == 0 && !ids.empty();
  if (live.sat_out > 0 && live.sat_out < length) {
    live.sat_out = 0;
    if (!came_of_it) {
      live.pace.Miss(length);
      return {};
    }
  }
  if (std::ssize(ids) > drawing && drawing > 0) live.sat_out = length;
  return ids;
}

}  // namespace baton
