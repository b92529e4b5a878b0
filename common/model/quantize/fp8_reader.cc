#include "common/model/quantize/fp8_reader.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "common/model/parallel_pieces.h"
#include "common/model/quantize/quantized_parts.h"
#include "common/model/tensor_slices.h"
#include "common/model/tensor_specs.h"
#include "common/model/weight_source.h"
#include "kernels/float_convert.h"

namespace baton {
namespace {

using kernels::DType;

constexpr int64_t kRowsOfReading = 64;  // that a thread reads at a time

bool IsNan(uint8_t code) { return (code & 0x7f) == 0x7f; }

absl::Status NoNumber(const StoredTensor& codes) {
  return absl::InvalidArgumentError(
      absl::StrCat("tensor ", codes.name, " holds a NaN; expected numbers of e4m3 alone: download ",
                   "the checkpoint again"));
}

}  // namespace

absl::StatusOr<std::vector<float>> ReadScales(const StoredTensor& tensor) {
  BATON_ASSIGN_OR_RETURN(const DType dtype, TensorDType(tensor));
  std::vector<float> scales(tensor.data.size() / SizeOf(dtype));
  CopyToFloats(tensor.data.data(), dtype, scales);
  const auto wrong =
      std::ranges::find_if(scales, [](float scale) { return !std::isfinite(scale) || scale <= 0; });
  if (wrong == scales.end()) return scales;
  return absl::InvalidArgumentError(
      absl::StrCat("tensor ", tensor.name, " holds the scale ", *wrong,
                   "; expected finite numbers above 0: download the checkpoint again"));
}

// A range of rows and its scales, one for each block.
struct Fp8Reader::Parts {
  const StoredTensor* codes = nullptr;
  std::vector<float> scales;
  int64_t block_rows = 1;  // rows that share scales
  int64_t block_cols = 1;  // columns that share one
  int64_t blocks = 1;      // of a row
  float input_scale = 0;

  const uint8_t* Row(int64_t row, int64_t cols) const {
    return reinterpret_cast<const uint8_t*>(codes->data.data()) + row * cols;
  }
  const float* ScalesOf(int64_t row) const { return scales.data() + row / block_rows * blocks; }
};

absl::StatusOr<Fp8Reader::Parts> Fp8Reader::PartsOf(const WeightItem& item, size_t range) const {
  const QuantizationConfig& quantization = *config_.quantization;
  const PartNames names = PartNames::Of(quantization.format, item.ranges[range].name);
  Parts parts = {.codes = files_.Find(names.codes)};
  const StoredTensor* const scales = files_.Find(names.scales);
  BATON_CHECK(parts.codes != nullptr && scales != nullptr) << names.codes << " passed CheckTensors";
  BATON_ASSIGN_OR_RETURN(parts.scales, ReadScales(*scales));
  const int64_t rows = parts.codes->shape[0];
  parts.block_cols = item.cols;
  if (quantization.block_rows > 0) {
    parts.block_rows = quantization.block_rows;
    parts.block_cols = quantization.block_cols;
    parts.blocks = (item.cols + parts.block_cols - 1) / parts.block_cols;
  } else if (parts.scales.size() == 1) {
    parts.block_rows = rows;
  }
  if (const StoredTensor* const input = files_.Find(names.input_scale)) {
    BATON_ASSIGN_OR_RETURN(const std::vector<float> scale, ReadScales(*input));
    parts.input_scale = scale.front();
  }
  return parts;
}

absl::Status Fp8Reader::WriteValues(const WeightItem& item, DType dtype, std::byte* out) const {
  const size_t row_bytes = static_cast<size_t>(item.cols) * SizeOf(dtype);
  for (size_t range = 0; range < item.ranges.size(); ++range) {
    BATON_ASSIGN_OR_RETURN(const Parts parts, PartsOf(item, range));
    const int64_t begin = item.ranges[range].begin;
    const int64_t count = item.ranges[range].end - begin;
    std::atomic<bool> numbers{true};
    const int64_t pieces = (count + kRowsOfReading - 1) / kRowsOfReading;
    ForEachPiece(static_cast<size_t>(pieces), [&](size_t piece) {
      std::vector<float> values(static_cast<size_t>(item.cols));
      const int64_t first = static_cast<int64_t>(piece) * kRowsOfReading;
      for (int64_t i = first; i < std::min(count, first + kRowsOfReading); ++i) {
        const uint8_t* const codes = parts.Row(begin + i, item.cols);
        const float* const scales = parts.ScalesOf(begin + i);
        for (int64_t col = 0; col < item.cols; ++col) {
          if (IsNan(codes[col])) numbers = false;
          values[static_cast<size_t>(col)] =
              kernels::FloatFromE4m3(codes[col]) * scales[col / parts.block_cols];
        }
        CopyFromFloats(values, dtype, out + static_cast<size_t>(i) * row_bytes);
      }
    });
    if (!numbers) return NoNumber(*parts.codes);
    out += static_cast<size_t>(count) * row_bytes;
  }
  return absl::OkStatus();
}

absl::StatusOr<kernels::HostTensor> Fp8Reader::Codes(const WeightItem& item) {
  BATON_CHECK(config_.quantization->fp8_by_row()) << item.name;
  kernels::HostTensor tensor = {.dtype = DType::kFp8, .rows = item.rows(), .cols = item.cols};
  const bool joined = item.ranges.size() > 1;
  if (joined) codes_.resize(static_cast<size_t>(tensor.rows * tensor.cols));
  scales_.clear();
  for (size_t range = 0; range < item.ranges.size(); ++range) {
    BATON_ASSIGN_OR_RETURN(const Parts parts, PartsOf(item, range));
    const RowRange& rows = item.ranges[range];
    const int64_t count = rows.end - rows.begin;
    const uint8_t* const from = parts.Row(rows.begin, item.cols);
    uint8_t* const to = codes_.data() + std::ssize(scales_) * item.cols;
    std::atomic<bool> numbers{true};
    const int64_t pieces = (count + kRowsOfReading - 1) / kRowsOfReading;
    ForEachPiece(static_cast<size_t>(pieces), [&](size_t piece) {
      const int64_t first = static_cast<int64_t>(piece) * kRowsOfReading;
      const int64_t begin = first * item.cols;
      const int64_t end = std::min(count, first + kRowsOfReading) * item.cols;
      if (std::any_of(from + begin, from + end, IsNan)) numbers = false;
      if (joined) std::copy(from + begin, from + end, to + begin);
    });
    if (!numbers) return NoNumber(*parts.codes);
    for (int64_t row = rows.begin; row < rows.end; ++row) {
      scales_.push_back(*parts.ScalesOf(row));
    }
    tensor.data = joined ? codes_.data() : from;
    tensor.input_scale = std::max(tensor.input_scale, parts.input_scale);
  }
  tensor.row_scales = scales_.data();
  return tensor;
}

}  // namespace baton
