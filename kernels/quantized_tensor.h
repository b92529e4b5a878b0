#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "kernels/dtype.h"

namespace baton::kernels {

// The numbers of groups as small integers times a unit in fp16 that neighbouring groups share.
struct GroupSteps {
  const int8_t* steps = nullptr;    // [rows, groups]
  const uint16_t* units = nullptr;  // [rows, groups / unit_groups]
};

// A view of a projection [rows, cols] of small integers in host memory, which it does not own. The
// columns of a row are divided into groups with a scale each; with g = column / group, an element
// stands for (codes[row][column] - zero_points[row][g]) * scales[row][g] - minimums[row][g].
struct QuantizedTensor {
  int bits = 8;       // 4: codes lie in [-8, 7]; 8: in [-128, 127]
  int64_t rows = 0;   // [out]
  int64_t cols = 0;   // [in]
  int64_t group = 0;  // columns that share a scale; the last group of a row may be shorter
  const int8_t* codes = nullptr;         // [rows, cols], one to a byte
  const float* scales = nullptr;         // [rows, groups]
  const int16_t* zero_points = nullptr;  // [rows, groups]; null: all are zero_point
  int16_t zero_point = 0;
  const float* minimums = nullptr;  // [rows, groups]; null for zeros
  DType scale_dtype = DType::kF32;  // a type that holds every scale and minimum exactly
  // With unit_groups, which divide a row's groups, the same scales and minimums are also there as
  // steps times units, exactly. A backend keeps one of both.
  int64_t unit_groups = 0;
  GroupSteps scale_steps;
  GroupSteps minimum_steps;  // where there are minimums
  // The element of the input that a column is multiplied with; null: the one of its own number.
  const int32_t* input_of = nullptr;  // [cols]

  int64_t groups() const { return (cols + group - 1) / group; }
  float at(int64_t row, int64_t col) const {
    const int64_t index = row * groups() + col / group;
    const int zero = zero_points != nullptr ? zero_points[index] : zero_point;
    const float value = static_cast<float>(codes[row * cols + col] - zero) * scales[index];
    return minimums != nullptr ? value - minimums[index] : value;
  }
};

// Returns `shard` with its -1 ends replaced by the size of `weight`. INVALID_ARGUMENT for a weight
// whose sizes are not those of one, for a shard outside it, and for a part of the columns of a
// weight that takes its input in another order.
absl::StatusOr<Shard> ResolveShard(const QuantizedTensor& weight, const Shard& shard);

// The largest number of columns that share a scale and divide the groups of `weight` and the part
// of its columns: what a kernel takes for a group. It is a multiple of kGroupStep and at most
// kMostGroup. INVALID_ARGUMENT, with the sizes, where a border of the part lies inside a group and
// not on a multiple of kGroupStep.
inline constexpr int64_t kGroupStep = 16;
inline constexpr int64_t kMostGroup = 128;
absl::StatusOr<int64_t> GroupOfShard(const QuantizedTensor& weight, const Shard& part);

// How many columns of a group of so many share a scale of their inputs, where inputs are rounded to
// 8 bits: see InputScale.
constexpr int64_t InputBlock(int64_t group) { return group < 32 ? group : 32; }

}  // namespace baton::kernels
