#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace baton::kernels {

// The exponential that every sampling weight is made with. It is defined operation by operation,
// each of them one IEEE operation, so that scalar and vector code give the same bits on every ISA.
// Its relative error is below 2e-7; below -87 it is 0.
struct ExpF32Constants {
  static constexpr float kMin = -87.0f;
  static constexpr float kMax = 88.0f;
  static constexpr float kLog2E = 1.44269504088896341f;
  static constexpr float kLn2High = 0.693359375f;
  static constexpr float kLn2Low = -2.12194440e-4f;
  // Minimax polynomial of exp(r) on |r| <= ln(2)/2 (Cephes expf), highest power first;
  // exp(r) = 1 + r + r² p(r).
  static constexpr float kPoly[6] = {1.9875691500e-4f, 1.3981999507e-3f, 8.3334519073e-3f,
                                     4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f};
};

inline float ExpF32(float x) {
  using C = ExpF32Constants;
  if (x < C::kMin) return 0.0f;
  x = x > C::kMax ? C::kMax : x;
  const float n = std::nearbyint(x * C::kLog2E);
  float r = std::fma(-n, C::kLn2High, x);
  r = std::fma(-n, C::kLn2Low, r);
  float p = C::kPoly[0];
  for (int i = 1; i < 6; ++i) p = std::fma(p, r, C::kPoly[i]);
  const float square = r * r;
  const float value = std::fma(p, square, r) + 1.0f;
  const int32_t exponent = static_cast<int32_t>(n);
  return std::bit_cast<float>(std::bit_cast<int32_t>(value) + (exponent << 23));
}

}  // namespace baton::kernels
