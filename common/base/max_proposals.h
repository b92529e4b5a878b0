#pragma once

#include <cstdint>

namespace baton {

// The most ids that are proposed for one row of a step.
inline constexpr int32_t kMaxProposals = 16;

}  // namespace baton
