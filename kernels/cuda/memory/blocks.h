#pragma once

#include <cstdint>

#include "kernels/cuda/cta/block_data.h"

struct CUstream_st;

// Block gather, scatter and copy. Each launch only queues work and returns a cudaError_t. All
// pointers, those inside the parts included, are to memory that the device can reach.
namespace baton::kernels::cuda {

// to = from for every part. With `sums` (not null) sums[i] is
// BlockChecksum of what part i wrote. `max_bytes` is that of the largest part.
int LaunchCopyParts(const BlockPart* parts, int32_t count, int64_t max_bytes, uint64_t* sums,
                    CUstream_st* stream);

// sums[i] = BlockChecksum of the bytes at parts[i].to: what a scatter is checked with.
int LaunchSumParts(const BlockPart* parts, int32_t count, int64_t max_bytes, uint64_t* sums,
                   CUstream_st* stream);

}  // namespace baton::kernels::cuda
