#pragma once

#include <cstdint>
#include <vector>

namespace baton {

// A running sequence as the batch builder sees it.
struct BatchCandidate {
  int32_t pending = 0;     // tokens it could feed, >= 1
  bool decodes = false;    // one token behind a complete KV; else part of a prompt or a recompute
  uint64_t last_step = 0;  // last step that it had a row in; 0 = none
};

struct BatchBudget {
  int32_t max_rows = 0;
  int32_t max_tokens = 0;          // of the step
  int32_t max_prefill_tokens = 0;  // of rows that do not decode
};

// How many tokens each candidate feeds in the next step; 0 = none. Candidates come in policy order.
// Decode rows take one token each and the first prefill row at least one; when these exceed the
// budget they take turns, the longest waiting first, so everybody moves. What is left goes to
// prefill rows in order.
std::vector<int32_t> ShareStep(const std::vector<BatchCandidate>& candidates,
                               const BatchBudget& budget);

}  // namespace baton
