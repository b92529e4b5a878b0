#pragma once

#include "kernels/cuda/cta/rope_data.h"

struct CUstream_st;

namespace baton::kernels::cuda {

// Queues one kernel and returns a cudaError_t.
int LaunchRopeStore(const RopeStoreArgs& args, CUstream_st* stream);

}  // namespace baton::kernels::cuda
