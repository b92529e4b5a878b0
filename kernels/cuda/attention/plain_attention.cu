#include "kernels/cuda/attention/plain_attention.h"
#include "kernels/cuda/device/types.cuh"

namespace baton::kernels::cuda {
namespace {

constexpr int kWarps = 4;
constexpr int kMaxHeadDim = 256;
constexpr int kPerLane = kMaxHeadDim / 32;

// The running softmax of a warp over its keys.
struct State {
  float highest = -INFINITY;
  float total = 0;
  float sum[kPerLane] = {};  // of the lane's elements of v
};

// Rescales `state` to a new highest score.
__device__ __forceinline__ void Raise(State& state, float highest) {
  const float factor = expf(state.highest - highest);
  state.highest = highest;
  state.total *= factor;
#pragma unroll
  for (float& x : state.sum) x *= factor;
}

// One block of threads per row and query head. Each warp takes every fourth key, each lane every
// 32nd element.
template <typename T, typename Kv>
__global__ void PlainAttentionKernel(PlainAttentionArgs args) {
  const int64_t row = blockIdx.x;
  const int head = static_cast<int>(blockIdx.y);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  T* out = static_cast<T*>(args.out.data) + row * args.out.stride + head * args.head_dim;
  const int sequence = args.row_sequences[row];
  if (sequence < 0) {
    for (int i = static_cast<int>(threadIdx.x); i < args.head_dim; i += kWarps * 32) {
      out[i] = FromFloat<T>(0);
    }
    return;
  }
  const T* query =
      static_cast<const T*>(args.qkv.data) + row * args.qkv.stride + head * args.head_dim;
  float q[kPerLane] = {};
#pragma unroll
  for (int i = 0; i < kPerLane; ++i) {
    if (i * 32 + lane < args.head_dim) q[i] = ToFloat(query[i * 32 + lane]) * args.scale;
  }
  const int64_t in_head = int64_t{head / (args.q_heads / args.kv_heads)} * args.block_size;
  const int32_t* blocks = args.blocks + args.block_indptr[sequence];
  const int position = args.positions[row];
  const int window = args.sliding_window;
  const int begin = window > 0 && position >= window ? position - window + 1 : 0;
  State state;
  for (int key = begin + warp; key <= position; key += kWarps) {
    const int64_t at = blocks[key / args.block_size] * args.block_stride +
                       (in_head + key % args.block_size) * args.head_dim;
    const Kv* k = static_cast<const Kv*>(args.k) + at;
    const Kv* v = static_cast<const Kv*>(args.v) + at;
    float score = 0;
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) {
      if (i * 32 + lane < args.head_dim) score += q[i] * ToFloat(k[i * 32 + lane]);
    }
    score = WarpSum(score);
    if (score > state.highest) Raise(state, score);
    const float weight = expf(score - state.highest);
    state.total += weight;
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) {
      if (i * 32 + lane < args.head_dim) state.sum[i] += weight * ToFloat(v[i * 32 + lane]);
    }
  }
  // Warps are merged in their order. One without keys has total 0 and is passed over.
  __shared__ float highest[kWarps];
  __shared__ float totals[kWarps];
  __shared__ float sums[kWarps][kMaxHeadDim];
#pragma unroll
  for (int i = 0; i < kPerLane; ++i) sums[warp][i * 32 + lane] = state.sum[i];
  if (lane == 0) {
    highest[warp] = state.highest;
    totals[warp] = state.total;
  }
  __syncthreads();
  float top = -INFINITY;
  for (int w = 0; w < kWarps; ++w) top = fmaxf(top, highest[w]);
  for (int i = static_cast<int>(threadIdx.x); i < args.head_dim; i += kWarps * 32) {
    float total = 0;
    float sum = 0;
    for (int w = 0; w < kWarps; ++w) {
      if (totals[w] == 0) continue;
      const float factor = expf(highest[w] - top);
      total += totals[w] * factor;
      sum += sums[w][i] * factor;
    }
    out[i] = FromFloat<T>(sum / total * args.v_scale);
  }
}

}  // namespace

int LaunchPlainAttention(const PlainAttentionArgs& args, CUstream_st* stream) {
  if (args.qkv.rows == 0) return cudaSuccess;
  if (args.head_dim > kMaxHeadDim) return cudaErrorInvalidValue;
  const dim3 grid(static_cast<unsigned>(args.qkv.rows), static_cast<unsigned>(args.q_heads));
  ForType(args.qkv.dtype, [&](auto* type) {
    ForKvType(args.kv_dtype, [&](auto* kv_type) {
      using T = std::remove_pointer_t<decltype(type)>;
      using Kv = std::remove_pointer_t<decltype(kv_type)>;
      PlainAttentionKernel<T, Kv><<<grid, kWarps * 32, 0, stream>>>(args);
    });
  });
  return cudaGetLastError();
}

}  // namespace baton::kernels::cuda
