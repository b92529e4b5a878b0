#include "kernels/cuda/cta/inverse_rms.h"
#include "kernels/cuda/device/types.cuh"
#include "kernels/cuda/rows/row_ops.h"

namespace baton::kernels::cuda {
namespace {

constexpr int kThreads = 256;

// The grid is (parts of a row, rows).
template <typename T, int N>
__global__ void EmbedKernel(const T* table, int64_t vocab, const int32_t* tokens, LastTokens last,
                            float* out, int64_t cols, int64_t stride) {
  const int64_t row = blockIdx.y;
  const int64_t col = (int64_t{blockIdx.x} * kThreads + threadIdx.x) * N;
  if (col >= cols) return;
  const int64_t token = TokenOf(tokens[row], last);
  float* to = out + row * stride + col;
  if (token < 0 || token >= vocab) {
    for (int i = 0; i < N; ++i) to[i] = __int_as_float(0x7fffffff);
    return;
  }
  const Vec<T, N> in = *reinterpret_cast<const Vec<T, N>*>(table + token * cols + col);
#pragma unroll
  for (int i = 0; i < N; ++i) to[i] = ToFloat(in.at[i]);
}

// Copies rows as words of the widest type that fits both strides. The grid is (parts of a row,
// rows).
template <typename Word>
__global__ void GatherKernel(const Word* in, int64_t in_stride, const int32_t* rows, Word* out,
                             int64_t out_stride, int64_t words) {
  const int64_t word = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (word >= words) return;
  out[blockIdx.y * out_stride + word] = in[rows[blockIdx.y] * in_stride + word];
}

// One block of threads per row, four elements per thread and turn, which are kept in registers.
template <typename Out, int kTurns>
__global__ void RmsNormVecKernel(const float* in, int64_t in_stride, const float* weight, float eps,
                                 Out* out, int64_t out_stride, int cols) {
  const float* from = in + blockIdx.x * in_stride;
  Vec<float, 4> kept[kTurns];
  float squares = 0;
#pragma unroll
  for (int turn = 0; turn < kTurns; ++turn) {
    const int col = (turn * static_cast<int>(blockDim.x) + static_cast<int>(threadIdx.x)) * 4;
    if (col >= cols) break;
    kept[turn] = *reinterpret_cast<const Vec<float, 4>*>(from + col);
#pragma unroll
    for (int i = 0; i < 4; ++i) squares += kept[turn].at[i] * kept[turn].at[i];
  }
  const float inverse = InverseRms(BlockSum(squares), static_cast<float>(cols), eps);
  Out* to = out + blockIdx.x * out_stride;
#pragma unroll
  for (int turn = 0; turn < kTurns; ++turn) {
    const int col = (turn * static_cast<int>(blockDim.x) + static_cast<int>(threadIdx.x)) * 4;
    if (col >= cols) break;
    const Vec<float, 4> scale = *reinterpret_cast<const Vec<float, 4>*>(weight + col);
    Vec<Out, 4> result;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      result.at[i] = FromFloat<Out>(kept[turn].at[i] * inverse * scale.at[i]);
    }
    *reinterpret_cast<Vec<Out, 4>*>(to + col) = result;
  }
}

// For rows of any length and alignment.
template <typename Out>
__global__ void RmsNormKernel(const float* in, int64_t in_stride, const float* weight, float eps,
                              Out* out, int64_t out_stride, int64_t cols) {
  const float* from = in + blockIdx.x * in_stride;
  float squares = 0;
  for (int64_t col = threadIdx.x; col < cols; col += blockDim.x) squares += from[col] * from[col];
  const float inverse = InverseRms(BlockSum(squares), static_cast<float>(cols), eps);
  Out* to = out + blockIdx.x * out_stride;
  for (int64_t col = threadIdx.x; col < cols; col += blockDim.x) {
    to[col] = FromFloat<Out>(from[col] * inverse * weight[col]);
  }
}

__device__ __forceinline__ float Silu(float x) { return x / (1.0f + expf(-x)); }

// The grid is (parts of a row, rows).
template <typename T, int N>
__global__ void SiluMulKernel(const T* gate_up, int64_t in_stride, T* out, int64_t out_stride,
                              int64_t ffn) {
  const int64_t col = (int64_t{blockIdx.x} * kThreads + threadIdx.x) * N;
  if (col >= ffn) return;
  const T* from = gate_up + blockIdx.y * in_stride + col;
  const Vec<T, N> gate = *reinterpret_cast<const Vec<T, N>*>(from);
  const Vec<T, N> up = *reinterpret_cast<const Vec<T, N>*>(from + ffn);
  Vec<T, N> result;
#pragma unroll
  for (int i = 0; i < N; ++i) {
    result.at[i] = FromFloat<T>(Silu(ToFloat(gate.at[i])) * ToFloat(up.at[i]));
  }
  *reinterpret_cast<Vec<T, N>*>(out + blockIdx.y * out_stride + col) = result;
}

template <typename From, typename To>
__global__ void ConvertKernel(const From* from, To* to, int64_t count) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step) {
    to[i] = FromFloat<To>(ToFloat(from[i]));
  }
}

template <typename Word>
void Gather(Matrix in, const int32_t* rows, Matrix out, int64_t bytes, cudaStream_t stream) {
  const int64_t size = static_cast<int64_t>(SizeOf(in.dtype));
  const int64_t word = sizeof(Word);
  const dim3 grid(CeilDiv(bytes / word, kThreads), static_cast<unsigned>(out.rows));
  GatherKernel<Word><<<grid, kThreads, 0, stream>>>(
      static_cast<const Word*>(in.data), in.stride * size / word, rows,
      static_cast<Word*>(out.data), out.stride * size / word, bytes / word);
}

