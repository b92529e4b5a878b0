#pragma once

#include <cmath>

#include "kernels/cuda/cta/cta.h"

namespace baton::kernels::cuda {

// 1 / the root mean square of `count` numbers, of whose squares `squares` is the sum. Where the sum
// overflowed it is NaN: 0 would make zeros of the row, and an answer of them that looks like one.
// The device's inverse root is not rounded to nearest: it may be two units off the host's.
BATON_HD float InverseRms(float squares, float count, float eps) {
  const float overflow = squares - squares;  // 0, or NaN
#ifdef __CUDA_ARCH__
  return rsqrtf(squares / count + eps) + overflow;
#else
  return 1.0f / std::sqrt(squares / count + eps) + overflow;
#endif
}

}  // namespace baton::kernels::cuda
