#include "common/model/tensor_slices.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "common/model/parallel_pieces.h"
#include "kernels/float_convert.h"

namespace baton {
namespace {

using kernels::DType;

constexpr int64_t kSlicePieceBytes = int64_t{4} << 20;

float Load(const std::byte* from, DType dtype) {
  if (dtype == DType::kF32) {
    float value = 0;
    std::memcpy(&value, from, sizeof(value));
    return value;
  }
  uint16_t bits = 0;
  std::memcpy(&bits, from, sizeof(bits));
  return dtype == DType::kBF16 ? kernels::FloatFromBf16(bits) : kernels::FloatFromF16(bits);
}

void Store(float value, DType dtype, std::byte* to) {
  if (dtype == DType::kF32) {
    std::memcpy(to, &value, sizeof(value));
    return;
  }
  const uint16_t bits =
      dtype == DType::kBF16 ? kernels::Bf16FromFloat(value) : kernels::F16FromFloat(value);
  std::memcpy(to, &bits, sizeof(bits));
}

void CopyRow(const std::byte* from, DType from_dtype, int64_t cols, DType dtype, std::byte* out) {
  const size_t step = SizeOf(from_dtype);
  if (from_dtype == dtype) {
    std::memcpy(out, from, static_cast<size_t>(cols) * step);
    return;
  }
  for (int64_t col = 0; col < cols; ++col) {
    Store(Load(from, from_dtype), dtype, out);
    from += step;
    out += SizeOf(dtype);
  }
}

// Rows of one slice, as many as a thread takes at a time.
struct SlicePiece {
  const TensorSlice* slice = nullptr;
  int64_t begin = 0;
  int64_t end = 0;
  std::byte* out = nullptr;
};

std::vector<SlicePiece> Divide(std::span<const TensorSlice> slices, DType dtype, std::byte* out) {
  std::vector<SlicePiece> pieces;
  for (const TensorSlice& slice : slices) {
    const int64_t row_bytes =
        std::max<int64_t>(1, slice.cols * static_cast<int64_t>(SizeOf(dtype)));
    const int64_t rows = std::max<int64_t>(1, kSlicePieceBytes / row_bytes);
    for (int64_t begin = 0; begin < slice.rows; begin += rows) {
      const int64_t end = std::min(slice.rows, begin + rows);
      pieces.push_back({&slice, begin, end, out});
      out += (end - begin) * slice.cols * static_cast<int64_t>(SizeOf(dtype));
    }
  }
  return pieces;
}

void Copy(const SlicePiece& piece, DType dtype) {
  const TensorSlice& slice = *piece.slice;
  const int64_t step = slice.stride * static_cast<int64_t>(SizeOf(slice.dtype));
  std::byte* out = piece.out;
  for (int64_t row = piece.begin; row < piece.end; ++row) {
    CopyRow(slice.data + row * step, slice.dtype, slice.cols, dtype, out);
    out += slice.cols * static_cast<int64_t>(SizeOf(dtype));
  }
}

}  // namespace

void CopyToFloats(const std::byte* from, DType dtype, std::span<float> out) {
  for (float& value : out) {
    value = Load(from, dtype);
    from += SizeOf(dtype);
  }
}

void CopyFromFloats(std::span<const float> values, DType dtype, std::byte* out) {
  CopyRow(reinterpret_cast<const std::byte*>(values.data()), DType::kF32,
          static_cast<int64_t>(values.size()), dtype, out);
}

void CopySlices(std::span<const TensorSlice> slices, DType dtype, std::byte* out) {
  const std::vector<SlicePiece> pieces = Divide(slices, dtype, out);
  ForEachPiece(pieces.size(), [&](size_t i) { Copy(pieces[i], dtype); });
}

}  // namespace baton
