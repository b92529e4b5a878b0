#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/dtype.h"

namespace baton::kernels {

// A view of a row-major matrix in device memory, which it does not own. Rows begin `stride`
// elements apart.
struct Matrix {
  void* data = nullptr;
  DType dtype = DType::kF32;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t stride = 0;

  static Matrix Dense(void* data, DType dtype, int64_t rows, int64_t cols) {
    return {data, dtype, rows, cols, cols};
  }
  bool dense() const { return stride == cols; }
  void* row(int64_t index) const {
    return static_cast<std::byte*>(data) + static_cast<size_t>(index * stride) * SizeOf(dtype);
  }
};

// A view of a checkpoint's tensor in host memory, row-major and dense, which it does not own.
struct HostTensor {
  const void* data = nullptr;
  DType dtype = DType::kF32;
  int64_t rows = 1;  // [out] of a projection, [vocab] of an embedding, 1 for a vector
  int64_t cols = 0;  // [in] of a projection, [hidden] of an embedding, length of a vector
  bool keep_precision = false;  // a projection that is not quantized, though others may be
  // Of kFp8 alone, which only projections may be: elements are codes of e4m3 times the scale of
  // their row [rows], and inputs are divided by `input_scale` before they are rounded to e4m3, or
  // by a number of their own where that is 0.
  const float* row_scales = nullptr;
  float input_scale = 0;
};

}  // namespace baton::kernels
