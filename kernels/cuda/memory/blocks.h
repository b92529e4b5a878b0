#pragma once

#include <cstdint>

#include "kernels/cuda/cta/block_data.h"

struct CUstream_st;

// Copies of KV blocks and parts of them, by one kernel for many parts. Each launch only queues work
// and returns a cudaError_t. All pointers, those inside the parts included, are to memory that the
// device can reach.
namespace baton::kernels::cuda {

// Copies every part from its `from` to its `to`. Where `sums` is not null, sums[i] is the
// BlockChecksum of what part i wrote. `max_bytes` is the size of the largest part.
int LaunchCopyParts(const BlockPart* parts, int32_t count, int64_t max_bytes, uint64_t* sums,
                    CUstream_st* stream);

// sums[i] = BlockChecksum of the bytes at parts[i].to, to check what a scatter wrote.
int LaunchSumParts(const BlockPart* parts, int32_t count, int64_t max_bytes, uint64_t* sums,
                   CUstream_st* stream);

}  // namespace baton::kernels::cuda