template <typename Out>
void RmsNorm(Matrix in, const float* weight, float eps, Matrix out, cudaStream_t stream) {
  const auto* from = static_cast<const float*>(in.data);
  auto* to = static_cast<Out*>(out.data);
  const auto rows = static_cast<unsigned>(in.rows);
  const bool vectorized = in.cols % 4 == 0 && in.stride % 4 == 0 && out.stride % 4 == 0 &&
                          IsAligned(from, 16) && IsAligned(weight, 16) &&
                          IsAligned(to, 4 * sizeof(Out));
  const int64_t quads = in.cols / 4;
  const int cols = static_cast<int>(in.cols);
  const unsigned threads = CeilDiv(quads < 1024 ? quads : 1024, 32) * 32;
  if (vectorized && quads <= 1024) {
    RmsNormVecKernel<Out, 1>
        <<<rows, threads, 0, stream>>>(from, in.stride, weight, eps, to, out.stride, cols);
  } else if (vectorized && quads <= 4096) {
    RmsNormVecKernel<Out, 4>
        <<<rows, threads, 0, stream>>>(from, in.stride, weight, eps, to, out.stride, cols);
  } else {
    RmsNormKernel<Out>
        <<<rows, kThreads, 0, stream>>>(from, in.stride, weight, eps, to, out.stride, in.cols);
  }
}

}  // namespace

int LaunchEmbed(const void* table, DType dtype, int64_t vocab, const int32_t* tokens,
                const LastTokens& last, Matrix out, CUstream_st* stream) {
  if (out.rows == 0) return cudaSuccess;
  ForType(dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const auto* from = static_cast<const T*>(table);
    auto* to = static_cast<float*>(out.data);
    const auto rows = static_cast<unsigned>(out.rows);
    if (out.cols % 4 == 0 && IsAligned(table, 4 * sizeof(T))) {
      EmbedKernel<T, 4><<<dim3(CeilDiv(out.cols / 4, kThreads), rows), kThreads, 0, stream>>>(
          from, vocab, tokens, last, to, out.cols, out.stride);
    } else {
      EmbedKernel<T, 1><<<dim3(CeilDiv(out.cols, kThreads), rows), kThreads, 0, stream>>>(
          from, vocab, tokens, last, to, out.cols, out.stride);
    }
  });
  return cudaGetLastError();
}

int LaunchGather(Matrix in, const int32_t* rows, Matrix out, CUstream_st* stream) {
  if (out.rows == 0) return cudaSuccess;
  const int64_t size = static_cast<int64_t>(SizeOf(in.dtype));
  const int64_t bytes = in.cols * size;
  const auto fits = [&](int64_t word) {
    return bytes % word == 0 && in.stride * size % word == 0 && out.stride * size % word == 0 &&
           IsAligned(in.data, word) && IsAligned(out.data, word);
  };
  if (fits(16)) {
    Gather<uint4>(in, rows, out, bytes, stream);
  } else if (fits(4)) {
    Gather<uint32_t>(in, rows, out, bytes, stream);
  } else {
    Gather<uint16_t>(in, rows, out, bytes, stream);
  }
  return cudaGetLastError();
}

int LaunchRmsNorm(Matrix in, const float* weight, float eps, Matrix out, CUstream_st* stream) {
  if (in.rows == 0) return cudaSuccess;
  ForType(out.dtype, [&](auto* type) {
    RmsNorm<std::remove_pointer_t<decltype(type)>>(in, weight, eps, out, stream);
  });
  return cudaGetLastError();
}

int LaunchSiluMul(Matrix gate_up, Matrix out, CUstream_st* stream) {
  if (out.rows == 0) return cudaSuccess;
  ForType(out.dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    constexpr int kPerWord = 16 / sizeof(T);
    const auto* from = static_cast<const T*>(gate_up.data);
    auto* to = static_cast<T*>(out.data);
    const auto rows = static_cast<unsigned>(out.rows);
    const bool vectorized = out.cols % kPerWord == 0 && gate_up.stride % kPerWord == 0 &&
                            out.stride % kPerWord == 0 && IsAligned(from, 16) && IsAligned(to, 16);
    if (vectorized) {
      SiluMulKernel<T, kPerWord>
          <<<dim3(CeilDiv(out.cols / kPerWord, kThreads), rows), kThreads, 0, stream>>>(
              from, gate_up.stride, to, out.stride, out.cols);
    } else {
      SiluMulKernel<T, 1><<<dim3(CeilDiv(out.cols, kThreads), rows), kThreads, 0, stream>>>(
          from, gate_up.stride, to, out.stride, out.cols);
    }
  });
  return cudaGetLastError();
}

int LaunchConvert(const void* from, DType from_dtype, void* to, DType to_dtype, int64_t count,
                  CUstream_st* stream) {
  if (count == 0) return cudaSuccess;
  const unsigned blocks = CeilDiv(count, kThreads) < 4096U ? CeilDiv(count, kThreads) : 4096U;
  ForType(from_dtype, [&](auto* from_type) {
    ForType(to_dtype, [&](auto* to_type) {
      using From = std::remove_pointer_t<decltype(from_type)>;
      using To = std::remove_pointer_t<decltype(to_type)>;
      ConvertKernel<From, To><<<blocks, kThreads, 0, stream>>>(static_cast<const From*>(from),
                                                               static_cast<To*>(to), count);
    });
  });
  return cudaGetLastError();
}

}  // namespace baton::kernels::cuda
