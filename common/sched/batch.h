#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace baton {

// A running sequence as the batch builder sees it.
struct BatchCandidate {
  int32_t pending = 0;     // tokens it could feed, >= 1
  bool decodes = false;    // one token behind a complete KV; else part of a prompt or a recompute
  uint64_t last_turn = 0;  // when it was last served, in any unit that grows; 0 = never
  int32_t proposals = 0;  // ids that it could feed behind that token, to see whether they are drawn
  bool bare = false;      // nothing is drawn behind these: they are forced
  // Each of its tokens needs logits of its own, as a row that draws does: it counts as a row.
  bool scores = false;
  int32_t rows = 1;  // that it has if it decodes, each of one token: all or none of them
};

// What one step may hold.
struct BatchBudget {
  int32_t max_rows = 0;            // whose logits are computed, and so also of sequences
  int32_t max_tokens = 0;          // of the step
  int32_t max_prefill_tokens = 0;  // of rows that do not decode
  int32_t max_draws = 0;           // one for each row and one for each proposal
};

// A row of the next step.
struct BatchShare {
  size_t candidate = 0;  // index
  int32_t tokens = 0;    // >= 1
};

// Shares a step among candidates, which come in the order of the policy. Every decode row takes one
// token, or one for each of its rows, and the first prefill row at least one; when these exceed the
// budget they take turns, the longest waiting first, so that everybody moves. What is left goes to
// prefill rows in order, and then to proposals, likewise in the order of shares. The shares come in
// the order of service: who numbers them gets the next `last_turn`.
std::vector<BatchShare> ShareStep(const std::vector<BatchCandidate>& candidates,
                                  const BatchBudget& budget);

}  // namespace baton
