// The part of QuantizedReader that reads blocks of GGUF.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <vector>

#include "common/base/check.h"
#include "common/formats/gguf/gguf_types.h"
#include "common/model/parallel_pieces.h"
#include "common/model/quantize/gguf_blocks.h"
#include "common/model/quantize/quantized_reader.h"
#include "common/model/weight_source.h"

namespace baton {
namespace {

constexpr int64_t kRowsOfUnpacking = 64;  // that a thread unpacks at a time
constexpr int kUnsignedHalf = 8;          // by which codes of four bits without a sign are lowered

// One range of rows, on its way into the joint form of the item.
struct BlockRange {
  const StoredTensor* tensor = nullptr;
  const GgufTensorType* type = nullptr;
  GgufForm form;
  int64_t begin = 0;  // rows of the tensor
  int64_t end = 0;
  int64_t cols = 0;
};

// Unpacks a row and repeats what a group of the type has for every group of the form that is in it.
// Returns whether all scales are finite.
bool UnpackInto(const BlockRange& range, int64_t row, const GgufRow& to, std::vector<float>& scales,
                std::vector<float>& minimums) {
  const GgufTensorType& type = *range.type;
  const int64_t row_bytes = range.cols / type.block * type.bytes;
  const std::byte* blocks = range.tensor->data.data() + range.tensor->StoredRow(row) * row_bytes;
  std::ranges::fill(minimums, 0.0f);
  UnpackGgufRow(type, blocks, range.cols, {to.codes, scales.data(), minimums.data()});
  const int64_t repeat = type.form.group / range.form.group;
  bool finite = true;
  for (int64_t group = 0; group < range.cols / range.form.group; ++group) {
    const auto from = static_cast<size_t>(group / repeat);
    to.scales[group] = scales[from];
    if (range.form.minimums) to.minimums[group] = minimums[from];
    finite = finite && std::isfinite(scales[from]) && std::isfinite(minimums[from]);
  }
  if (range.form.bits == 4 && range.form.minimums) {
    for (int64_t col = 0; col < range.cols; ++col) {
      to.codes[col] = static_cast<int8_t>(to.codes[col] - kUnsignedHalf);
    }
  }
  return finite;
}

// The integers of scales and minimums, for every group of the form. Those of types without minimums
// stay as they are.
void UnpackSteps(const BlockRange& range, const GgufSteps& to) {
  const GgufTensorType& type = *range.type;
  const int64_t groups = range.cols / range.form.group;
  const int64_t units = range.cols / range.form.unit;
  const int64_t repeat = type.form.group / range.form.group;
  const int64_t row_bytes = range.cols / type.block * type.bytes;
  std::vector<int8_t> scales(static_cast<size_t>(groups / repeat));
  std::vector<int8_t> minimums(scales.size());
  for (int64_t i = 0; i < range.end - range.begin; ++i) {
    const int64_t row = range.tensor->StoredRow(range.begin + i);
    UnpackGgufSteps(type, range.tensor->data.data() + row * row_bytes, range.cols,
                    {.scales = scales.data(),
                     .minimums = minimums.data(),
                     .scale_units = to.scale_units + i * units,
                     .minimum_units = to.minimum_units + i * units});
    for (int64_t group = 0; group < groups; ++group) {
      const auto from = static_cast<size_t>(group / repeat);
      to.scales[i * groups + group] = scales[from];
      if (type.form.minimums) to.minimums[i * groups + group] = minimums[from];
    }
  }
}

bool UnpackRange(const BlockRange& range, const GgufRow& to) {
  const int64_t groups = range.cols / range.form.group;
  const int64_t count = range.end - range.begin;
  std::atomic<bool> finite{true};
  ForEachPiece(
      static_cast<size_t>((count + kRowsOfUnpacking - 1) / kRowsOfUnpacking), [&](size_t piece) {
        std::vector<float> scales(static_cast<size_t>(range.cols / range.type->form.group));
        std::vector<float> minimums(scales.size());
        const int64_t first = static_cast<int64_t>(piece) * kRowsOfUnpacking;
        for (int64_t i = first; i < std::min(count, first + kRowsOfUnpacking); ++i) {
          const GgufRow row = {
              .codes = to.codes + i * range.cols,
              .scales = to.scales + i * groups,
              .minimums = range.form.minimums ? to.minimums + i * groups : nullptr};
          if (!UnpackInto(range, range.begin + i, row, scales, minimums)) finite = false;
        }
      });
  return finite;
}

}  // namespace

absl::StatusOr<kernels::QuantizedTensor> QuantizedReader::ReadGguf(const WeightItem& item) {
  std::vector<BlockRange> ranges;
  std::vector<const GgufTensorType*> types;
  for (const RowRange& rows : item.ranges) {
    const StoredTensor* tensor = files_.Find(rows.name);
    BATON_CHECK(tensor != nullptr) << rows.name << " passed CheckTensors";
    types.push_back(FindGgufType(tensor->dtype));
    ranges.push_back({.tensor = tensor,
                      .type = types.back(),
                      .begin = rows.begin,
                      .end = rows.end,
                      .cols = item.cols});
  }
  const GgufForm form = JoinForms(types);
  tensor_ = {.bits = form.bits, .rows = item.rows(), .cols = item.cols, .group = form.group};
  const int64_t groups = tensor_.groups();
  codes_.resize(static_cast<size_t>(tensor_.rows * tensor_.cols));
  scales_.resize(static_cast<size_t>(tensor_.rows * groups));
  minimums_.resize(form.minimums ? scales_.size() : 0);
  const int64_t units = form.unit > 0 ? item.cols / form.unit : 0;  // of a row
  for (Steps* steps : {&scale_steps_, &minimum_steps_}) {
    steps->steps.assign(form.unit > 0 ? scales_.size() : 0, 0);
    steps->units.assign(static_cast<size_t>(tensor_.rows * units), 0);
  }
  int64_t row = 0;
  for (BlockRange& range : ranges) {
    range.form = form;
    const GgufRow to = {.codes = codes_.data() + row * item.cols,
                        .scales = scales_.data() + row * groups,
                        .minimums = form.minimums ? minimums_.data() + row * groups : nullptr};
    if (!UnpackRange(range, to)) return NoFiniteScale(*range.tensor);
    if (form.unit > 0) {
      UnpackSteps(range, {.scales = scale_steps_.steps.data() + row * groups,
                          .minimums = minimum_steps_.steps.data() + row * groups,
                          .scale_units = scale_steps_.units.data() + row * units,
                          .minimum_units = minimum_steps_.units.data() + row * units});
    }
    row += range.end - range.begin;
  }
  tensor_.codes = codes_.data();
  tensor_.scales = scales_.data();
  tensor_.scale_dtype = form.scale_bytes == 2 ? kernels::DType::kF16 : kernels::DType::kF32;
  if (form.unit > 0) {
    tensor_.unit_groups = form.unit / form.group;
    tensor_.scale_steps = {scale_steps_.steps.data(), scale_steps_.units.data()};
    tensor_.minimum_steps = {minimum_steps_.steps.data(), minimum_steps_.units.data()};
  }
  if (form.minimums) {
    tensor_.minimums = minimums_.data();
    if (form.bits == 4) tensor_.zero_point = -kUnsignedHalf;
  }
  return tensor_;
}

}  // namespace baton
