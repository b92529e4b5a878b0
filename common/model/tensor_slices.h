#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/dtype.h"

namespace baton {

// A rectangle of a tensor as it is stored. Its elements may lie at any address, aligned or not.
struct TensorSlice {
  const std::byte* data = nullptr;  // the first element
  kernels::DType dtype = kernels::DType::kF32;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t stride = 0;  // elements from row to row
};

// out = elements as they are stored from `from` on.
void CopyToFloats(const std::byte* from, kernels::DType dtype, std::span<float> out);

// Writes values to `out`, dense and rounded to `dtype`.
void CopyFromFloats(std::span<const float> values, kernels::DType dtype, std::byte* out);

// Writes the slices to `out`, one below the other, dense and converted to `dtype`, rounded to
// nearest even. Several threads copy large ones, because the pages of a mapped file are what takes
// the time.
void CopySlices(std::span<const TensorSlice> slices, kernels::DType dtype, std::byte* out);

}  // namespace baton
