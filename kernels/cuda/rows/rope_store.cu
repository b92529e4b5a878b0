#include "kernels/cuda/cta/rope_rows.h"
#include "kernels/cuda/device/types.cuh"
#include "kernels/cuda/rows/rope_store.h"

namespace baton::kernels::cuda {
namespace {

// How many blocks an SM runs at once, at least. It bounds the registers of a thread to 48, as many
// as most types need; without it some took 56, which leaves room for four. No GPU has measured it.
constexpr int kBlocksOfSm = 5;

// One block of threads per row.
template <typename T, typename Kv>
__global__ void __launch_bounds__(kRopeThreads, kBlocksOfSm) RopeStoreKernel(RopeStoreArgs args) {
  __shared__ RopeShared shared;
  DeviceCta cta;
  RopeAndStoreRow<T, Kv>(cta, args, blockIdx.x, shared);
}

// ForBits for the elements of a KV cache. BeginStep refuses kInt8, which is the host's alone.
template <typename Launch>
void ForKvBits(DType dtype, Launch launch) {
  if (dtype == DType::kFp8) return launch(static_cast<E4m3Bits*>(nullptr));
  ForBits(dtype, launch);
}

}  // namespace

int LaunchRopeStore(const RopeStoreArgs& args, CUstream_st* stream) {
  if (args.qkv.rows == 0) return cudaSuccess;
  if (args.head_dim % 2 != 0 || args.head_dim > 2 * kRopePairs) return cudaErrorInvalidValue;
  ForBits(args.qkv.dtype, [&](auto* type) {
    ForKvBits(args.kv_dtype, [&](auto* kv_type) {
      using T = std::remove_pointer_t<decltype(type)>;
      using Kv = std::remove_pointer_t<decltype(kv_type)>;
      RopeStoreKernel<T, Kv>
          <<<static_cast<unsigned>(args.qkv.rows), kRopeThreads, 0, stream>>>(args);
    });
  });
  return cudaGetLastError();
}

}  // namespace baton::kernels::cuda
