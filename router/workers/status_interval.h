#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>

#include "common/base/clock.h"

namespace baton {

// How far apart a router of `workers` workers wants two statuses of one to be; 0 leaves it to the
// worker. What a router takes at a worker it counts itself, so later statuses only make its picture
// of the other routers' requests older; reading one costs it CPU. So all workers together send at
// most 2000 a second, and each at least four in the time in which a status says something, which
// lets a few be late.
inline base::Duration StatusInterval(size_t workers, base::Duration status_fresh) {
  constexpr base::Duration kOneStatus = std::chrono::microseconds(500);
  // Workers send no faster by themselves. In steps of it, too, so that a worker that comes or goes
  // is seldom a reason to tell all others.
  constexpr base::Duration kStep = std::chrono::milliseconds(50);
  const base::Duration wanted = kOneStatus * static_cast<int64_t>(workers);
  if (wanted <= kStep) return base::Duration();
  const base::Duration rounded = (wanted + kStep - base::Duration(1)) / kStep * kStep;
  return std::min(rounded, status_fresh / 4);
}

}  // namespace baton
