#pragma once

#include <cstddef>
#include <cstdint>

#include "common/formats/quantization_config.h"
#include "common/formats/safetensors.h"

namespace baton {

// The integers of one stored tensor, whatever the order in which its format packs them. They are
// given as signed numbers: what is stored without a sign is less by half of its range.
class StoredIntegers final {
 public:
  // The codes of a weight [out, in], and its zero points [out, groups].
  static StoredIntegers Codes(const QuantizationConfig& quantization, const StoredTensor& tensor);
  static StoredIntegers ZeroPoints(const QuantizationConfig& quantization,
                                   const StoredTensor& tensor);

  // out [cols] = the integers of row `row` of the weight: those of columns, or groups, order[0],
  // order[1], …; without an order, 0, 1, ….
  void Row(int64_t row, int64_t cols, const int32_t* order, int8_t* out) const;

 private:
  // Where the integer of a row and a column lies. A word of the stored tensor holds several
  // integers, the first in its lowest bits; the tensor's rows follow each other.
  enum class Packing {
    kBytes,       // one to a byte, [row][column]
    kColumns,     // [row][words of columns]
    kRows,        // [words of rows][column]
    kColumnsT,    // [words of columns][row]
    kRowsT,       // [column][words of rows]
    kRowsTMixed,  // [column][words of rows], the rows of a word in AWQ's order
  };
  StoredIntegers(const StoredTensor& tensor, Packing packing, int32_t bits, int32_t added = 0);

  const std::byte* data_;
  int64_t stride_;  // of the stored tensor, in words or bytes
  Packing packing_;
  int32_t bits_;
  // Added to whole words, one to each integer: GPTQModel subtracts so, and a zero point of 0
  // borrows from the next one.
  uint32_t added_;
};

}  // namespace baton
