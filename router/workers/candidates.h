#pragma once

#include <cstddef>
#include <functional>
#include <random>
#include <vector>

#include "router/workers/worker_view.h"

namespace baton {

// The workers among which one is picked.
using Candidates = std::vector<const WorkerView*>;

// As many workers are looked at for one pick: the best two of many hardly differ from the best of
// sixteen, and a placement must not cost more in a larger cluster.
constexpr size_t kDrawn = 16;

// Those of `views` that may be picked: of a few all, of many some drawn at random, and all again if
// none of those drawn will do.
Candidates Eligible(WorkerViews views, std::mt19937_64* random,
                    const std::function<bool(const WorkerView&)>& may);

// Keeps the candidates with the fewest things against them.
void KeepBest(Candidates* candidates, const std::function<int(const WorkerView&)>& faults);

// Two drawn at random, the lighter of them: close to the best, and routers that see the same old
// figures do not all run to one worker. Null when there is none.
const WorkerView* PickOfTwo(const Candidates& candidates, std::mt19937_64* random,
                            const std::function<double(const WorkerView&)>& weight);

}  // namespace baton
