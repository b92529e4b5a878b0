#include "kernels/cuda/cta/quantized_product.h"
#include "kernels/cuda/device/types.cuh"
#include "kernels/cuda/gemm/quantized.h"

namespace baton::kernels::cuda {
namespace {

constexpr int kThreads = 128;

// One block of threads per OutputsOfBlock outputs.
template <typename T, int kBits, int kRows>
__global__ void __launch_bounds__(kProductThreads)
    FewRowsKernel(QuantizedView weight, FewRows<T> rows) {
  __shared__ ProductShared<kRows> shared;
  DeviceCta cta;
  MultiplyFewRows<DeviceCta, T, kBits, kRows>(cta, weight, rows, blockIdx.x, shared);
}

// One word of codes per thread. The grid is (parts of a row, outputs).
template <typename T, int kBits>
__global__ void WidenKernel(QuantizedView weight, bool aligned, T* to) {
  const int64_t word = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (word >= weight.words) return;
  for (int64_t out = blockIdx.y; out < weight.out; out += gridDim.y) {
    WidenWord<T, kBits>(weight, out, word, aligned, to);
  }
}

// Whether every run of rows like the weight's begins on 16 bytes and is whole.
bool RunsAreAligned(const QuantizedView& weight, const void* data) {
  return weight.input_of == nullptr && weight.in % kRunColumns == 0 && IsAligned(data, 16);
}

template <typename T, int kBits, int kRows>
void LaunchRows(const QuantizedView& weight, const FewRows<T>& rows, CUstream_st* stream) {
  const unsigned blocks = CeilDiv(weight.out, OutputsOfBlock(kRows));
  FewRowsKernel<T, kBits, kRows><<<blocks, kProductThreads, 0, stream>>>(weight, rows);
}

template <typename T, int kBits>
void LaunchForRows(const QuantizedView& weight, const FewRows<T>& rows, CUstream_st* stream) {
  if (rows.rows == 1) return LaunchRows<T, kBits, 1>(weight, rows, stream);
  if (rows.rows == 2) return LaunchRows<T, kBits, 2>(weight, rows, stream);
  if (rows.rows <= 4) return LaunchRows<T, kBits, 4>(weight, rows, stream);
  if (rows.rows <= 8) return LaunchRows<T, kBits, 8>(weight, rows, stream);
  LaunchRows<T, kBits, kFewRows>(weight, rows, stream);
}

}  // namespace

int LaunchFewRows(const QuantizedView& weight, Matrix in, const float* bias, bool accumulate,
                  Matrix out, CUstream_st* stream) {
  if (in.rows < 1 || in.rows > kFewRows) return cudaErrorInvalidValue;
  ForBits(in.dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const bool floats = out.dtype == DType::kF32;
    const FewRows<T> rows = {.rows = static_cast<int>(in.rows),
                             .in = static_cast<const T*>(in.data),
                             .aligned = RunsAreAligned(weight, in.data),
                             .out_floats = floats ? static_cast<float*>(out.data) : nullptr,
                             .out_rounded = floats ? nullptr : static_cast<T*>(out.data),
                             .bias = bias,
                             .accumulate = accumulate};
    if (weight.bits == 4) {
      LaunchForRows<T, 4>(weight, rows, stream);
    } else {
      LaunchForRows<T, 8>(weight, rows, stream);
    }
  });
  return cudaGetLastError();
}

int LaunchWiden(const QuantizedView& weight, Matrix to, CUstream_st* stream) {
  constexpr int64_t kMostOutputs = 65535;  // the second dimension of a grid
  const dim3 grid(CeilDiv(weight.words, kThreads),
                  static_cast<unsigned>(weight.out < kMostOutputs ? weight.out : kMostOutputs));
  const bool aligned = RunsAreAligned(weight, to.data);
  ForBits(to.dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    auto* const data = static_cast<T*>(to.data);
    if (weight.bits == 4) {
      WidenKernel<T, 4><<<grid, kThreads, 0, stream>>>(weight, aligned, data);
    } else {
      WidenKernel<T, 8><<<grid, kThreads, 0, stream>>>(weight, aligned, data);
    }
  });
  return cudaGetLastError();
}

}  // namespace baton::kernels::cuda
