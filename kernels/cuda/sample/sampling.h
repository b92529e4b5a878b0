#pragma once

#include "kernels/cuda/cta/sample_data.h"

struct CUstream_st;

// The launches of the sampling kernels. Each only queues work, so that a graph can capture it, and
// returns a cudaError_t. All pointers are to device memory.
namespace baton::kernels::cuda {

// Fills the entries of counts that resets[0, count) name from the histories in `lists`.
int LaunchResetCounts(const CountsReset* resets, int32_t count, const SampleLaunch& launch,
                      CUstream_st* stream);

// Samples every active row of `launch`: writes results and top log-probabilities, and updates last
// tokens and counts.
int LaunchSample(const SampleLaunch& launch, CUstream_st* stream);

}  // namespace baton::kernels::cuda
