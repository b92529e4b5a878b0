#pragma once

#include <cmath>

namespace baton::kernels::cuda {

// The scale of a layer's keys, AttentionShape::k_scale, as a product of two.
struct KeyScale {
  float query = 1;  // multiplies queries once they are rotated: a power of two, at most 1
  float score = 1;  // multiplies the scores of what the cache holds: at least 1
};

// FlashInfer takes a product of query and key below -5e4 for a masked one before anything scales
// it. Codes are 1 / k_scale times as large as keys, so with the whole scale behind the product
// scores of -22 could be lost; a `score` of at least 1 leaves codes as much room as 16 bits have. A
// power of two moves no bit of a query, but where float16 is below its smallest normal number: that
// changes a score by 128 · 448 · 2 · 2⁻²⁵ / √128 = 3e-4 at most.
inline KeyScale SplitKeyScale(float k_scale) {
  if (k_scale >= 1) return {.score = k_scale};
  int exponent = 0;
  const float mantissa = std::frexp(k_scale, &exponent);  // [0.5, 1)
  return {.query = std::ldexp(1.0F, exponent - 1), .score = 2 * mantissa};
}

}  // namespace baton::kernels::cuda
