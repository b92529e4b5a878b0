#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "kernels/cuda/cta/cta.h"

// The arithmetic of kernels/exp_f32.h, kernels/sample_weights.h and common/base/philox.h once more,
// for device and host. Every step is one IEEE operation rounded to nearest, which no compiler flag
// may fuse with another. A test compares it with those headers bit by bit.
namespace baton::kernels::cuda {

constexpr float kMasked = -HUGE_VALF;
constexpr float kMaxFloat = 3.402823466e+38f;
constexpr int32_t kLastId = 0x7fffffff;

#ifdef __CUDA_ARCH__
__device__ __forceinline__ float AddRn(float a, float b) { return __fadd_rn(a, b); }
__device__ __forceinline__ float SubRn(float a, float b) { return __fsub_rn(a, b); }
__device__ __forceinline__ float MulRn(float a, float b) { return __fmul_rn(a, b); }
__device__ __forceinline__ float DivRn(float a, float b) { return __fdiv_rn(a, b); }
__device__ __forceinline__ float FmaRn(float a, float b, float c) { return __fmaf_rn(a, b, c); }
__device__ __forceinline__ uint32_t FloatBits(float x) { return __float_as_uint(x); }
__device__ __forceinline__ float BitsFloat(uint32_t x) { return __uint_as_float(x); }
__device__ __forceinline__ double AddRn(double a, double b) { return __dadd_rn(a, b); }
__device__ __forceinline__ double MulRn(double a, double b) { return __dmul_rn(a, b); }
#else
BATON_HD float AddRn(float a, float b) { return a + b; }
BATON_HD float SubRn(float a, float b) { return a - b; }
BATON_HD float MulRn(float a, float b) { return a * b; }
BATON_HD float DivRn(float a, float b) { return a / b; }
BATON_HD float FmaRn(float a, float b, float c) { return std::fma(a, b, c); }
BATON_HD uint32_t FloatBits(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof(bits));
  return bits;
}
BATON_HD float BitsFloat(uint32_t bits) {
  float x;
  std::memcpy(&x, &bits, sizeof(x));
  return x;
}
BATON_HD double AddRn(double a, double b) { return a + b; }
BATON_HD double MulRn(double a, double b) { return a * b; }
#endif

BATON_HD bool IsNan(float x) { return x != x; }

// ExpF32 of kernels/exp_f32.h.
BATON_HD float Exp(float x) {
  if (x < -87.0f) return 0.0f;
  x = x > 88.0f ? 88.0f : x;
  const float n = nearbyintf(MulRn(x, 1.44269504088896341f));
  float r = FmaRn(-n, 0.693359375f, x);
  r = FmaRn(-n, -2.12194440e-4f, r);
  float p = 1.9875691500e-4f;
  p = FmaRn(p, r, 1.3981999507e-3f);
  p = FmaRn(p, r, 8.3334519073e-3f);
  p = FmaRn(p, r, 4.1665795894e-2f);
  p = FmaRn(p, r, 1.6666665459e-1f);
  p = FmaRn(p, r, 5.0000001201e-1f);
  const float value = AddRn(FmaRn(p, MulRn(r, r), r), 1.0f);
  return BitsFloat(FloatBits(value) + (static_cast<uint32_t>(static_cast<int32_t>(n)) << 23));
}

// An overflow to +infinity would make every weight NaN; NaN (0 * inf) counts as masked.
BATON_HD float Finite(float x) {
  if (IsNan(x)) return kMasked;
  return x > kMaxFloat ? kMaxFloat : x;
}

// NucleusMass of kernels/sample_weights.h.
BATON_HD uint64_t NucleusMassOf(float weight) {
  return static_cast<uint64_t>(static_cast<double>(weight) * 1099511627776.0);  // 2^40
}

// A logit as an unsigned integer that orders as logits do; both zeros give the same one.
BATON_HD uint32_t OrderedKey(float x) {
  const uint32_t bits = FloatBits(AddRn(x, 0.0f));
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}
BATON_HD float FromOrderedKey(uint32_t key) {
  return BitsFloat((key & 0x80000000u) != 0 ? key & 0x7fffffffu : ~key);
}

// base::Coin.
BATON_HD double CoinOf(uint64_t seed, uint32_t position, uint32_t draw) {
  uint32_t counter[4] = {position, draw, 0, 0};
  uint32_t key0 = static_cast<uint32_t>(seed);
  uint32_t key1 = static_cast<uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = static_cast<uint64_t>(0xD2511F53u) * counter[0];
    const uint64_t product1 = static_cast<uint64_t>(0xCD9E8D57u) * counter[2];
    counter[0] = static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key0;
    counter[1] = static_cast<uint32_t>(product1);
    counter[2] = static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key1;
    counter[3] = static_cast<uint32_t>(product0);
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  const uint64_t bits = (static_cast<uint64_t>(counter[0]) << 32 | counter[1]) >> 11;
  return static_cast<double>(bits) * (1.0 / 9007199254740992.0);  // 2^-53
}

// What the penalties make of a logit. Bit 0 of `count` says whether the id occurred in prompt or
// output, the other bits count how often it was sampled.
BATON_HD float Penalised(float x, uint32_t count, float repetition, float presence,
                         float frequency) {
  if (count == 0) return x;
  x = x < 0 ? MulRn(x, repetition) : DivRn(x, repetition);
  const uint32_t sampled = count >> 1;
  if (sampled > 0) {
    x = SubRn(x, MulRn(frequency, static_cast<float>(static_cast<int32_t>(sampled))));
    x = SubRn(x, presence);
  }
  return Finite(x);
}

}  // namespace baton::kernels::cuda
