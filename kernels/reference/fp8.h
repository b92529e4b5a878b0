#pragma once

#include <cstdint>
#include <span>

#include "kernels/tensor_view.h"

namespace baton::kernels {

// The scalar twin of products by quantized weights. e4m3 codes: sign, exponent of 4 bits with bias
// 7, mantissa of 3; no infinity; the largest number is 448.
float E4m3Value(uint8_t code);

// Rows of `from` divided by scales[row] = largest magnitude / 448 (1 for a row of zeros) and
// rounded to the nearest code, ties to the even one. codes [rows * cols], scales [rows].
void QuantizeRows(Matrix from, std::span<uint8_t> codes, std::span<float> scales);

// One element of a product: sums over `count` codes, scaled on both sides.
double DotQuantized(const uint8_t* a, float a_scale, const uint8_t* b, float b_scale,
                    int64_t count);

}  // namespace baton::kernels
