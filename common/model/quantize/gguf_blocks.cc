// Blocks as ggml-common.h of llama.cpp lays them out. d and m are fp16.
#include "common/model/quantize/gguf_blocks.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "common/model/parallel_pieces.h"
#include "common/model/tensor_slices.h"
#include "common/model/tensor_specs.h"
#include "kernels/float_convert.h"

namespace baton {
namespace {

using kernels::DType;

constexpr int64_t kGgufRowsOfPiece = 64;  // that a thread unpacks at a time
constexpr int64_t kSmallBlock = 32;
constexpr int64_t kSuperBlock = 256;
constexpr int64_t kScalesOfK6 = 192;  // where they begin in a block
constexpr int64_t kUnitOfK6 = 208;

int Byte(const std::byte* at) { return std::to_integer<int>(*at); }

uint16_t HalfBits(const std::byte* at) {
  uint16_t bits = 0;
  std::memcpy(&bits, at, sizeof(bits));
  return bits;
}
float Half(const std::byte* at) { return kernels::FloatFromF16(HalfBits(at)); }

uint32_t Word(const std::byte* at) {
  uint32_t bits = 0;
  std::memcpy(&bits, at, sizeof(bits));
  return bits;
}

// Four bits of 32 elements: the low ones of byte i are element i, the high ones element i + 16.
int Nibble(const std::byte* bytes, int64_t i) {
  return i < 16 ? Byte(bytes + i) & 0xf : Byte(bytes + i - 16) >> 4;
}

// [d][32 bytes with a sign]
void UnpackQ8(const std::byte* block, const GgufRow& to) {
  to.scales[0] = Half(block);
  std::memcpy(to.codes, block + 2, kSmallBlock);
}

// [d][m][32 times four bits]; without m, codes have a sign.
void UnpackQ4(const std::byte* block, bool minimum, const GgufRow& to) {
  to.scales[0] = Half(block);
  if (minimum) to.minimums[0] = -Half(block + 2);
  const std::byte* nibbles = block + (minimum ? 4 : 2);
  for (int64_t i = 0; i < kSmallBlock; ++i) {
    to.codes[i] = static_cast<int8_t>(Nibble(nibbles, i) - (minimum ? 0 : 8));
  }
}

// [d][m][32 times the fifth bit][32 times four bits]; without m, codes have a sign.
void UnpackQ5(const std::byte* block, bool minimum, const GgufRow& to) {
  to.scales[0] = Half(block);
  if (minimum) to.minimums[0] = -Half(block + 2);
  const std::byte* rest = block + (minimum ? 4 : 2);
  const uint32_t fifth = Word(rest);
  for (int64_t i = 0; i < kSmallBlock; ++i) {
    const int code = Nibble(rest + 4, i) | static_cast<int>((fifth >> i & 1) << 4);
    to.codes[i] = static_cast<int8_t>(code - (minimum ? 0 : 16));
  }
}

// The scale and the minimum of group `group` of eight, which are six bits each in twelve bytes.
struct ScaleAndMinimum {
  int scale = 0;
  int minimum = 0;
};
ScaleAndMinimum SixBits(const std::byte* bytes, int group) {
  if (group < 4) return {Byte(bytes + group) & 63, Byte(bytes + group + 4) & 63};
  const int both = Byte(bytes + group + 4);
  return {(both & 0xf) | (Byte(bytes + group - 4) >> 6 << 4),
          both >> 4 | (Byte(bytes + group) >> 6 << 4)};
}

void UnpackSteps45(const std::byte* block, const GgufSteps& to) {
  to.scale_units[0] = HalfBits(block);
  to.minimum_units[0] = HalfBits(block + 2);
  for (int group = 0; group < 8; ++group) {
    const ScaleAndMinimum six = SixBits(block + 4, group);
    to.scales[group] = static_cast<int8_t>(six.scale);
    to.minimums[group] = static_cast<int8_t>(six.minimum);
  }
}

// [d][dmin][scales and minimums][32 bytes of fifth bits, only of five][256 times four bits]. Groups
// of 32 follow each other; two of them share 32 bytes, the first has the low halves.
void UnpackK45(const std::byte* block, bool five, const GgufRow& to) {
  const float d = Half(block);
  const float d_minimum = Half(block + 2);
  const std::byte* fifths = block + 16;
  const std::byte* nibbles = fifths + (five ? 32 : 0);
  for (int group = 0; group < 8; ++group) {
    const ScaleAndMinimum six = SixBits(block + 4, group);
    to.scales[group] = d * static_cast<float>(six.scale);
    to.minimums[group] = d_minimum * static_cast<float>(six.minimum);
    for (int64_t i = 0; i < 32; ++i) {
      int code = Byte(nibbles + group / 2 * 32 + i) >> (group % 2 * 4) & 0xf;
      if (five) code |= (Byte(fifths + i) >> group & 1) << 4;
      to.codes[group * 32 + i] = static_cast<int8_t>(code);
    }
  }
}

// [128 bytes of low halves][64 bytes of two high bits][16 scales with a sign][d], in two halves of
// 128 elements, each of four runs of 32.
void UnpackK6(const std::byte* block, const GgufRow& to) {
  const std::byte* scales = block + kScalesOfK6;
  const float d = Half(block + kUnitOfK6);
  for (int group = 0; group < 16; ++group) {
    to.scales[group] = d * static_cast<float>(static_cast<int8_t>(Byte(scales + group)));
  }
  for (int64_t i = 0; i < kSuperBlock; ++i) {
    const int64_t half = i / 128;
    const int64_t run = i % 128 / 32;
    const int64_t at = i % 32;
    const int low = Byte(block + half * 64 + run % 2 * 32 + at) >> (run / 2 * 4) & 0xf;
    const int high = Byte(block + 128 + half * 32 + at) >> (run * 2) & 3;
    to.codes[i] = static_cast<int8_t>((low | high << 4) - 32);
  }
}

void UnpackBlock(const GgufTensorType& type, const std::byte* block, const GgufRow& to) {
  const std::string_view name = type.name;
  if (name == "Q8_0") return UnpackQ8(block, to);
  if (name == "Q4_0" || name == "Q4_1") return UnpackQ4(block, name == "Q4_1", to);
  if (name == "Q5_0" || name == "Q5_1") return UnpackQ5(block, name == "Q5_1", to);
  if (name == "Q4_K" || name == "Q5_K") return UnpackK45(block, name == "Q5_K", to);
  BATON_CHECK(name == "Q6_K") << std::string(name);
  UnpackK6(block, to);
}

// Unpacks rows and writes their values, on one thread.
class ValueWriter final {
 public:
  ValueWriter(const StoredTensor& tensor, const GgufTensorType& type, int64_t cols, DType dtype)
      : tensor_(tensor), type_(type), cols_(cols), dtype_(dtype) {
    values_.resize(static_cast<size_t>(cols));
    if (!type.integers()) return;
    codes_.resize(static_cast<size_t>(cols));
    scales_.resize(static_cast<size_t>(cols / type.form.group));
    minimums_.resize(scales_.size());
  }

