#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "common/transport/block_access.h"
#include "common/transport/pair_memory.h"

// The memory of a GPU for the transports. Without CUDA types; built only where the toolkit is.
namespace baton {

// Staging buffers of GPU `device`, `slots` of `slot_bytes`, taken now: RESOURCE_EXHAUSTED says need
// and have.
absl::StatusOr<std::unique_ptr<PairMemory>> MakeCudaPairMemory(int device, int slots,
                                                               int64_t slot_bytes);

// Blocks of GPU `device` through pinned buffers, a few threads at a time.
absl::StatusOr<std::unique_ptr<BlockAccess>> MakeCudaBlockAccess(int device);

}  // namespace baton
