#pragma once

#include <cmath>
#include <cstdint>

namespace baton::kernels::cpu {

// 1 / the root mean square of `count` numbers, of whose squares `squares` is the sum. Where the sum
// overflowed it is NaN: 0 would make zeros of the row, and an answer of them that looks like one.
inline float InverseRms(float squares, int64_t count, float eps) {
  const float overflow = squares - squares;  // 0, or NaN
  return 1.0f / std::sqrt(squares / static_cast<float>(count) + eps) + overflow;
}

}  // namespace baton::kernels::cpu
