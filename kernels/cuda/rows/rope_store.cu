#include "kernels/cuda/cta/fp8_math.h"
#include "kernels/cuda/device/types.cuh"
#include "kernels/cuda/rows/rope_store.h"

namespace baton::kernels::cuda {
namespace {

constexpr int kWarps = 8;
constexpr int kMaxPairs = 128;  // head_dim up to 256

// An element as the cache has it.
template <typename Kv>
__device__ __forceinline__ Kv StoredElement(float value, float scale) {
  if constexpr (std::is_same_v<Kv, __nv_fp8_e4m3>) {
    __nv_fp8_e4m3 element;
    element.__x = KvCode(value, scale);
    return element;
  } else {
    return FromFloat<Kv>(value);
  }
}

// One block of threads per row. A warp takes a head at a time, a lane the pairs (i, i + head_dim /
// 2) of every 32nd i. q is rotated and scaled in place, k rotated on its way to the cache, and v is
// only stored.
template <typename T, typename Kv>
__global__ void RopeStoreKernel(RopeStoreArgs args) {
  __shared__ float cosines[kMaxPairs];
  __shared__ float sines[kMaxPairs];
  const int64_t row = blockIdx.x;
  const int half = args.head_dim / 2;
  for (int i = static_cast<int>(threadIdx.x); i < half; i += kWarps * 32) {
    const float angle = static_cast<float>(args.positions[row]) * args.inv_freq[i];
    cosines[i] = cosf(angle) * args.attention_factor;
    sines[i] = sinf(angle) * args.attention_factor;
  }
  __syncthreads();
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int64_t index = args.cache_index[row];
  T* qkv = static_cast<T*>(args.qkv.data) + row * args.qkv.stride;
  const int64_t in_block = index % args.block_size * args.head_dim;
  const int64_t block_at = index / args.block_size * args.block_stride;
  const int heads = args.q_heads + 2 * args.kv_heads;
  for (int head = static_cast<int>(threadIdx.x) / 32; head < heads; head += kWarps) {
    T* from = qkv + head * args.head_dim;
    const bool is_q = head < args.q_heads;
    const bool is_v = head >= args.q_heads + args.kv_heads;
    if (!is_q && index < 0) break;  // padding: this warp's further heads are k or v, too
    const int kv_head = head - args.q_heads - (is_v ? args.kv_heads : 0);
    Kv* to = nullptr;
    if (!is_q) {
      to = static_cast<Kv*>(is_v ? args.v : args.k) + block_at +
           int64_t{kv_head} * args.block_size * args.head_dim + in_block;
    }
    if (is_v) {
      for (int i = lane; i < args.head_dim; i += 32)
        to[i] = StoredElement<Kv>(ToFloat(from[i]), args.v_scale);
      continue;
    }
    const float* scale = is_q ? args.q_norm : args.k_norm;
    float inverse = 1;
    if (scale != nullptr) {
      float squares = 0;
      for (int i = lane; i < args.head_dim; i += 32) {
        squares += ToFloat(from[i]) * ToFloat(from[i]);
      }
      inverse = InverseRms(WarpSum(squares), static_cast<float>(args.head_dim), args.norm_eps);
    }
    for (int i = lane; i < half; i += 32) {
      float low = ToFloat(from[i]);
      float high = ToFloat(from[i + half]);
      if (scale != nullptr) {
        low *= inverse * scale[i];
        high *= inverse * scale[i + half];
      }
      const float rotated_low = low * cosines[i] - high * sines[i];
      const float rotated_high = high * cosines[i] + low * sines[i];
      if (is_q) {
        from[i] = FromFloat<T>(rotated_low * args.q_scale);
        from[i + half] = FromFloat<T>(rotated_high * args.q_scale);
      } else {
        to[i] = StoredElement<Kv>(rotated_low, args.k_scale);
        to[i + half] = StoredElement<Kv>(rotated_high, args.k_scale);
      }
    }
  }
}

}  // namespace

int LaunchRopeStore(const RopeStoreArgs& args, CUstream_st* stream) {
  if (args.qkv.rows == 0) return cudaSuccess;
  if (args.head_dim % 2 != 0 || args.head_dim > 2 * kMaxPairs) return cudaErrorInvalidValue;
  ForType(args.qkv.dtype, [&](auto* type) {
    ForKvType(args.kv_dtype, [&](auto* kv_type) {
      using T = std::remove_pointer_t<decltype(type)>;
      using Kv = std::remove_pointer_t<decltype(kv_type)>;
      RopeStoreKernel<T, Kv>
          <<<static_cast<unsigned>(args.qkv.rows), kWarps * 32, 0, stream>>>(args);
    });
  });
  return cudaGetLastError();
}

}  // namespace baton::kernels::cuda
