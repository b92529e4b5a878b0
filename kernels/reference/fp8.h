#pragma once

#include <cstdint>
#include <span>

#include "kernels/tensor_view.h"

namespace baton::kernels {

// Products by quantized weights in scalar code, for tests to compare with. An e4m3 code has a sign,
// an exponent of 4 bits with bias 7 and a mantissa of 3 bits; there is no infinity, and the largest
// number is 448. This is the number that a code stands for.
float E4m3Value(uint8_t code);

// Divides each row of `from` by scales[row], its largest magnitude / 448 (1 for a row of zeros),
// and rounds to the nearest code, ties to the even one. codes [rows * cols], scales [rows].
void QuantizeRows(Matrix from, std::span<uint8_t> codes, std::span<float> scales);

// One element of a product: the sum over `count` codes of a and b, times both scales.
double DotQuantized(const uint8_t* a, float a_scale, const uint8_t* b, float b_scale,
                    int64_t count);

}  // namespace baton::kernels
