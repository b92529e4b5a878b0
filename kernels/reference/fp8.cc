#include "kernels/reference/fp8.h"

#include <algorithm>
#include <cmath>

#include "kernels/float_convert.h"

namespace baton::kernels {
namespace {

constexpr uint8_t kLargestCode = 0x7e;
constexpr float kLargest = 448;

// Searches through all codes, which is slow and plainly right.
uint8_t NearestCode(float value) {
  const double magnitude = std::abs(static_cast<double>(value));
  uint8_t best = 0;
  double least = magnitude;
  for (uint8_t code = 1; code <= kLargestCode; ++code) {
    const double distance = std::abs(magnitude - E4m3Value(code));
    if (distance < least || (distance == least && code % 2 == 0)) {
      best = code;
      least = distance;
    }
  }
  return std::signbit(value) ? static_cast<uint8_t>(best | 0x80) : best;
}

}  // namespace

float E4m3Value(uint8_t code) {
  const int exponent = code >> 3 & 15;
  const int mantissa = code & 7;
  if (exponent == 15 && mantissa == 7) return std::nanf("");
  const float magnitude = exponent == 0
                              ? std::ldexp(static_cast<float>(mantissa), -9)
                              : std::ldexp(static_cast<float>(8 + mantissa), exponent - 10);
  return (code & 0x80) != 0 ? -magnitude : magnitude;
}

void QuantizeRows(Matrix from, std::span<uint8_t> codes, std::span<float> scales) {
  for (int64_t row = 0; row < from.rows; ++row) {
    float largest = 0;
    for (int64_t col = 0; col < from.cols; ++col) {
      largest = std::max(largest, std::abs(LoadElement(from.row(row), from.dtype, col)));
    }
    const float scale = largest > 0 ? largest / kLargest : 1.0F;
    scales[static_cast<size_t>(row)] = scale;
    for (int64_t col = 0; col < from.cols; ++col) {
      codes[static_cast<size_t>(row * from.cols + col)] =
          NearestCode(LoadElement(from.row(row), from.dtype, col) / scale);
    }
  }
}

double DotQuantized(const uint8_t* a, float a_scale, const uint8_t* b, float b_scale,
                    int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) {
    sum += static_cast<double>(E4m3Value(a[i])) * E4m3Value(b[i]);
  }
  return sum * a_scale * b_scale;
}

}  // namespace baton::kernels
