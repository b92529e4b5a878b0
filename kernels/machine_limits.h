#pragma once

#include <cstddef>

#include "kernels/backend.h"

namespace baton::kernels {

// What a GPU, or a CPU with a backend's threads and instruction set, can do at best.
struct MachineLimits {
  // A multiplication and an addition count as two. Measured on a CPU by fused multiply-adds in
  // registers, on a GPU by a large matrix product of random numbers.
  double flops_per_s = 0;
  // Bytes streamed from memory, beyond the caches. On a GPU, bytes that a large copy reads and
  // writes.
  double read_bytes_per_s = 0;
};

// Measures the host with info.threads threads and the instruction set of its products. Takes at
// most 200 ms, and 128 MiB while it runs. Other load on the machine shows in the figures, so
// measure beside what is compared.
MachineLimits MeasureMachineLimits(const BackendInfo& info);

// Bytes per second of one pass over `data` by `threads` threads that read a part each. This is the
// rate of memory only if `bytes` is far more than the caches hold, those of a virtual machine's
// host included.
double ReadRate(const std::byte* data, size_t bytes, int threads);

}  // namespace baton::kernels
