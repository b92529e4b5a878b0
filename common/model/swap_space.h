#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "kernels/backend.h"
#include "kernels/paged_kv.h"

namespace baton {

// How long one block of one rank takes from its arena to that on the host, and back, in seconds.
struct SwapTimes {
  double out_s = 0, in_s = 0;
};

// How many blocks of that layout, which counts the heads of all ranks, `bytes` of the host's memory
// hold; 0 for no bytes. RESOURCE_EXHAUSTED, with need, have and flag, for less than one block.
absl::StatusOr<int32_t> SwapBlocksFor(int64_t bytes, const kernels::KvLayout& layout);

// Copies blocks to the host and back, which leaves the cache as it is. Both arenas were touched,
// and no step runs.
absl::StatusOr<SwapTimes> MeasureSwaps(kernels::Backend& backend, const kernels::PagedKv& kv,
                                       const kernels::PagedKv& host, const base::Clock& clock);

}  // namespace baton
