// Helpers of the CPU's vector kernels. Highway includes this once for each instruction set that it
// compiles, so it has a toggle in place of an include guard.
#if defined(BATON_KERNELS_CPU_VEC_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BATON_KERNELS_CPU_VEC_INL_H_
#undef BATON_KERNELS_CPU_VEC_INL_H_
#else
#define BATON_KERNELS_CPU_VEC_INL_H_
#endif

#include <cstdint>
#include <cstring>

#include "hwy/cache_control.h"
#include "hwy/highway.h"
#include "kernels/exp_f32.h"

// Highway also compiles a scalar baseline, which is never called: kernels guard their bodies with
// this, so that they are compiled for AVX2 and AVX-512 only.
#undef BATON_CPU_TARGET
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
#define BATON_CPU_TARGET 1
#else
#define BATON_CPU_TARGET 0
#endif

#if BATON_CPU_TARGET
HWY_BEFORE_NAMESPACE();
namespace baton::kernels::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using FloatTag = hn::ScalableTag<float>;
using FloatVec = hn::Vec<FloatTag>;
constexpr FloatTag kFloat;
constexpr int64_t kLanes = static_cast<int64_t>(HWY_MAX_BYTES / sizeof(float));

HWY_INLINE FloatVec LoadAsF32(const float* from) { return hn::LoadU(kFloat, from); }

HWY_INLINE FloatVec LoadAsF32(const uint16_t* from) {
  const hn::RebindToUnsigned<FloatTag> du32;
  const hn::Rebind<uint16_t, FloatTag> du16;
  return hn::BitCast(kFloat, hn::ShiftLeft<16>(hn::PromoteTo(du32, hn::LoadU(du16, from))));
}

HWY_INLINE void StoreFromF32(FloatVec value, float* to) { hn::StoreU(value, kFloat, to); }

// To bf16, nearest even; NaN stays NaN.
HWY_INLINE void StoreFromF32(FloatVec value, uint16_t* to) {
  const hn::RebindToUnsigned<FloatTag> du32;
  const hn::RebindToSigned<FloatTag> di32;
  const hn::Rebind<uint16_t, FloatTag> du16;
  const auto bits = hn::BitCast(du32, value);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du32, 1));
  const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(du32, 0x7fff)));
  const auto quiet = hn::Or(bits, hn::Set(du32, 0x400000));
  const auto is_nan = hn::RebindMask(du32, hn::Ne(value, value));
  const auto chosen = hn::ShiftRight<16>(hn::IfThenElse(is_nan, quiet, rounded));
  hn::StoreU(hn::DemoteTo(du16, hn::BitCast(di32, chosen)), du16, to);
}

// Loads the first `count` lanes of a vector; the others are 0.
template <typename T>
HWY_INLINE FloatVec LoadPartial(const T* from, int64_t count) {
  if (count >= kLanes) return LoadAsF32(from);
  T padded[kLanes] = {};
  std::memcpy(padded, from, static_cast<size_t>(count) * sizeof(T));
  return LoadAsF32(padded);
}

template <typename T>
HWY_INLINE void StorePartial(FloatVec value, T* to, int64_t count) {
  if (count >= kLanes) {
    StoreFromF32(value, to);
    return;
  }
  T padded[kLanes];
  StoreFromF32(value, padded);
  std::memcpy(to, padded, static_cast<size_t>(count) * sizeof(T));
}

// Calls f(offset, count) over [0, n), a vector at a time; the last may be partial.
template <typename F>
HWY_INLINE void ForEachVector(int64_t n, F f) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) f(i, kLanes);
  if (i < n) f(i, n - i);
}

HWY_INLINE float Sum(FloatVec value) { return hn::GetLane(hn::SumOfLanes(kFloat, value)); }
HWY_INLINE float Highest(FloatVec value) { return hn::GetLane(hn::MaxOfLanes(kFloat, value)); }

// kernels::ExpF32, operation by operation.
HWY_INLINE FloatVec Exp(FloatVec x) {
  using C = ExpF32Constants;
  const hn::RebindToSigned<FloatTag> di32;
  const auto lowest = hn::Set(kFloat, C::kMin);
  const auto underflow = hn::Lt(x, lowest);
  x = hn::Min(hn::Max(x, lowest), hn::Set(kFloat, C::kMax));
  const auto n = hn::Round(hn::Mul(x, hn::Set(kFloat, C::kLog2E)));
  auto r = hn::NegMulAdd(n, hn::Set(kFloat, C::kLn2High), x);
  r = hn::NegMulAdd(n, hn::Set(kFloat, C::kLn2Low), r);
  auto p = hn::Set(kFloat, C::kPoly[0]);
  p = hn::MulAdd(p, r, hn::Set(kFloat, C::kPoly[1]));
  p = hn::MulAdd(p, r, hn::Set(kFloat, C::kPoly[2]));
  p = hn::MulAdd(p, r, hn::Set(kFloat, C::kPoly[3]));
  p = hn::MulAdd(p, r, hn::Set(kFloat, C::kPoly[4]));
  p = hn::MulAdd(p, r, hn::Set(kFloat, C::kPoly[5]));
  const auto value = hn::Add(hn::MulAdd(p, hn::Mul(r, r), r), hn::Set(kFloat, 1.0f));
  const auto exponent = hn::ShiftLeft<23>(hn::ConvertTo(di32, n));
  const auto scaled = hn::BitCast(kFloat, hn::Add(hn::BitCast(di32, value), exponent));
  return hn::IfThenZeroElse(underflow, scaled);
}

}  // namespace baton::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // BATON_CPU_TARGET

#endif  // toggle
