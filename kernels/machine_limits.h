#pragma once

#include <cstddef>

#include "kernels/backend.h"

namespace baton::kernels {

// What a machine can do at best with a backend's threads and instruction set, or a GPU.
struct MachineLimits {
  // Multiply and add count as two. On a CPU of fused multiply-adds in registers, on a GPU of a
  // large matrix product of random numbers.
  double flops_per_s = 0;
  // Streaming from memory, beyond the caches; on a GPU read and written by a large copy.
  double read_bytes_per_s = 0;
};

// Of the host. Takes at most 200 ms, uses info.threads threads and 128 MiB for the time of the
// call. Other load on the machine shows in the figures: measure beside what is compared with them.
MachineLimits MeasureMachineLimits(const BackendInfo& info);

// Bytes per second of one pass over `data` by `threads` that read a part each. The rate of memory
// only if `bytes` is far more than the caches hold, those of a virtual machine's host included.
double ReadRate(const std::byte* data, size_t bytes, int threads);

}  // namespace baton::kernels
