#include "common/model/quantize/quantized_reader.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <numeric>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "common/model/parallel_pieces.h"
#include "common/model/quantize/quantized_layouts.h"
#include "common/model/quantize/quantized_parts.h"
#include "common/model/tensor_slices.h"
#include "common/model/weight_source.h"

namespace baton {
namespace {

using kernels::DType;
using Format = QuantizationConfig::Format;

constexpr int64_t kRowsOfPiece = 64;  // that a thread unpacks at a time

float FloatAt(const StoredTensor& tensor, DType dtype, int64_t index) {
  float value = 0;
  CopyToFloats(tensor.data.data() + index * static_cast<int64_t>(SizeOf(dtype)), dtype,
               std::span(&value, 1));
  return value;
}

int32_t GroupAt(const StoredTensor& group_of, int64_t col) {
  int32_t group = 0;
  std::memcpy(&group, group_of.data.data() + col * 4, sizeof(group));
  return group;
}

// The stored parts of one projection.
struct Parts {
  const StoredTensor* codes = nullptr;
  const StoredTensor* scales = nullptr;
  const StoredTensor* zero_points = nullptr;  // null where the format has none
};

Parts PartsIn(const CheckpointFiles& files, const QuantizationConfig& quantization,
              const std::string& weight) {
  const PartNames names = PartNames::Of(quantization.format, weight);
  const Parts parts = {
      .codes = files.Find(names.codes),
      .scales = files.Find(names.scales),
      .zero_points = quantization.symmetric ? nullptr : files.Find(names.zero_points)};
  BATON_CHECK(parts.codes != nullptr && parts.scales != nullptr)
      << weight << " passed CheckTensors";
  return parts;
}

// Bytes may hold more than the integers of 4 bits that the checkpoint speaks of.
absl::Status CheckFourBits(const StoredTensor& stored, std::span<const int8_t> codes) {
  const auto found = std::ranges::find_if(codes, [](int code) { return code < -8 || code > 7; });
  if (found == codes.end()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "tensor ", stored.name, " holds the integer ", int{*found},
      "; expected -8 to 7, as num_bits is 4: download the checkpoint again, or quantize "
      "the model with num_bits 8"));
}

}  // namespace

absl::StatusOr<std::vector<int32_t>> QuantizedReader::OrderOf(const std::string& weight,
                                                              int64_t cols) const {
  const QuantizationConfig& quantization = config_.quantization->KindOf(weight);
  const StoredTensor* group_of = files_.Find(PartNames::Of(quantization.format, weight).group_of);
  if (group_of == nullptr || quantization.group == 0) return std::vector<int32_t>();
  const int64_t groups = (cols + quantization.group - 1) / quantization.group;
  std::vector<int64_t> counts(static_cast<size_t>(groups));
  bool in_order = true;
  for (int64_t col = 0; col < cols; ++col) {
    const int32_t group = GroupAt(*group_of, col);
    if (group < 0 || group >= groups) {
      return absl::InvalidArgumentError(absl::StrCat("tensor ", group_of->name, " places column ",
                                                     col, " in group ", group, " of ", groups,
                                                     "; download the checkpoint again"));
    }
    ++counts[static_cast<size_t>(group)];
    in_order = in_order && group == col / quantization.group;
  }
  if (in_order) return std::vector<int32_t>();
  for (int64_t group = 0; group < groups; ++group) {
    const int64_t size = std::min(quantization.group, cols - group * quantization.group);
    if (counts[static_cast<size_t>(group)] == size) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "tensor ", group_of->name, " places ", counts[static_cast<size_t>(group)],
        " columns in group ", group, "; expected ", size, ": quantize the model with even groups"));
  }
  std::vector<int32_t> order(static_cast<size_t>(cols));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return GroupAt(*group_of, a) < GroupAt(*group_of, b);
  });
  return order;
}

