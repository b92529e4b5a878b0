#include "common/model/quantize/fp8_reader.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
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
bool IsNotZero(uint8_t code) { return (code & 0x7f) != 0; }

// Where a tensor has its element `index`, as in " at [3, 0]"; nothing for one of one element.
std::string Place(const StoredTensor& tensor, int64_t index) {
  std::vector<int64_t> place(tensor.shape.size());
  int64_t elements = 1;
  for (size_t i = place.size(); i-- > 0;) {
    place[i] = index / elements % tensor.shape[i];
    elements *= tensor.shape[i];
  }
  return elements == 1 ? "" : absl::StrCat(" at [", absl::StrJoin(place, ", "), "]");
}

absl::Status NoNumber(const StoredTensor& codes) {
  return absl::InvalidArgumentError(
      absl::StrCat("tensor ", codes.name, " holds a NaN; expected numbers of e4m3 alone: download ",
                   "the checkpoint again"));
}

}  // namespace

bool MayStayFp8(const ModelConfig& config, kernels::DType compute_dtype) {
  return config.quantization.has_value() && config.quantization->fp8_products() &&
         SizeOf(compute_dtype) == 2;
}

absl::StatusOr<std::vector<float>> ReadScales(const StoredTensor& tensor, bool zeros) {
  BATON_ASSIGN_OR_RETURN(const DType dtype, TensorDType(tensor));
  std::vector<float> scales(tensor.data.size() / SizeOf(dtype));
  CopyToFloats(tensor.data.data(), dtype, scales);
  const auto wrong = std::ranges::find_if(scales, [&](float scale) {
    return !std::isfinite(scale) || scale < 0 || (scale == 0 && !zeros);
  });
  if (wrong == scales.end()) return scales;
  return absl::InvalidArgumentError(absl::StrCat("tensor ", tensor.name, " holds the scale ",
                                                 *wrong, Place(tensor, wrong - scales.begin()),
                                                 "; expected finite numbers above 0"));
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
  absl::Status CheckZeros(const StoredTensor& tensor) const;
};

// A scale of 0 is that of weights which are all 0, as some tools write it.
absl::Status Fp8Reader::Parts::CheckZeros(const StoredTensor& tensor) const {
  const int64_t rows = codes->shape[0];
  const int64_t cols = codes->shape[1];
  for (int64_t i = 0; i < std::ssize(scales); ++i) {
    if (scales[static_cast<size_t>(i)] != 0) continue;
    const int64_t first = i / blocks * block_rows;
    const int64_t from = i % blocks * block_cols;
    const int64_t count = std::min(block_cols, cols - from);
    for (int64_t row = first; row < std::min(rows, first + block_rows); ++row) {
      const uint8_t* const begin = Row(row, cols) + from;
      if (std::none_of(begin, begin + count, IsNotZero)) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("tensor ", tensor.name, " holds the scale 0", Place(tensor, i),
                       " for weights that are not all 0; expected finite numbers above 0"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Fp8Reader::Parts> Fp8Reader::PartsOf(const WeightItem& item, size_t range) const {
  const QuantizationConfig& quantization = *config_.quantization;
  const PartNames names = PartNames::Of(quantization.format, item.ranges[range].name);
  Parts parts = {.codes = files_.Find(names.codes)};
  const StoredTensor* const scales = files_.Find(names.scales);
  BATON_CHECK(parts.codes != nullptr && scales != nullptr) << names.codes << " passed CheckTensors";
  BATON_ASSIGN_OR_RETURN(parts.scales, ReadScales(*scales, /*zeros=*/true));
  const int64_t rows = parts.codes->shape[0];
  parts.block_cols = item.cols;
  if (quantization.block_rows > 0) {
    parts.block_rows = quantization.block_rows;
    parts.block_cols = quantization.block_cols;
    parts.blocks = (item.cols + parts.block_cols - 1) / parts.block_cols;
  } else if (parts.scales.size() == 1) {
    parts.block_rows = rows;
  }
  BATON_RETURN_IF_ERROR(parts.CheckZeros(*scales));
  // Some tools leave one behind where each row finds its own.
  if (!quantization.static_inputs) return parts;
  const StoredTensor* const input = files_.Find(names.input_scale);
  BATON_CHECK(input != nullptr) << names.input_scale << " passed CheckTensors";
  BATON_ASSIGN_OR_RETURN(const std::vector<float> scale, ReadScales(*input));
  parts.input_scale = scale.front();
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
        for (int64_t block = 0; block < parts.blocks; ++block) {
          const int64_t behind = std::min(item.cols, (block + 1) * parts.block_cols);
          for (int64_t col = block * parts.block_cols; col < behind; ++col) {
            values[static_cast<size_t>(col)] = kernels::FloatFromE4m3(codes[col]) * scales[block];
          }
        }
        if (std::any_of(codes, codes + item.cols, IsNan)) numbers = false;
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
