#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

#include "kernels/dtype.h"

namespace baton::kernels {

constexpr float FloatFromBf16(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

// Round to nearest, ties to even; NaN stays NaN.
constexpr uint16_t Bf16FromFloat(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffff) > 0x7f800000) return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

constexpr float FloatFromF16(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
  const uint32_t exponent = bits >> 10 & 0x1f;
  const uint32_t mantissa = bits & 0x3ff;
  if (exponent == 0) {
    const float magnitude = static_cast<float>(mantissa) * 0x1.0p-24f;
    return sign != 0 ? -magnitude : magnitude;
  }
  const uint32_t rebiased = exponent == 31 ? 255 : exponent + 112;
  return std::bit_cast<float>(sign | rebiased << 23 | mantissa << 13);
}

// Round to nearest, ties to even; what is too large becomes infinity; NaN stays NaN.
constexpr uint16_t F16FromFloat(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>(bits >> 16 & 0x8000);
  const uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return static_cast<uint16_t>(sign | 0x7e00);
  if (magnitude >= 0x477ff000) return static_cast<uint16_t>(sign | 0x7c00);  // 65520 and above
  if (magnitude < 0x38800000) {
    // Below 2^-14 the unit is 2^-24, that of numbers from 0.5 on: the addition rounds.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000));
  }
  const uint32_t rebiased = magnitude - (112U << 23);
  return static_cast<uint16_t>(sign | ((rebiased + 0xfff + (rebiased >> 13 & 1)) >> 13));
}

// A code of e4m3 has a sign, an exponent of 4 bits with bias 7 and a mantissa of 3 bits. It knows
// no infinity; its largest number is 448, and 0x7f is NaN.
constexpr float FloatFromE4m3(uint8_t code) {
  const uint32_t sign = static_cast<uint32_t>(code & 0x80) << 24;
  const uint32_t magnitude = code & 0x7f;
  if (magnitude == 0x7f) return std::bit_cast<float>(sign | 0x7fc00000);
  if (magnitude < 8) {
    const float small = static_cast<float>(magnitude) * 0x1.0p-9f;
    return sign != 0 ? -small : small;
  }
  return std::bit_cast<float>(sign | ((magnitude << 20) + (120U << 23)));
}

// Round to nearest, ties to even; what is too large becomes 448; NaN stays NaN.
constexpr uint8_t E4m3FromFloat(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint8_t>(bits >> 24 & 0x80);
  const uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return static_cast<uint8_t>(sign | 0x7f);
  if (magnitude >= 0x43e00000) return static_cast<uint8_t>(sign | 0x7e);  // 448 and above
  if (magnitude < 0x3c800000) {
    // Below 2^-6 the unit is 2^-9, that of numbers from 2^14 on: the addition rounds.
    const float shifted = std::bit_cast<float>(magnitude) + 0x1.0p14f;
    return static_cast<uint8_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x46800000));
  }
  return static_cast<uint8_t>(
      sign | (((magnitude + 0x7ffff + (magnitude >> 20 & 1)) >> 20) - (120U << 3)));
}

inline float LoadElement(const void* data, DType dtype, int64_t index) {
  if (dtype == DType::kF32) return static_cast<const float*>(data)[index];
  const uint16_t bits = static_cast<const uint16_t*>(data)[index];
  return dtype == DType::kBF16 ? FloatFromBf16(bits) : FloatFromF16(bits);
}

// `dtype` is fp32 or bf16: nothing computes in fp16 on the host.
inline void StoreElement(void* data, DType dtype, int64_t index, float value) {
  if (dtype == DType::kF32) {
    static_cast<float*>(data)[index] = value;
  } else {
    static_cast<uint16_t*>(data)[index] = Bf16FromFloat(value);
  }
}

inline float RoundTo(DType dtype, float value) {
  return dtype == DType::kF32 ? value : FloatFromBf16(Bf16FromFloat(value));
}

}  // namespace baton::kernels
