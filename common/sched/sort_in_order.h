#pragma once

#include <algorithm>
#include <vector>

#include "common/sched/live_sequence.h"

namespace baton {

// A stable sort, which keeps to its memory also under an order that contradicts itself. Orders of
// who runs seldom change from one step to the next, so it looks first.
template <typename Before>
void SortInOrder(std::vector<LiveSequence*>* sequences, Before before) {
  if (std::ranges::is_sorted(*sequences, before)) return;
  std::stable_sort(sequences->begin(), sequences->end(), before);
}

}  // namespace baton
