#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/cuda/cta/cta.h"
#include "kernels/cuda/cta/elements.h"
#include "kernels/cuda/cta/fp8_math.h"

// The algorithms of gemm/fp8.cu, over a Cta so that tests can run them on the host. All steps are
// single roundings in fp32, so host and device give the same bits, but for those of a NaN that is
// narrowed to 16.
namespace baton::kernels::cuda {

constexpr int kQuantizeThreads = 256;

template <typename T>
struct RowsToCodes {
  const T* from = nullptr;  // [rows, cols]
  int64_t stride = 0;       // elements between rows of `from`
  int64_t cols = 0;
  uint8_t* to = nullptr;    // [rows, cols] dense
  float* scales = nullptr;  // [rows]
};

struct QuantizeShared {
  float of_warps[kQuantizeThreads / kLanes];
};

// The elements that a thread takes with one access of 16 bytes.
template <typename T>
constexpr int kWordElements = 16 / sizeof(T);

// Whether all rows are made of such words, in both places.
template <typename T>
bool RowsAreWords(const RowsToCodes<T>& rows) {
  constexpr int kElements = kWordElements<T>;
  return rows.cols % kElements == 0 && rows.stride % kElements == 0 &&
         reinterpret_cast<uintptr_t>(rows.from) % 16 == 0 &&
         reinterpret_cast<uintptr_t>(rows.to) % kElements == 0;
}

// The larger one; NaN where one is.
BATON_HD float LargerOrNan(float a, float b) { return b > a || IsNan(b) ? b : a; }

// The largest magnitude that a thread finds in its share of a row, N elements per turn.
template <typename T, int N>
BATON_HD float LargestOfShare(const T* row, int64_t cols, int thread) {
  float largest = 0;
  for (int64_t col = int64_t{thread} * N; col < cols; col += int64_t{kQuantizeThreads} * N) {
    const Vec<T, N> in = *reinterpret_cast<const Vec<T, N>*>(row + col);
    BATON_UNROLL
    for (int i = 0; i < N; ++i) largest = LargerOrNan(largest, fabsf(Widen(in.at[i])));
  }
  return largest;
}

// Writes quantize(element) for a thread's share of a row.
template <typename T, int N, typename Quantize>
BATON_HD void QuantizeShare(const T* row, int64_t cols, int thread, uint8_t* to,
                            Quantize quantize) {
  for (int64_t col = int64_t{thread} * N; col < cols; col += int64_t{kQuantizeThreads} * N) {
    const Vec<T, N> in = *reinterpret_cast<const Vec<T, N>*>(row + col);
    Vec<uint8_t, N> codes;
    BATON_UNROLL
    for (int i = 0; i < N; ++i) codes.at[i] = quantize(Widen(in.at[i]));
    *reinterpret_cast<Vec<uint8_t, N>*>(to + col) = codes;
  }
}

// By the row's own scale; NaN for a row with NaN or infinity. The second pass finds the row in the
// cache.
template <typename T, int N, typename Cta>
BATON_HD void QuantizeRow(Cta& cta, const RowsToCodes<T>& rows, int64_t index,
                          QuantizeShared& shared) {
  const T* const row = rows.from + index * rows.stride;
  const float largest = cta.Reduce(
      shared.of_warps, [&](int t) { return LargestOfShare<T, N>(row, rows.cols, t); },
      [](float a, float b) { return LargerOrNan(a, b); });
  const bool finite = largest <= kMaxFloat;
  const float scale = finite ? ScaleOfRow(largest) : 1.0f;
  cta.Finish([&](int t) {
    if (t == 0) rows.scales[index] = finite ? scale : BitsFloat(0x7fffffff);
    QuantizeShare<T, N>(row, rows.cols, t, rows.to + index * rows.cols,
                        [&](float value) { return QuantizeElement(value, scale); });
  });
}

// By a scale that was chosen before the row was known.
template <typename T, int N, typename Cta>
BATON_HD void QuantizeRowBy(Cta& cta, float scale, const RowsToCodes<T>& rows, int64_t index) {
  cta.Finish([&](int t) {
    if (t == 0) rows.scales[index] = scale;
    QuantizeShare<T, N>(rows.from + index * rows.stride, rows.cols, t, rows.to + index * rows.cols,
                        [&](float value) { return QuantizeBy(value, scale); });
  });
}

// out = product + bias, or with `accumulate` out += product + bias. Rows are dense; `out` may be
// the product's memory.
template <typename T, typename Out>
struct ProductToAdd {
  const T* product = nullptr;   // [rows, cols]
  const float* bias = nullptr;  // [cols], or null
  bool accumulate = false;
  Out* out = nullptr;  // [rows, cols]
  int64_t cols = 0;
};

// The elements of part `part` of a row, one per thread.
template <typename T, typename Out, typename Cta>
BATON_HD void AddProductPart(Cta& cta, const ProductToAdd<T, Out>& add, int64_t part, int64_t row) {
  cta.Finish([&](int t) {
    const int64_t col = part * kQuantizeThreads + t;
    if (col >= add.cols) return;
    const int64_t at = row * add.cols + col;
    float value = Widen(add.product[at]);
    if (add.bias != nullptr) value = AddRn(value, add.bias[col]);
    if (add.accumulate) value = AddRn(value, Widen(add.out[at]));
    Narrow(value, &add.out[at]);
  });
}

}  // namespace baton::kernels::cuda
