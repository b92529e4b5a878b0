#include "router/page/eos_trace.h"

#include <algorithm>

namespace baton {

void EosTrace::Add(float eos_prob) {
  const float value = eos_prob > 0 ? eos_prob : 0;
  if (steps_ % per_cell_ == 0) {
    if (cells_.size() == kCells) MergePairs();
    // After a merge the last cell may have room for this step.
    if (steps_ % per_cell_ == 0) cells_.push_back(0);
  }
  cells_.back() = std::max(cells_.back(), value);
  ++steps_;
}

void EosTrace::MergePairs() {
  for (size_t i = 0; i < kCells / 2; ++i) cells_[i] = std::max(cells_[2 * i], cells_[2 * i + 1]);
  cells_.resize(kCells / 2);
  per_cell_ *= 2;
}

}  // namespace baton