  // Whether all scales of the row are finite.
  bool Write(int64_t row, std::byte* out) {
    const std::byte* from =
        tensor_.data.data() + tensor_.StoredRow(row) * (cols_ / type_.block) * type_.bytes;
    const bool finite = type_.integers() ? ReadBlocks(from) : ReadFloats(from);
    CopyFromFloats(values_, dtype_, out);
    return finite;
  }

 private:
  bool ReadFloats(const std::byte* from) {
    CopyToFloats(from, TensorDType(tensor_).value(), values_);
    return true;
  }
  bool ReadBlocks(const std::byte* from) {
    UnpackGgufRow(type_, from, cols_, {codes_.data(), scales_.data(), minimums_.data()});
    for (int64_t col = 0; col < cols_; ++col) {
      const auto group = static_cast<size_t>(col / type_.form.group);
      values_[static_cast<size_t>(col)] =
          static_cast<float>(codes_[static_cast<size_t>(col)]) * scales_[group] - minimums_[group];
    }
    const auto is_finite = [](float value) { return std::isfinite(value); };
    return std::ranges::all_of(scales_, is_finite) && std::ranges::all_of(minimums_, is_finite);
  }

  const StoredTensor& tensor_;
  const GgufTensorType& type_;
  const int64_t cols_;
  const DType dtype_;
  std::vector<float> values_;
  std::vector<int8_t> codes_;
  std::vector<float> scales_;
  std::vector<float> minimums_;
};

}  // namespace

void UnpackGgufRow(const GgufTensorType& type, const std::byte* blocks, int64_t cols,
                   const GgufRow& to) {
  const int64_t groups = type.block / type.form.group;
  for (int64_t block = 0; block < cols / type.block; ++block) {
    UnpackBlock(type, blocks + block * type.bytes,
                {.codes = to.codes + block * type.block,
                 .scales = to.scales + block * groups,
                 .minimums = to.minimums + block * groups});
  }
}

void UnpackGgufSteps(const GgufTensorType& type, const std::byte* blocks, int64_t cols,
                     const GgufSteps& to) {
  const int64_t groups = type.block / type.form.group;
  for (int64_t i = 0; i < cols / type.block; ++i) {
    const std::byte* block = blocks + i * type.bytes;
    if (type.form.minimums) {
      UnpackSteps45(block, {.scales = to.scales + i * groups,
                            .minimums = to.minimums + i * groups,
                            .scale_units = to.scale_units + i,
                            .minimum_units = to.minimum_units + i});
    } else {
      std::memcpy(to.scales + i * groups, block + kScalesOfK6, static_cast<size_t>(groups));
      to.scale_units[i] = HalfBits(block + kUnitOfK6);
    }
  }
}

absl::Status WriteGgufValues(const StoredTensor& tensor, int64_t begin, int64_t end, int64_t cols,
                             DType dtype, std::byte* out) {
  const GgufTensorType* type = FindGgufType(tensor.dtype);
  BATON_CHECK(type != nullptr) << tensor.name << " passed CheckTensors";
  const int64_t row_bytes = cols * static_cast<int64_t>(SizeOf(dtype));
  const int64_t pieces = (end - begin + kGgufRowsOfPiece - 1) / kGgufRowsOfPiece;
  std::atomic<bool> finite{true};
  ForEachPiece(static_cast<size_t>(pieces), [&](size_t piece) {
    ValueWriter writer(tensor, *type, cols, dtype);
    const int64_t first = begin + static_cast<int64_t>(piece) * kGgufRowsOfPiece;
    for (int64_t row = first; row < std::min(end, first + kGgufRowsOfPiece); ++row) {
      if (!writer.Write(row, out + (row - begin) * row_bytes)) finite = false;
    }
  });
  return finite ? absl::OkStatus() : NoFiniteScale(tensor);
}

absl::Status NoFiniteScale(const StoredTensor& tensor) {
  return absl::InvalidArgumentError(
      absl::StrCat("tensor ", tensor.name,
                   " holds a scale that is no finite number; download the checkpoint again"));
}

}  // namespace baton
