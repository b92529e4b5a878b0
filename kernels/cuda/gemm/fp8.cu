#include "kernels/cuda/cta/fp8_rows.h"
#include "kernels/cuda/device/types.cuh"
#include "kernels/cuda/gemm/fp8.h"

namespace baton::kernels::cuda {
namespace {

// One block of threads per row.
template <typename T, int N>
__global__ void __launch_bounds__(kQuantizeThreads) QuantizeRowsKernel(RowsToCodes<T> rows) {
  __shared__ QuantizeShared shared;
  DeviceCta cta;
  QuantizeRow<T, N>(cta, rows, blockIdx.x, shared);
}

template <typename T, int N>
__global__ void __launch_bounds__(kQuantizeThreads)
    QuantizeRowsByKernel(float scale, RowsToCodes<T> rows) {
  DeviceCta cta;
  QuantizeRowBy<T, N>(cta, scale, rows, blockIdx.x);
}

// The grid is (parts of a row, rows).
template <typename T, typename Out>
__global__ void AddProductKernel(ProductToAdd<T, Out> add) {
  DeviceCta cta;
  AddProductPart(cta, add, blockIdx.x, blockIdx.y);
}

// Calls launch(rows, elements per thread and turn), both as types.
template <typename F>
void ForRows(Matrix from, void* to, float* scales, F launch) {
  ForBits(from.dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const RowsToCodes<T> rows = {.from = static_cast<const T*>(from.data),
                                 .stride = from.stride,
                                 .cols = from.cols,
                                 .to = static_cast<uint8_t*>(to),
                                 .scales = scales};
    if (RowsAreWords(rows)) {
      launch(rows, std::integral_constant<int, kWordElements<T>>());
    } else {
      launch(rows, std::integral_constant<int, 1>());
    }
  });
}

}  // namespace

int LaunchQuantizeRows(Matrix from, void* to, float* scales, CUstream_st* stream) {
  if (from.rows == 0) return cudaSuccess;
  const auto blocks = static_cast<unsigned>(from.rows);
  ForRows(from, to, scales, [&]<typename T>(const RowsToCodes<T>& rows, auto per_turn) {
    QuantizeRowsKernel<T, decltype(per_turn)::value><<<blocks, kQuantizeThreads, 0, stream>>>(rows);
  });
  return cudaGetLastError();
}

int LaunchQuantizeRowsBy(float scale, Matrix from, void* to, float* scales, CUstream_st* stream) {
  if (from.rows == 0) return cudaSuccess;
  const auto blocks = static_cast<unsigned>(from.rows);
  ForRows(from, to, scales, [&]<typename T>(const RowsToCodes<T>& rows, auto per_turn) {
    QuantizeRowsByKernel<T, decltype(per_turn)::value>
        <<<blocks, kQuantizeThreads, 0, stream>>>(scale, rows);
  });
  return cudaGetLastError();
}

int LaunchAddProduct(Matrix product, const float* bias, bool accumulate, Matrix out,
                     CUstream_st* stream) {
  if (out.rows == 0) return cudaSuccess;
  const dim3 grid(CeilDiv(out.cols, kQuantizeThreads), static_cast<unsigned>(out.rows));
  ForBits(product.dtype, [&](auto* type) {
    ForBits(out.dtype, [&](auto* out_type) {
      using T = std::remove_pointer_t<decltype(type)>;
      using Out = std::remove_pointer_t<decltype(out_type)>;
      const ProductToAdd<T, Out> add = {.product = static_cast<const T*>(product.data),
                                        .bias = bias,
                                        .accumulate = accumulate,
                                        .out = static_cast<Out*>(out.data),
                                        .cols = out.cols};
      AddProductKernel<T, Out><<<grid, kQuantizeThreads, 0, stream>>>(add);
    });
  });
  return cudaGetLastError();
}

}  // namespace baton::kernels::cuda
