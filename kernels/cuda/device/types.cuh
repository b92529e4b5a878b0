#pragma once

// What the kernels share: element types, vector loads, sums over warps and blocks, and launches by
// element type.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

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

// N elements that move with one access.
template <typename T, int N>
struct alignas(sizeof(T) * N) Vec {
  T at[N];
};

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

// 1 / the root mean square of `count` numbers, of whose squares `squares` is the sum. Where the sum
// overflowed it is NaN: 0 would make zeros of the row, and an answer of them that looks like one.
__device__ __forceinline__ float InverseRms(float squares, float count, float eps) {
  const float overflow = squares - squares;  // 0, or NaN
  return rsqrtf(squares / count + eps) + overflow;
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

inline bool IsAligned(const void* pointer, size_t bytes) {
  return reinterpret_cast<uintptr_t>(pointer) % bytes == 0;
}

inline unsigned CeilDiv(int64_t a, int64_t b) { return static_cast<unsigned>((a + b - 1) / b); }

}  // namespace baton::kernels::cuda
