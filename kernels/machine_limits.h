#pragma once

#include <cstddef>
#include <string_view>

#include "kernels/backend.h"

namespace baton::kernels {

// What a GPU, or a CPU with a backend's threads and instruction set, can do at best.
struct MachineLimits {
  // A multiplication and an addition count as two. Measured on a CPU by the instructions of its
  // products in registers, on a GPU by a large matrix product of random numbers.
  double flops_per_s = 0;
  // Bytes streamed from memory, beyond the caches. On a GPU, bytes that a large copy reads and
  // writes.
  double read_bytes_per_s = 0;
};

// The kernel of products by weights of integers: "vnni", "avx512" or "avx2" on a CPU, all of which
// give the same bits; empty on other devices.
std::string_view IntegerKernel(const BackendInfo& info);

// Measures the host with info.threads threads and the instruction set of its products, of those by
// weights of integers with `integers` (which reach half of it with 8 bits where there is no VNNI:
// the rate is that of 4 bits). Takes at most 200 ms, and 128 MiB while it runs. Other load on the
// machine shows in the figures, so measure beside what is compared.
MachineLimits MeasureMachineLimits(const BackendInfo& info, bool integers);

// Bytes per second of one pass over `data` by `threads` threads that read a part each. This is the
// rate of memory only if `bytes` is far more than the caches hold, those of a virtual machine's
// host included.
double ReadRate(const std::byte* data, size_t bytes, int threads);

}  // namespace baton::kernels
