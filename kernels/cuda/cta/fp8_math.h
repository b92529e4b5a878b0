#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/cuda/cta/cta.h"
#include "kernels/cuda/cta/sample_math.h"

#ifdef __CUDACC__
#include <cuda_fp8.h>
#endif
#ifndef __CUDA_ARCH__
#include "kernels/float_convert.h"
#endif

// The arithmetic of e4m3 codes, for device and host. A code has a sign, four bits of exponent with
// bias 7 and three of mantissa; there is no infinity, 0x7f is NaN, and the largest number is 448.
namespace baton::kernels::cuda {

constexpr float kMaxE4m3 = 448;

// An element of a KV cache of kFp8.
struct E4m3Bits {
  uint8_t bits;
};

// Rounds to the nearest code, ties to the even one; what is larger than 448 becomes 448. On the
// host it does what the device's own conversion does.
BATON_HD uint8_t E4m3FromFloat(float value) {
#ifdef __CUDA_ARCH__
  return __nv_cvt_float_to_fp8(value, __NV_SATFINITE, __NV_E4M3);
#else
  return value != value ? 0x7f : kernels::E4m3FromFloat(value);
#endif
}

// The number by which a row is divided whose largest magnitude is `largest`; 1 for a row of zeros.
// It is never so small that its inverse is infinite.
BATON_HD float ScaleOfRow(float largest) {
  const float scale = largest / kMaxE4m3;
  return scale > 1e-30f ? scale : (largest > 0 ? 1e-30f : 1.0f);
}

// Divides, rather than multiplies by the inverse, because that rounds once, the same way on the
// device and on the host.
BATON_HD uint8_t QuantizeElement(float value, float scale) {
#ifdef __CUDA_ARCH__
  return E4m3FromFloat(__fdiv_rn(value, scale));
#else
  return E4m3FromFloat(value / scale);
#endif
}

// The code of a number in a KV cache, as StoreKvRow has it: a NaN keeps its sign.
BATON_HD uint8_t KvCode(float value, float scale) {
  if (value != value) return FloatBits(value) >> 31 != 0 ? 0xff : 0x7f;
  return QuantizeElement(value, scale);
}

// The same with a number that was chosen before the element was known: one that is not finite stays
// visible as NaN.
BATON_HD uint8_t QuantizeBy(float value, float scale) {
  return value - value == 0 ? QuantizeElement(value, scale) : 0x7f;
}

}  // namespace baton::kernels::cuda
