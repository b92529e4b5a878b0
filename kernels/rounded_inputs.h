#pragma once

#include <bit>
#include <cstdint>
#include <limits>

namespace baton::kernels {

// How the inputs of a product by small integers are rounded to 8 bits on a host. Neighbouring
// columns, InputBlock of them, share a scale: the largest magnitude among them / 127, in fp32. An
// input becomes the integer nearest to it times 127 / that magnitude, ties to even, so every code
// lies in [-127, 127]. A block with an infinity or NaN has NaN for its scale, which every output of
// the row then is, and one of magnitudes below kLeast, whose quotients fp32 cannot hold, counts as
// zeros.
struct InputScale {
  static constexpr float kLeast = 0x1.0p-119f;

  float scale = 0;
  float factor = 0;
  bool rounds = false;  // otherwise all codes are 0

  // By the bits of the largest magnitude.
  static InputScale Of(int32_t bits) {
    constexpr int32_t kInfinity = 0x7f800000;
    if (bits >= kInfinity) return {.scale = std::numeric_limits<float>::quiet_NaN()};
    const auto largest = std::bit_cast<float>(bits);
    if (largest < kLeast) return {};
    return {.scale = largest / 127.0f, .factor = 127.0f / largest, .rounds = true};
  }
};

}  // namespace baton::kernels
