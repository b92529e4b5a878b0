#include "common/sched/batch.h"

#include <algorithm>
#include <cstddef>

namespace baton {

std::vector<int32_t> ShareStep(const std::vector<BatchCandidate>& candidates,
                               const BatchBudget& budget) {
  std::vector<int32_t> shares(candidates.size(), 0);
  std::vector<size_t> turn;  // those that must not wait for others
  bool has_prefill = false;
  for (size_t i = 0; i < candidates.size(); ++i) {
    if (!candidates[i].decodes && has_prefill) continue;
    has_prefill |= !candidates[i].decodes;
    turn.push_back(i);
  }
  std::stable_sort(turn.begin(), turn.end(), [&](size_t a, size_t b) {
    return candidates[a].last_step < candidates[b].last_step;
  });

  int32_t tokens = budget.max_tokens;
  int32_t prefill = budget.max_prefill_tokens;
  int32_t rows = budget.max_rows;
  for (const size_t i : turn) {
    if (tokens == 0 || rows == 0) break;
    shares[i] = 1;
    --tokens;
    --rows;
    if (!candidates[i].decodes) --prefill;
  }
  for (size_t i = 0; i < candidates.size(); ++i) {
    const BatchCandidate& candidate = candidates[i];
    const bool has_row = shares[i] > 0;
    if (candidate.decodes || (!has_row && rows == 0)) continue;
    const int32_t more = std::min({candidate.pending - shares[i], tokens, prefill});
    if (more <= 0) continue;
    if (!has_row) --rows;
    shares[i] += more;
    tokens -= more;
    prefill -= more;
  }
  return shares;
}

}  // namespace baton