absl::Status QuantizedReader::ReadRange(const WeightItem& item, size_t range, int64_t to_row) {
  const RowRange& rows = item.ranges[range];
  const QuantizationConfig& quantization = config_.quantization->KindOf(rows.name);
  const Parts parts = PartsIn(files_, quantization, rows.name);
  BATON_ASSIGN_OR_RETURN(const DType scale_dtype, TensorDType(*parts.scales));
  tensor_.scale_dtype = scale_dtype;
  const StoredIntegers codes = StoredIntegers::Codes(quantization, *parts.codes);
  const bool by_row =
      quantization.format == Format::kPackQuantized || quantization.format == Format::kIntQuantized;
  const int64_t groups = tensor_.groups();
  const int64_t out = by_row ? parts.scales->shape[0] : parts.scales->shape[1];
  const int64_t count = rows.end - rows.begin;
  std::atomic<bool> finite{true};
  ForEachPiece(static_cast<size_t>((count + kRowsOfPiece - 1) / kRowsOfPiece), [&](size_t piece) {
    std::vector<int8_t> zeros(static_cast<size_t>(groups));
    const int64_t first = static_cast<int64_t>(piece) * kRowsOfPiece;
    for (int64_t i = first; i < std::min(count, first + kRowsOfPiece); ++i) {
      const int64_t row = rows.begin + i;
      codes.Row(row, item.cols, order_.empty() ? nullptr : order_.data(),
                codes_.data() + (to_row + i) * item.cols);
      const int64_t to = (to_row + i) * groups;
      for (int64_t g = 0; g < groups; ++g) {
        const int64_t index = by_row ? row * groups + g : g * out + row;
        scales_[static_cast<size_t>(to + g)] = FloatAt(*parts.scales, scale_dtype, index);
        if (!std::isfinite(scales_[static_cast<size_t>(to + g)])) finite = false;
      }
      if (parts.zero_points == nullptr) continue;
      StoredIntegers::ZeroPoints(quantization, *parts.zero_points)
          .Row(row, groups, nullptr, zeros.data());
      std::copy(zeros.begin(), zeros.end(), zero_points_.begin() + to);
    }
  });
  if (!finite) {
    return absl::InvalidArgumentError(
        absl::StrCat("tensor ", parts.scales->name,
                     " holds a scale that is no finite number; download the checkpoint again"));
  }
  if (quantization.format != Format::kIntQuantized || quantization.bits == 8) {
    return absl::OkStatus();
  }
  return CheckFourBits(*parts.codes,
                       std::span(codes_).subspan(static_cast<size_t>(to_row * item.cols),
                                                 static_cast<size_t>(count * item.cols)));
}

absl::StatusOr<kernels::QuantizedTensor> QuantizedReader::Read(const WeightItem& item) {
  const QuantizationConfig& quantization = config_.quantization->KindOf(item.ranges.front().name);
  if (quantization.format == Format::kGguf) return ReadGguf(item);
  tensor_ = {.bits = quantization.bits,
             .rows = item.rows(),
             .cols = item.cols,
             .group = quantization.group > 0 ? quantization.group : item.cols};
  codes_.resize(static_cast<size_t>(tensor_.rows * tensor_.cols));
  scales_.resize(static_cast<size_t>(tensor_.rows * tensor_.groups()));
  zero_points_.assign(scales_.size(), 0);
  BATON_ASSIGN_OR_RETURN(order_, OrderOf(item.ranges.front().name, item.cols));
  DType scale_dtype = DType::kF32;
  int64_t row = 0;
  for (size_t range = 0; range < item.ranges.size(); ++range) {
    const std::string& name = item.ranges[range].name;
    const QuantizationConfig& kind = config_.quantization->KindOf(name);
    if (kind.bits != quantization.bits || kind.group != quantization.group) {
      return absl::InvalidArgumentError(
          absl::StrCat(item.ranges.front().name, " (", quantization.name(), ") and ", name, " (",
                       kind.name(), ") are used as one; expected one kind for both"));
    }
    BATON_ASSIGN_OR_RETURN(const std::vector<int32_t> order, OrderOf(name, item.cols));
    if (order != order_) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the columns of ", item.ranges.front().name, " and ", name,
          " are used as one and lie in different orders; quantize the model without desc_act"));
    }
    BATON_RETURN_IF_ERROR(ReadRange(item, range, row));
    const DType stored = tensor_.scale_dtype;
    scale_dtype = range == 0 || stored == scale_dtype ? stored : DType::kF32;
    row += item.ranges[range].end - item.ranges[range].begin;
  }
  tensor_.scale_dtype = scale_dtype;
  tensor_.codes = codes_.data();
  tensor_.scales = scales_.data();
  // Formats that always store zero points store those of symmetric weights as well.
  const bool zeros =
      std::any_of(zero_points_.begin(), zero_points_.end(), [](int16_t zero) { return zero != 0; });
  if (zeros) tensor_.zero_points = zero_points_.data();
  if (!order_.empty()) tensor_.input_of = order_.data();
  return tensor_;
}

}  // namespace baton
