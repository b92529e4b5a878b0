#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "kernels/cuda/cta/cta.h"
#include "kernels/cuda/cta/elements.h"
#include "kernels/cuda/cta/fp8_math.h"
#include "kernels/cuda/cta/inverse_rms.h"
#include "kernels/cuda/cta/rope_data.h"

// The algorithm of rows/rope_store.cu, over a Cta so that tests can run it on the host. But for
// sine, cosine and the inverse root, whose last bits are the device's own, all steps are single
// roundings in fp32.
namespace baton::kernels::cuda {

constexpr int kRopeWarps = 8;
constexpr int kRopeThreads = kRopeWarps * kLanes;
constexpr int kRopePairs = 128;  // head_dim up to 256

struct RopeShared {
  float cosines[kRopePairs];
  float sines[kRopePairs];
};

// An element as the cache has it.
template <typename Kv>
BATON_HD Kv StoredElement(float value, float scale) {
  Kv element;
  if constexpr (std::is_same_v<Kv, E4m3Bits>) {
    element.bits = KvCode(value, scale);
  } else {
    Narrow(value, &element);
  }
  return element;
}

// 1 / the root mean square of a head.
template <typename T, typename Warp>
BATON_HD float InverseRmsOfHead(Warp& warp, const T* head, int head_dim, float eps) {
  const float squares = warp.Reduce(
      [&](int lane) {
        float sum = 0;
        for (int i = lane; i < head_dim; i += kLanes) {
          sum = FmaRn(Widen(head[i]), Widen(head[i]), sum);
        }
        return sum;
      },
      [](float a, float b) { return AddRn(a, b); });
  return InverseRms(squares, static_cast<float>(head_dim), eps);
}

// Normalises a head of q or k where `norm` [head_dim] says so and rotates it. A lane takes the
// pairs (i, i + head_dim / 2) of every 32nd i, kTurns at a time, and calls write(i, low, high).
template <int kTurns, typename T, typename Warp, typename Write>
BATON_HD void RotateHead(Warp& warp, const RopeStoreArgs& args, const T* head, const float* norm,
                         const RopeShared& shared, Write write) {
  const int half = args.head_dim / 2;
  float inverse = 1;
  if (norm != nullptr) inverse = InverseRmsOfHead(warp, head, args.head_dim, args.norm_eps);
  warp.ForEach([&](int lane) {
    BATON_UNROLL_BY(kTurns)
    for (int i = lane; i < half; i += kLanes) {
      float low = Widen(head[i]);
      float high = Widen(head[i + half]);
      if (norm != nullptr) {
        low = MulRn(low, MulRn(inverse, norm[i]));
        high = MulRn(high, MulRn(inverse, norm[i + half]));
      }
      const float cosine = shared.cosines[i];
      const float sine = shared.sines[i];
      write(i, FmaRn(low, cosine, -MulRn(high, sine)), FmaRn(high, cosine, MulRn(low, sine)));
    }
  });
}

// q is rotated and scaled in place, k rotated on its way to the cache, and v is only stored. A warp
// takes a head at a time. A row whose cache_index is negative is padding, which stores nothing.
template <typename T, typename Kv, typename Cta>
BATON_HD void RopeAndStoreRow(Cta& cta, const RopeStoreArgs& args, int64_t row,
                              RopeShared& shared) {
  constexpr int kPairTurns = std::is_same_v<Kv, E4m3Bits> ? 2 : 4;  // a code takes a division
  const int half = args.head_dim / 2;
  cta.ForEach([&](int t) {
    for (int i = t; i < half; i += kRopeThreads) {
      const float angle = MulRn(static_cast<float>(args.positions[row]), args.inv_freq[i]);
      shared.cosines[i] = MulRn(cosf(angle), args.attention_factor);
      shared.sines[i] = MulRn(sinf(angle), args.attention_factor);
    }
  });
  const int64_t index = args.cache_index[row];
  T* const qkv = static_cast<T*>(args.qkv.data) + row * args.qkv.stride;
  const int64_t in_block = index % args.block_size * args.head_dim;
  const int64_t block_at = index / args.block_size * args.block_stride;
  const int heads = args.q_heads + 2 * args.kv_heads;
  cta.FinishByWarps([&](auto& warp) {
    for (int head = warp.index(); head < heads; head += kRopeWarps) {
      T* const from = qkv + head * args.head_dim;
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
        warp.ForEach([&](int lane) {
          BATON_UNROLL_BY(4)
          for (int i = lane; i < args.head_dim; i += kLanes) {
            to[i] = StoredElement<Kv>(Widen(from[i]), args.v_scale);
          }
        });
        continue;
      }
      const float* const norm = is_q ? args.q_norm : args.k_norm;
      RotateHead<kPairTurns>(warp, args, from, norm, shared, [&](int i, float low, float high) {
        if (is_q) {
          Narrow(MulRn(low, args.q_scale), &from[i]);
          Narrow(MulRn(high, args.q_scale), &from[i + half]);
        } else {
          to[i] = StoredElement<Kv>(low, args.k_scale);
          to[i + half] = StoredElement<Kv>(high, args.k_scale);
        }
      });
    }
  });
}

}  // namespace baton::kernels::cuda
