#pragma once

#include <cstddef>

#include "kernels/backend.h"

namespace baton::kernels {

// What this machine can do at best with a backend's threads and instruction set, measured now.
struct MachineLimits {
  double flops_per_s = 0;       // fused multiply-adds of the compute dtype, 2 operations each
  double read_bytes_per_s = 0;  // streaming from memory, beyond the caches
};

// Takes at most 200 ms, uses info.threads threads and 128 MiB for the time of the call. Other load
// on the machine shows in the figures: measure beside what is compared with them.
MachineLimits MeasureMachineLimits(const BackendInfo& info);

// Bytes per second of one pass over `data` by `threads` that read a part each. The rate of memory
// only if `bytes` is far more than the caches hold, those of a virtual machine's host included.
double ReadRate(const std::byte* data, size_t bytes, int threads);

}  // namespace baton::kernels
