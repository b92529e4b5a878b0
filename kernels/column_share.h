#pragma once

#include <algorithm>
#include <cstdint>

namespace baton::kernels {

// The columns [begin, end) of a product that one of several ranks computes.
struct ColumnShare {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t size() const { return end - begin; }
};

// Shares begin at multiples of this, as tiles of kernels and aligned rows of weights do.
inline constexpr int64_t kShareStep = 16;

inline int64_t ShareSteps(int64_t cols) { return (cols + kShareStep - 1) / kShareStep; }

// Whether there are enough columns for each rank to have some.
inline bool CanShareColumns(int64_t cols, int ranks) { return ShareSteps(cols) >= ranks; }

// The share of rank `rank` of `ranks`. Shares lie in the order of the ranks, and their sizes differ
// by less than two steps.
inline ColumnShare ShareOfColumns(int64_t cols, int rank, int ranks) {
  const int64_t steps = ShareSteps(cols);
  return {.begin = std::min(cols, steps * rank / ranks * kShareStep),
          .end = std::min(cols, steps * (rank + 1) / ranks * kShareStep)};
}

// A multiple of kShareStep that no share exceeds.
inline int64_t WidestShare(int64_t cols, int ranks) {
  return (ShareSteps(cols) + ranks - 1) / ranks * kShareStep;
}

}  // namespace baton::kernels
