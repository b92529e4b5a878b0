#include "common/model/quantize/quantized_layouts.h"

#include <cstring>

namespace baton {
namespace {

using Format = QuantizationConfig::Format;

// AWQ puts the rows 0, 2, 4, 6, 1, 3, 5, 7 of eight into a word, in this order. So row i lies at:
constexpr int kAwqPlace[8] = {0, 4, 1, 5, 2, 6, 3, 7};

template <typename F>
void FillRow(int64_t cols, const int32_t* order, int8_t* out, F integer_of) {
  for (int64_t i = 0; i < cols; ++i) {
    out[i] = static_cast<int8_t>(integer_of(order != nullptr ? int64_t{order[i]} : i));
  }
}

}  // namespace

StoredIntegers::StoredIntegers(const StoredTensor& tensor, Packing packing, int32_t bits,
                               int32_t added)
    : data_(tensor.data.data()),
      stride_(tensor.shape[1]),
      packing_(packing),
      bits_(bits),
      added_(static_cast<uint32_t>(added) * (~uint32_t{0} / ((1U << bits) - 1))) {}

StoredIntegers StoredIntegers::Codes(const QuantizationConfig& quantization,
                                     const StoredTensor& tensor) {
  switch (quantization.format) {
    case Format::kPackQuantized:
      return {tensor, Packing::kColumns, quantization.bits};
    case Format::kGptq:
      return {tensor, Packing::kColumnsT, quantization.bits};
    case Format::kAwq:
      return {tensor, Packing::kRowsTMixed, quantization.bits};
    case Format::kIntQuantized:
      break;
    case Format::kGguf:  // this and the others have readers of their own
    case Format::kFloatQuantized:
    case Format::kFp8:
    case Format::kFp8Blocks:
      break;
  }
  return {tensor, Packing::kBytes, quantization.bits};
}

StoredIntegers StoredIntegers::ZeroPoints(const QuantizationConfig& quantization,
                                          const StoredTensor& tensor) {
  switch (quantization.format) {
    case Format::kPackQuantized:
      return {tensor, Packing::kRows, quantization.bits};
    case Format::kGptq:
      return {tensor, Packing::kRowsT, quantization.bits, quantization.zero_added};
    case Format::kAwq:
      return {tensor, Packing::kRowsTMixed, quantization.bits};
    case Format::kIntQuantized:
    case Format::kGguf:
    case Format::kFloatQuantized:
    case Format::kFp8:
    case Format::kFp8Blocks:
      break;
  }
  return {tensor, Packing::kBytes, quantization.bits};
}

void StoredIntegers::Row(int64_t row, int64_t cols, const int32_t* order, int8_t* out) const {
  const int64_t per_word = 32 / bits_;
  const uint32_t mask = (1U << bits_) - 1;
  const int half = 1 << (bits_ - 1);
  const auto integer = [&](int64_t word, int64_t place) {
    uint32_t bits = 0;
    std::memcpy(&bits, data_ + word * 4, sizeof(bits));
    const uint32_t code = (bits + added_) >> (place * bits_);
    return static_cast<int>(code & mask) - half;
  };
  switch (packing_) {
    case Packing::kBytes:
      FillRow(cols, order, out,
              [&](int64_t col) { return std::to_integer<int>(data_[row * stride_ + col]); });
      break;
    case Packing::kColumns:
      FillRow(cols, order, out,
              [&](int64_t col) { return integer(row * stride_ + col / per_word, col % per_word); });
      break;
    case Packing::kRows:
      FillRow(cols, order, out,
              [&](int64_t col) { return integer(row / per_word * stride_ + col, row % per_word); });
      break;
    case Packing::kColumnsT:
      FillRow(cols, order, out,
              [&](int64_t col) { return integer(col / per_word * stride_ + row, col % per_word); });
      break;
    case Packing::kRowsT:
      FillRow(cols, order, out,
              [&](int64_t col) { return integer(col * stride_ + row / per_word, row % per_word); });
      break;
    case Packing::kRowsTMixed:
      FillRow(cols, order, out, [&](int64_t col) {
        return integer(col * stride_ + row / per_word, kAwqPlace[row % per_word]);
      });
      break;
  }
}

}  // namespace baton
