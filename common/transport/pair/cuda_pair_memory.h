#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "common/transport/block_access.h"
#include "common/transport/pair/pair_memory.h"

// How pairs and the host reach KV blocks in the memory of GPUs. Only in builds with CUDA.
namespace baton {

// Makes staging buffers on GPU `device` and the copies between them and blocks. `blocks_elsewhere`
// says that some of the blocks are on other GPUs. RESOURCE_EXHAUSTED says how much memory is
// missing.
absl::StatusOr<std::unique_ptr<PairMemory>> MakeCudaPairMemory(int device, int buffers,
                                                               int64_t buffer_bytes,
                                                               bool blocks_elsewhere);

// Makes the copies between the host and blocks of any GPU, through pinned memory and a stream of
// `device`.
absl::StatusOr<std::unique_ptr<BlockAccess>> MakeCudaBlocks(int device);

}  // namespace baton
