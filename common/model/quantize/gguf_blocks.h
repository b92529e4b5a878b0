#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "common/formats/gguf/gguf_types.h"
#include "common/formats/safetensors.h"
#include "kernels/dtype.h"

namespace baton {

// Where the elements of a row of blocks go: element c stands for
// codes[c] * scales[c / group] - minimums[c / group], with the group of the type's form. Of types
// with minimums codes have no sign.
struct GgufRow {
  int8_t* codes = nullptr;    // [cols]
  float* scales = nullptr;    // [cols / group]
  float* minimums = nullptr;  // [cols / group], written only for types that have them
};

// The same scales and minimums as integers, one for each group, times fp16 units, one for each
// GgufForm::unit columns.
struct GgufSteps {
  int8_t* scales = nullptr;
  int8_t* minimums = nullptr;  // these and their units likewise
  uint16_t* scale_units = nullptr;
  uint16_t* minimum_units = nullptr;
};

// Unpacks one row of a matrix of integers, whose blocks begin at `blocks`. Every element stands for
// what gguf.quants.dequantize, of the Python package that defines the format, gives.
void UnpackGgufRow(const GgufTensorType& type, const std::byte* blocks, int64_t cols,
                   const GgufRow& to);

// Unpacks what scales and minimums of such a row, of a type that has units, are made of.
void UnpackGgufSteps(const GgufTensorType& type, const std::byte* blocks, int64_t cols,
                     const GgufSteps& to);

// Writes the values of rows [begin, end) of a matrix [.., cols] of any readable type to `out`,
// dense, rounded to `dtype`. INVALID_ARGUMENT, naming the tensor, where a scale is no finite
// number.
absl::Status WriteGgufValues(const StoredTensor& tensor, int64_t begin, int64_t end, int64_t cols,
                             kernels::DType dtype, std::byte* out);

// The error that a scale of the tensor is no finite number.
absl::Status NoFiniteScale(const StoredTensor& tensor);

}  // namespace baton
