#include "kernels/cuda/gemm/quantized_image.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <thread>
#include <vector>

#include "common/base/status.h"
#include "kernels/float_convert.h"

namespace baton::kernels::cuda {
namespace {

constexpr size_t kAlignment = 16;
constexpr int64_t kMaxThreads = 8;
constexpr int64_t kRowsOfThread = 64;  // fewer are not worth one

template <typename T>
const T* Address(const void* base, size_t offset) {
  return offset == 0 ? nullptr
                     : reinterpret_cast<const T*>(static_cast<const std::byte*>(base) + offset);
}

// Writes the scale of a group as it is stored, which is exact.
void StoreScale(float scale, DType dtype, void* to, int64_t at) {
  if (dtype == DType::kF16) {
    static_cast<uint16_t*>(to)[at] = F16FromFloat(scale);
  } else {
    StoreElement(to, dtype, at, scale);
  }
}

// Writes the codes of columns [begin, begin + count) of a row into run `run` of a word.
void FillRun(const int8_t* codes, int64_t count, int bits, int run, CodeWord& word) {
  for (int64_t i = 0; i < count; ++i) {
    const auto code = static_cast<uint32_t>(codes[i] + CodeOffset(bits));
    const int64_t at = run * kRunColumns + i;  // in the word
    const int64_t per_number = 32 / bits;
    word.at[at / per_number] |= code << (at % per_number * bits);
  }
}

}  // namespace

absl::StatusOr<QuantizedPlaces> QuantizedPlaces::Of(const QuantizedTensor& weight,
                                                    const Shard& part) {
  BATON_ASSIGN_OR_RETURN(const int64_t group, GroupOfShard(weight, part));
  QuantizedPlaces places;
  QuantizedView& shape = places.shape_;
  const int64_t columns = RunsOfWord(weight.bits) * kRunColumns;
  shape.bits = weight.bits;
  shape.out = part.out_end - part.out_begin;
  shape.in = part.in_end - part.in_begin;
  shape.words = (shape.in + columns - 1) / columns;
  shape.groups = (shape.in + group - 1) / group;
  shape.group_shift = std::countr_zero(static_cast<uint64_t>(group));
  shape.scale_dtype = weight.scale_dtype;
  shape.offset = weight.zero_point + CodeOffset(weight.bits);
  const auto place = [&places](int64_t count, size_t size) {
    const size_t offset = places.bytes_;
    const size_t end = offset + static_cast<size_t>(count) * size;
    places.bytes_ = (end + kAlignment - 1) / kAlignment * kAlignment;
    return offset;
  };
  const int64_t groups = shape.out * shape.groups;
  place(shape.out * shape.words, sizeof(CodeWord));
  places.scales_ = place(groups, SizeOf(weight.scale_dtype));
  if (weight.zero_points != nullptr) places.zero_points_ = place(groups, sizeof(int16_t));
  if (weight.minimums != nullptr) places.minimums_ = place(groups, sizeof(float));
  if (weight.input_of != nullptr) places.input_of_ = place(shape.in, sizeof(int32_t));
  return places;
}

QuantizedView QuantizedPlaces::At(const void* base) const {
  QuantizedView view = shape_;
  view.codes = static_cast<const CodeWord*>(base);
  view.scales = Address<std::byte>(base, scales_);
  view.zero_points = Address<int16_t>(base, zero_points_);
  view.minimums = Address<float>(base, minimums_);
  view.input_of = Address<int32_t>(base, input_of_);
  return view;
}

void QuantizedPlaces::FillRow(const QuantizedTensor& weight, const Shard& part, int64_t row,
                              std::byte* base) const {
  const int64_t from_row = part.out_begin + row;
  const int8_t* const codes = weight.codes + from_row * weight.cols + part.in_begin;
  // What stands for 0 in the columns that fill the last word does not matter.
  auto* const words = reinterpret_cast<CodeWord*>(base) + row * shape_.words;
  std::memset(words, 0, static_cast<size_t>(shape_.words) * sizeof(CodeWord));
  for (int64_t word = 0; word < shape_.words; ++word) {
    for (int run = 0; run < RunsOfWord(shape_.bits); ++run) {
      const int64_t column = ColumnOfRun(shape_, word, run);
      if (column >= shape_.in) continue;  // a run that only fills the word has no codes to read
      const int64_t count = std::min<int64_t>(shape_.in - column, kRunColumns);
      FillRun(codes + column, count, shape_.bits, run, words[word]);
    }
  }
  for (int64_t group = 0; group < shape_.groups; ++group) {
    const int64_t column = part.in_begin + (group << shape_.group_shift);
    const int64_t from = from_row * weight.groups() + column / weight.group;
    const int64_t to = row * shape_.groups + group;
    StoreScale(weight.scales[from], shape_.scale_dtype, base + scales_, to);
    if (zero_points_ != 0) {
      reinterpret_cast<int16_t*>(base + zero_points_)[to] =
          static_cast<int16_t>(weight.zero_points[from] + CodeOffset(shape_.bits));
    }
    if (minimums_ != 0) reinterpret_cast<float*>(base + minimums_)[to] = weight.minimums[from];
  }
}

void QuantizedPlaces::Fill(const QuantizedTensor& weight, const Shard& part,
                           std::byte* base) const {
  const auto fill = [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) FillRow(weight, part, row, base);
  };
  const auto cores = static_cast<int64_t>(std::thread::hardware_concurrency());
  const int64_t threads =
      std::clamp<int64_t>(std::min(cores, shape_.out / kRowsOfThread), 1, kMaxThreads);
  const int64_t rows = (shape_.out + threads - 1) / threads;
  std::vector<std::thread> others;
  for (int64_t begin = rows; begin < shape_.out; begin += rows) {
    others.emplace_back(fill, begin, std::min(begin + rows, shape_.out));
  }
  fill(0, std::min(rows, shape_.out));
  for (std::thread& other : others) other.join();
  if (input_of_ != 0) {
    std::memcpy(base + input_of_, weight.input_of,
                static_cast<size_t>(shape_.in) * sizeof(int32_t));
  }
}

}  // namespace baton::kernels::cuda
