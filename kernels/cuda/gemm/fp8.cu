#include "kernels/cuda/cta/fp8_math.h"
#include "kernels/cuda/device/types.cuh"
#include "kernels/cuda/gemm/fp8.h"

namespace baton::kernels::cuda {
namespace {

constexpr int kThreads = 256;

// The largest value over the block of threads, the same in each of them; NaN where one is.
__device__ __forceinline__ float BlockLargest(float value) {
  __shared__ float largest[32];
  for (int lane = 16; lane > 0; lane /= 2) {
    const float other = __shfl_xor_sync(0xffffffffU, value, lane);
    value = other > value || isnan(other) ? other : value;
  }
  if (threadIdx.x % 32 == 0) largest[threadIdx.x / 32] = value;
  __syncthreads();
  for (int warp = 0; warp < kThreads / 32; ++warp) {
    const float other = largest[warp];
    value = other > value || isnan(other) ? other : value;
  }
  return value;
}

// One block of threads per row, N elements per thread and turn. The second pass finds the row in
// the cache.
template <typename T, int N>
__global__ void __launch_bounds__(kThreads)
    QuantizeRowsKernel(const T* from, int64_t stride, uint8_t* to, float* scales, int64_t cols) {
  const T* row = from + blockIdx.x * stride;
  float largest = 0;
  for (int64_t col = int64_t{threadIdx.x} * N; col < cols; col += int64_t{kThreads} * N) {
    const Vec<T, N> in = *reinterpret_cast<const Vec<T, N>*>(row + col);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const float magnitude = fabsf(ToFloat(in.at[i]));
      largest = magnitude > largest || isnan(magnitude) ? magnitude : largest;
    }
  }
  largest = BlockLargest(largest);
  const bool finite = largest < INFINITY;
  const float scale = finite ? ScaleOfRow(largest) : 1.0f;
  if (threadIdx.x == 0) scales[blockIdx.x] = finite ? scale : __int_as_float(0x7fffffff);
  uint8_t* out = to + blockIdx.x * cols;
  for (int64_t col = int64_t{threadIdx.x} * N; col < cols; col += int64_t{kThreads} * N) {
    const Vec<T, N> in = *reinterpret_cast<const Vec<T, N>*>(row + col);
    Vec<uint8_t, N> codes;
#pragma unroll
    for (int i = 0; i < N; ++i) codes.at[i] = QuantizeElement(ToFloat(in.at[i]), scale);
    *reinterpret_cast<Vec<uint8_t, N>*>(out + col) = codes;
  }
}

template <typename T, int N>
__global__ void __launch_bounds__(kThreads)
    QuantizeRowsByKernel(float scale, const T* from, int64_t stride, uint8_t* to, float* scales,
                         int64_t cols) {
  const T* row = from + blockIdx.x * stride;
  if (threadIdx.x == 0) scales[blockIdx.x] = scale;
  uint8_t* out = to + blockIdx.x * cols;
  for (int64_t col = int64_t{threadIdx.x} * N; col < cols; col += int64_t{kThreads} * N) {
    const Vec<T, N> in = *reinterpret_cast<const Vec<T, N>*>(row + col);
    Vec<uint8_t, N> codes;
#pragma unroll
    for (int i = 0; i < N; ++i) codes.at[i] = QuantizeBy(ToFloat(in.at[i]), scale);
    *reinterpret_cast<Vec<uint8_t, N>*>(out + col) = codes;
  }
}

// Calls launch(pointer to elements, elements per thread and turn), both as types.
template <typename F>
void ForRows(Matrix from, const void* to, F launch) {
  ForType(from.dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    constexpr int kPerWord = 16 / sizeof(T);
    const auto* in = static_cast<const T*>(from.data);
    const bool vectorized = from.cols % kPerWord == 0 && from.stride % kPerWord == 0 &&
                            IsAligned(in, 16) && IsAligned(to, kPerWord);
    if (vectorized) {
      launch(in, std::integral_constant<int, kPerWord>());
    } else {
      launch(in, std::integral_constant<int, 1>());
    }
  });
}

// The grid is (parts of a row, rows).
template <typename T, typename Out>
__global__ void AddProductKernel(const T* product, const float* bias, bool accumulate, Out* out,
                                 int64_t cols) {
  const int64_t col = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (col >= cols) return;
  const int64_t at = blockIdx.y * cols + col;
  float value = ToFloat(product[at]);
  if (bias != nullptr) value += bias[col];
  if (accumulate) value += ToFloat(out[at]);
  out[at] = FromFloat<Out>(value);
}

}  // namespace

int LaunchQuantizeRows(Matrix from, void* to, float* scales, CUstream_st* stream) {
  if (from.rows == 0) return cudaSuccess;
  auto* const out = static_cast<uint8_t*>(to);
  ForRows(from, to, [&](const auto* in, auto per_turn) {
    using T = std::remove_cvref_t<decltype(*in)>;
    QuantizeRowsKernel<T, decltype(per_turn)::value>
        <<<static_cast<unsigned>(from.rows), kThreads, 0, stream>>>(in, from.stride, out, scales,
                                                                    from.cols);
  });
  return cudaGetLastError();
}

int LaunchQuantizeRowsBy(float scale, Matrix from, void* to, float* scales, CUstream_st* stream) {
  if (from.rows == 0) return cudaSuccess;
  auto* const out = static_cast<uint8_t*>(to);
  ForRows(from, to, [&](const auto* in, auto per_turn) {
    using T = std::remove_cvref_t<decltype(*in)>;
    QuantizeRowsByKernel<T, decltype(per_turn)::value>
        <<<static_cast<unsigned>(from.rows), kThreads, 0, stream>>>(scale, in, from.stride, out,
                                                                    scales, from.cols);
  });
  return cudaGetLastError();
}

int LaunchAddProduct(Matrix product, const float* bias, bool accumulate, Matrix out,
                     CUstream_st* stream) {
  if (out.rows == 0) return cudaSuccess;
  const dim3 grid(CeilDiv(out.cols, kThreads), static_cast<unsigned>(out.rows));
  ForType(product.dtype, [&](auto* type) {
    ForType(out.dtype, [&](auto* out_type) {
      using T = std::remove_pointer_t<decltype(type)>;
      using Out = std::remove_pointer_t<decltype(out_type)>;
      AddProductKernel<T, Out>
          <<<grid, kThreads, 0, stream>>>(static_cast<const T*>(product.data), bias, accumulate,
                                          static_cast<Out*>(out.data), out.cols);
    });
  });
  return cudaGetLastError();
}

}  // namespace baton::kernels::cuda
