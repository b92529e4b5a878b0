#include "common/sched/batch.h"

#include <algorithm>
#include <limits>

namespace baton {
namespace {

// The candidates that must not wait for others: every decode row and the first prefill row, the
// longest waiting first.
std::vector<size_t> InTurn(const std::vector<BatchCandidate>& candidates) {
  std::vector<size_t> turn;
  bool has_prefill = false;
  for (size_t i = 0; i < candidates.size(); ++i) {
    if (!candidates[i].decodes && has_prefill) continue;
    has_prefill |= !candidates[i].decodes;
    turn.push_back(i);
  }
  std::stable_sort(turn.begin(), turn.end(), [&](size_t a, size_t b) {
    return candidates[a].last_turn < candidates[b].last_turn;
  });
  return turn;
}

}  // namespace

std::vector<BatchShare> ShareStep(const std::vector<BatchCandidate>& candidates,
                                  const BatchBudget& budget) {
  std::vector<BatchShare> shares;
  int32_t rows = budget.max_rows;
  int32_t tokens = budget.max_tokens;
  int32_t prefill = budget.max_prefill_tokens;
  size_t first_prefill = candidates.size();  // place in `shares` of the prefill row that got a turn
  for (const size_t i : InTurn(candidates)) {
    if (tokens == 0 || rows == 0) break;
    const int32_t needs = candidates[i].rows;
    if (tokens < needs || rows < needs) continue;
    if (!candidates[i].decodes) first_prefill = shares.size();
    shares.push_back({.candidate = i, .tokens = needs});
    tokens -= needs;
    rows -= needs;
    if (!candidates[i].decodes) --prefill;
  }
  for (size_t i = 0; i < candidates.size(); ++i) {
    if (candidates[i].decodes) continue;
    const bool has_row = first_prefill < shares.size() && shares[first_prefill].candidate == i;
    if (!has_row && rows == 0) break;
    const bool scores = candidates[i].scores;
    const int32_t more = std::min({candidates[i].pending - (has_row ? 1 : 0), tokens, prefill,
                                   scores ? rows : std::numeric_limits<int32_t>::max()});
    if (more <= 0) continue;
    if (has_row) {
      shares[first_prefill].tokens += more;
    } else {
      shares.push_back({.candidate = i, .tokens = more});
    }
    if (scores) {
      rows -= more;
    } else if (!has_row) {
      --rows;
    }
    tokens -= more;
    prefill -= more;
  }
  int32_t draws = budget.max_draws - (budget.max_rows - rows);
  for (BatchShare& share : shares) {
    const BatchCandidate& candidate = candidates[share.candidate];
    int32_t more = std::min(candidate.proposals, tokens);
    if (!candidate.bare) more = std::min(more, draws);
    if (more <= 0) continue;
    share.tokens += more;
    tokens -= more;
    if (!candidate.bare) draws -= more;
  }
  return shares;
}

}  // namespace baton
