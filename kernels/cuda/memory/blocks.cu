#include "kernels/cuda/cta/block_copy.h"
#include "kernels/cuda/memory/blocks.h"

namespace baton::kernels::cuda {
namespace {

template <bool kCopies>
__global__ void __launch_bounds__(kCopyThreads)
    WorkOnParts(const BlockPart* parts, uint64_t* sums) {
  __shared__ CopyShared shared;
  DeviceCta cta;
  const BlockPart part = parts[blockIdx.y];
  const int64_t begin = blockIdx.x * kCopyBlockBytes;
  if (begin >= part.bytes) return;
  const uint64_t sum = WorkOnPart<kCopies>(cta, part, begin, shared);
  if (threadIdx.x != 0 || sums == nullptr) return;
  static_assert(sizeof(unsigned long long) == sizeof(uint64_t), "atomicAdd of 64 bits");
  atomicAdd(reinterpret_cast<unsigned long long*>(&sums[blockIdx.y]), sum);
}

constexpr int32_t kMaxGridParts = 65535;

template <bool kCopies>
int Launch(const BlockPart* parts, int32_t count, int64_t max_bytes, uint64_t* sums,
           CUstream_st* stream) {
  if (sums != nullptr && count > 0) {
    const cudaError_t zeroed = cudaMemsetAsync(sums, 0, sizeof(*sums) * count, stream);
    if (zeroed != cudaSuccess) return zeroed;
  }
  const int64_t pieces = (max_bytes + kCopyBlockBytes - 1) / kCopyBlockBytes;
  for (int32_t first = 0; first < count && pieces > 0; first += kMaxGridParts) {
    const int32_t here = count - first < kMaxGridParts ? count - first : kMaxGridParts;
    const dim3 grid(static_cast<unsigned>(pieces), static_cast<unsigned>(here));
    WorkOnParts<kCopies><<<grid, kCopyThreads, 0, stream>>>(
        parts + first, sums == nullptr ? nullptr : sums + first);
  }
  return cudaGetLastError();
}

}  // namespace

int LaunchCopyParts(const BlockPart* parts, int32_t count, int64_t max_bytes, uint64_t* sums,
                    CUstream_st* stream) {
  return Launch<true>(parts, count, max_bytes, sums, stream);
}

int LaunchSumParts(const BlockPart* parts, int32_t count, int64_t max_bytes, uint64_t* sums,
                   CUstream_st* stream) {
  return Launch<false>(parts, count, max_bytes, sums, stream);
}

}  // namespace baton::kernels::cuda
