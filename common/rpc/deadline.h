#pragma once

#include <chrono>

#include "common/base/clock.h"

namespace baton {

// A call's deadline, which gRPC gives on the system clock, as an instant of the steady one; kNever
// for a call without one.
inline base::Instant DeadlineFromSystem(std::chrono::system_clock::time_point deadline,
                                        const base::Clock& clock) {
  if (deadline == std::chrono::system_clock::time_point::max()) return base::kNever;
  const auto left = deadline - std::chrono::system_clock::now();
  if (left > std::chrono::hours(24 * 365)) return base::kNever;
  return clock.Now() + std::chrono::duration_cast<base::Duration>(left);
}

}  // namespace baton
