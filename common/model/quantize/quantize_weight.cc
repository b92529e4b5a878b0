#include "common/model/quantize/quantize_weight.h"

#include <atomic>
#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/status.h"
#include "common/model/parallel_pieces.h"
#include "common/model/tensor_slices.h"
#include "common/model/tensor_specs.h"
#include "kernels/float_convert.h"

namespace baton {
namespace {

constexpr int64_t kRowsOfTask = 32;  // that a thread rounds at a time

// Adds the integers of a row to words that are zero, the first in the lowest bits, without a sign:
// the smallest integer is 0.
void PackCodes(std::span<const int8_t> codes, int bits, std::byte* words) {
  const int per_word = 32 / bits;
  const int half = 1 << (bits - 1);
  for (size_t i = 0; i < codes.size(); ++i) {
    const auto place = static_cast<int>(i % static_cast<size_t>(per_word)) * bits;
    const auto code = static_cast<uint32_t>(codes[i] + half) << place;
    uint32_t word = 0;
    std::byte* const at = words + i / static_cast<size_t>(per_word) * 4;
    std::memcpy(&word, at, sizeof(word));
    word |= code;
    std::memcpy(at, &word, sizeof(word));
  }
}

struct RowErrors {
  double squared_error = 0;
  double squared_weights = 0;
  bool finite = true;
};

// Rounds one row of finite weights to `codes` and its scale.
RowErrors RoundRowToFp8(std::span<const float> row, std::byte* codes, std::byte* scale) {
  RowErrors errors;
  std::vector<uint8_t> rounded(row.size());
  const float of_row = RoundFp8Row(row, rounded);
  std::memcpy(codes, rounded.data(), rounded.size());
  std::memcpy(scale, &of_row, sizeof(of_row));
  for (size_t i = 0; i < row.size(); ++i) {
    const double error = row[i] - kernels::FloatFromE4m3(rounded[i]) * of_row;
    errors.squared_error += error * error;
    errors.squared_weights += double{row[i]} * row[i];
  }
  return errors;
}

// Rounds one row to `codes` and `scales`.
RowErrors RoundRow(std::span<const float> row, const RoundingScheme& scheme, std::byte* codes,
                   std::byte* scales) {
  RowErrors errors;
  std::vector<int8_t> integers(row.size());
  for (const float weight : row) errors.finite = errors.finite && std::isfinite(weight);
  if (!errors.finite) return errors;
  if (scheme.fp8) return RoundRowToFp8(row, codes, scales);
  const auto group = static_cast<size_t>(scheme.group);
  for (size_t begin = 0; begin < row.size(); begin += group) {
    const auto weights = row.subspan(begin, group);
    const float scale = RoundGroup(weights, scheme, std::span(integers).subspan(begin, group));
    const uint16_t bits = kernels::Bf16FromFloat(scale);
    std::memcpy(scales + begin / group * 2, &bits, sizeof(bits));
    for (size_t i = 0; i < group; ++i) {
      const double error = weights[i] - static_cast<float>(integers[begin + i]) * scale;
      errors.squared_error += error * error;
      errors.squared_weights += double{weights[i]} * weights[i];
    }
  }
  PackCodes(integers, scheme.bits, codes);
  return errors;
}

}  // namespace

std::vector<TensorToWrite> PackedTensors(const StoredTensor& weight, const RoundingScheme& scheme) {
  const std::string module(absl::StripSuffix(weight.name, ".weight"));
  const int64_t out = weight.shape[0];
  const int64_t in = weight.shape[1];
  if (scheme.fp8) {
    return {{weight.name, "F8_E4M3", {out, in}, out * in},
            {module + ".weight_scale", "F32", {out, 1}, out * 4}};
  }
  const int64_t words = in * scheme.bits / 32;
  const int64_t groups = in / scheme.group;
  return {{module + ".weight_packed", "I32", {out, words}, out * words * 4},
          {module + ".weight_scale", "BF16", {out, groups}, out * groups * 2},
          {module + ".weight_shape", "I64", {2}, 16}};
}

absl::StatusOr<PackedProjection> PackProjection(const StoredTensor& weight,
                                                const RoundingScheme& scheme) {
  BATON_ASSIGN_OR_RETURN(const kernels::DType dtype, TensorDType(weight));
  const int64_t out = weight.shape[0];
  const int64_t in = weight.shape[1];
  const int64_t code_bytes = scheme.fp8 ? in : in * scheme.bits / 8;
  const int64_t scale_bytes = scheme.fp8 ? 4 : in / scheme.group * 2;
  PackedProjection packed;
  packed.codes.resize(static_cast<size_t>(out * code_bytes));
  packed.scales.resize(static_cast<size_t>(out * scale_bytes));
  std::vector<RowErrors> errors(static_cast<size_t>(out));
  const int64_t tasks = (out + kRowsOfTask - 1) / kRowsOfTask;
  ForEachPiece(static_cast<size_t>(tasks), [&](size_t task) {
    std::vector<float> row(static_cast<size_t>(in));
    const int64_t first = static_cast<int64_t>(task) * kRowsOfTask;
    for (int64_t i = first; i < std::min(out, first + kRowsOfTask); ++i) {
      CopyToFloats(weight.data.data() + i * in * static_cast<int64_t>(SizeOf(dtype)), dtype, row);
      errors[static_cast<size_t>(i)] = RoundRow(row, scheme, packed.codes.data() + i * code_bytes,
                                                packed.scales.data() + i * scale_bytes);
    }
  });
  for (const RowErrors& row : errors) {
    if (!row.finite) {
      return absl::InvalidArgumentError(
          absl::StrCat("tensor ", weight.name,
                       " holds a weight that is no finite number; download the model again"));
    }
    packed.squared_error += row.squared_error;
    packed.squared_weights += row.squared_weights;
  }
  return packed;
}

}  // namespace baton
