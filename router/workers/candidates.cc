#include "router/workers/candidates.h"

#include <algorithm>
#include <iterator>

namespace baton {

Candidates Eligible(WorkerViews views, std::mt19937_64* random,
                    const std::function<bool(const WorkerView&)>& may) {
  Candidates candidates;
  if (views.size() > kDrawn) {
    for (size_t i = 0; i < kDrawn; ++i) {
      const WorkerView* view = views[(*random)() % views.size()];
      if (may(*view)) candidates.push_back(view);
    }
    if (!candidates.empty()) return candidates;
  }
  std::copy_if(views.begin(), views.end(), std::back_inserter(candidates),
               [&](const WorkerView* view) { return may(*view); });
  return candidates;
}

void KeepBest(Candidates* candidates, const std::function<int(const WorkerView&)>& faults) {
  if (candidates->empty()) return;
  int least = faults(*candidates->front());
  for (const WorkerView* view : *candidates) least = std::min(least, faults(*view));
  std::erase_if(*candidates, [&](const WorkerView* view) { return faults(*view) > least; });
}

const WorkerView* PickOfTwo(const Candidates& candidates, std::mt19937_64* random,
                            const std::function<double(const WorkerView&)>& weight) {
  if (candidates.empty()) return nullptr;
  const size_t n = candidates.size();
  const size_t first = (*random)() % n;
  if (n == 1) return candidates[0];
  const size_t second = (first + 1 + (*random)() % (n - 1)) % n;
  const WorkerView* a = candidates[first];
  const WorkerView* b = candidates[second];
  return weight(*b) < weight(*a) ? b : a;
}

}  // namespace baton
