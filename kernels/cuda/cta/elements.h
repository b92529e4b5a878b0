#pragma once

#include <cstdint>

#include "kernels/cuda/cta/cta.h"
#include "kernels/cuda/cta/sample_math.h"

#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#endif
#ifndef __CUDA_ARCH__
#include "kernels/float_convert.h"
#endif

// The elements of activations, caches and weights, for device and host.
namespace baton::kernels::cuda {

// Elements of 16 bits as they lie in memory, the same for host and device.
struct Bf16Bits {
  uint16_t bits;
};
struct F16Bits {
  uint16_t bits;
};

BATON_HD float Widen(float value) { return value; }
BATON_HD float Widen(Bf16Bits value) { return BitsFloat(static_cast<uint32_t>(value.bits) << 16); }
BATON_HD float Widen(F16Bits value) {
#ifdef __CUDA_ARCH__
  return __half2float(__ushort_as_half(value.bits));
#else
  return FloatFromF16(value.bits);
#endif
}

// Round to nearest, ties to even. Of a NaN a device may make another one than the host.
BATON_HD void Narrow(float value, float* to) { *to = value; }
BATON_HD void Narrow(float value, Bf16Bits* to) {
#ifdef __CUDA_ARCH__
  to->bits = __bfloat16_as_ushort(__float2bfloat16_rn(value));
#else
  to->bits = Bf16FromFloat(value);
#endif
}
BATON_HD void Narrow(float value, F16Bits* to) {
#ifdef __CUDA_ARCH__
  to->bits = __half_as_ushort(__float2half_rn(value));
#else
  to->bits = F16FromFloat(value);
#endif
}

// N elements that move with one access.
template <typename T, int N>
struct alignas(sizeof(T) * N) Vec {
  T at[N];
};

}  // namespace baton::kernels::cuda
