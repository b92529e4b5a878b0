#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>

#include "kernels/dtype.h"
#include "kernels/float_convert.h"

namespace baton::kernels {

// Rows of a KV cache in scalar code. Every backend of a host stores the same bits.
//
// Int8 is symmetric: the scale is the largest magnitude / 127, and a code is the element * (127 /
// the largest magnitude), rounded to nearest, ties to even. A row with no magnitude of
// kLeastInt8Row is zeros; one with an infinity or NaN has the scale NaN, and so reads
// as NaN.
inline constexpr float kLeastInt8Row = 0x1.0p-100f;

inline void StoreInt8Row(std::span<const float> values, std::byte* row) {
  uint32_t largest_bits = 0;  // compares as the magnitudes do, and NaN above all
  for (const float value : values) {
    largest_bits = std::max(largest_bits, std::bit_cast<uint32_t>(value) & 0x7fffffff);
  }
  const auto largest = std::bit_cast<float>(largest_bits);
  float scale = largest / 127;
  float inverse = 127 / largest;
  if (!std::isfinite(largest)) {
    scale = std::numeric_limits<float>::quiet_NaN();
    inverse = 0;
  } else if (largest < kLeastInt8Row) {
    scale = inverse = 0;
  }
  for (size_t i = 0; i < values.size(); ++i) {
    const float scaled = inverse == 0 ? 0 : std::nearbyint(values[i] * inverse);
    row[i] = static_cast<std::byte>(static_cast<int8_t>(scaled));
  }
  std::memcpy(row + values.size(), &scale, sizeof(scale));
}

// Writes K or V of one token and head to its row. `scale` is that of the layer, for kFp8.
inline void StoreKvRow(DType dtype, std::span<const float> values, std::byte* row,
                       float scale = 1) {
  if (dtype == DType::kInt8) return StoreInt8Row(values, row);
  for (size_t i = 0; i < values.size(); ++i) {
    if (dtype == DType::kFp8) {
      row[i] = static_cast<std::byte>(E4m3FromFloat(values[i] / scale));
    } else {
      StoreElement(row, dtype, static_cast<int64_t>(i), values[i]);
    }
  }
}

// Reads a row back as fp32; of kFp8 without the scale of its layer.
inline void LoadKvRow(DType dtype, const std::byte* row, std::span<float> values) {
  float scale = 1;
  if (dtype == DType::kInt8) std::memcpy(&scale, row + values.size(), sizeof(scale));
  for (size_t i = 0; i < values.size(); ++i) {
    if (dtype == DType::kInt8) {
      values[i] = static_cast<float>(static_cast<int8_t>(row[i])) * scale;
    } else if (dtype == DType::kFp8) {
      values[i] = FloatFromE4m3(static_cast<uint8_t>(row[i]));
    } else {
      values[i] = LoadElement(row, dtype, static_cast<int64_t>(i));
    }
  }
}

}  // namespace baton::kernels
