#pragma once

// What the kernels share: element types, sums over warps and blocks, and launches by element type.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

#include "kernels/cuda/cta/elements.h"
#include "kernels/dtype.h"

namespace baton::kernels::cuda {

template <typename T>
__device__ __forceinline__ float ToFloat(T value) {
  if constexpr (std::is_same_v<T, float>) {
    return value;
  } else if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    return __bfloat162float(value);
  } else if constexpr (std::is_same_v<T, __nv_fp8_e4m3>) {
    return static_cast<float>(value);
  } else {
    return __half2float(value);
  }
}

// Rounds to nearest, ties to even.
template <typename T>
__device__ __forceinline__ T FromFloat(float value) {
  if constexpr (std::is_same_v<T, float>) {
    return value;
  } else if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    return __float2bfloat16_rn(value);
  } else {
    return __float2half_rn(value);
  }
}

__device__ __forceinline__ float WarpSum(float value) {
#pragma unroll
  for (int lane = 16; lane > 0; lane /= 2) value += __shfl_xor_sync(0xffffffffU, value, lane);
  return value;
}

// The sum over the block, the same bits in every thread. All threads of the block call it; they are
// whole warps, at most 1024 threads.
__device__ __forceinline__ float BlockSum(float value) {
  __shared__ float sums[32];
  value = WarpSum(value);
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int warps = static_cast<int>(blockDim.x) / 32;
  if (threadIdx.x % 32 == 0) sums[warp] = value;
  __syncthreads();
  float total = 0;
  for (int i = 0; i < warps; ++i) total += sums[i];
  __syncthreads();
  return total;
}

// Calls `launch` with a null pointer whose type tells the element type of `dtype`.
template <typename Launch>
void ForType(DType dtype, Launch launch) {
  switch (dtype) {
    case DType::kF32:
      launch(static_cast<float*>(nullptr));
      return;
    case DType::kBF16:
      launch(static_cast<__nv_bfloat16*>(nullptr));
      return;
    case DType::kF16:
      launch(static_cast<__half*>(nullptr));
      return;
    case DType::kInt8:
    case DType::kFp8:
      return;  // no activations are of these
  }
}

// The same for the element type of a KV cache. BeginStep refuses kInt8, which is the host's alone.
template <typename Launch>
void ForKvType(DType dtype, Launch launch) {
  if (dtype == DType::kFp8) {
    launch(static_cast<__nv_fp8_e4m3*>(nullptr));
  } else {
    ForType(dtype, launch);
  }
}

// Calls `launch` with a null pointer to elements of `dtype`, as the headers of cta/ know them.
template <typename Launch>
void ForBits(DType dtype, Launch launch) {
  if (dtype == DType::kF32) return launch(static_cast<float*>(nullptr));
  if (dtype == DType::kBF16) return launch(static_cast<Bf16Bits*>(nullptr));
  if (dtype == DType::kF16) return launch(static_cast<F16Bits*>(nullptr));
}

inline bool IsAligned(const void* pointer, size_t bytes) {
  return reinterpret_cast<uintptr_t>(pointer) % bytes == 0;
}

inline unsigned CeilDiv(int64_t a, int64_t b) { return static_cast<unsigned>((a + b - 1) / b); }

}  // namespace baton::kernels::cuda
