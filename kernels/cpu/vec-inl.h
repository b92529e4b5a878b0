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
#include "kernels/dtype.h"
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
using WordTag = hn::RebindToUnsigned<FloatTag>;
using WordVec = hn::Vec<WordTag>;
constexpr FloatTag kFloat;
constexpr int64_t kLanes = static_cast<int64_t>(HWY_MAX_BYTES / sizeof(float));

HWY_INLINE FloatVec LoadAsF32(const float* from) { return hn::LoadU(kFloat, from); }

HWY_INLINE FloatVec LoadAsF32(const uint16_t* from) {
  const hn::RebindToUnsigned<FloatTag> du32;
  const hn::Rebind<uint16_t, FloatTag> du16;
  return hn::BitCast(kFloat, hn::ShiftLeft<16>(hn::PromoteTo(du32, hn::LoadU(du16, from))));
}

// An element of a KV cache of fp8.
enum class E4m3 : uint8_t {};

// fp32 from codes of e4m3, one in the low byte of each word. See FloatFromE4m3.
template <class D>
HWY_INLINE hn::Vec<hn::RebindToFloat<D>> FloatsFromE4m3(D du32, hn::Vec<D> codes) {
  const hn::RebindToFloat<D> df;
  const hn::RebindToSigned<D> di32;
  const auto magnitude =
      hn::BitCast(di32, hn::ShiftLeft<20>(hn::And(codes, hn::Set(du32, uint32_t{0x7f}))));
  const auto sign = hn::ShiftLeft<24>(hn::And(codes, hn::Set(du32, uint32_t{0x80})));
  const auto normal = hn::BitCast(df, hn::Add(magnitude, hn::Set(di32, 120 << 23)));
  // With the exponent of 2^-6 they are that much too large, which is exact.
  const auto small = hn::Sub(hn::BitCast(df, hn::Add(magnitude, hn::Set(di32, 121 << 23))),
                             hn::Set(df, 0x1.0p-6f));
  const auto is_small = hn::RebindMask(df, hn::Lt(magnitude, hn::Set(di32, 1 << 23)));
  const auto is_nan = hn::RebindMask(df, hn::Eq(magnitude, hn::Set(di32, 0x7f << 20)));
  auto value = hn::IfThenElse(is_small, small, normal);
  value = hn::IfThenElse(is_nan, hn::BitCast(df, hn::Set(du32, uint32_t{0x7fc00000})), value);
  return hn::Or(value, hn::BitCast(df, sign));
}

HWY_INLINE FloatVec LoadAsF32(const E4m3* from) {
  const hn::RebindToUnsigned<FloatTag> du32;
  const hn::Rebind<uint8_t, FloatTag> du8;
  const auto codes = hn::LoadU(du8, reinterpret_cast<const uint8_t*>(from));
  return FloatsFromE4m3(du32, hn::PromoteTo(du32, codes));
}

HWY_INLINE FloatVec LoadAsF32(const int8_t* from) {
  const hn::RebindToSigned<FloatTag> di32;
  const hn::Rebind<int8_t, FloatTag> di8;
  return hn::ConvertTo(kFloat, hn::PromoteTo(di32, hn::LoadU(di8, from)));
}

// See E4m3FromFloat.
HWY_INLINE void StoreFromF32(FloatVec value, E4m3* to) {
  const hn::RebindToUnsigned<FloatTag> du32;
  const hn::RebindToSigned<FloatTag> di32;
  const hn::Rebind<uint8_t, FloatTag> du8;
  const auto sign =
      hn::And(hn::ShiftRight<24>(hn::BitCast(du32, value)), hn::Set(du32, uint32_t{0x80}));
  const auto magnitude = hn::Min(hn::Abs(value), hn::Set(kFloat, 448.0f));
  const auto bits = hn::BitCast(du32, magnitude);
  const auto odd = hn::And(hn::ShiftRight<20>(bits), hn::Set(du32, uint32_t{1}));
  const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(du32, uint32_t{0x7ffff})));
  const auto normal = hn::Sub(hn::ShiftRight<20>(rounded), hn::Set(du32, uint32_t{120 << 3}));
  const auto shifted = hn::Add(magnitude, hn::Set(kFloat, 0x1.0p14f));
  const auto small = hn::Sub(hn::BitCast(du32, shifted), hn::Set(du32, uint32_t{0x46800000}));
  const auto is_small = hn::RebindMask(du32, hn::Lt(magnitude, hn::Set(kFloat, 0x1.0p-6f)));
  const auto is_nan = hn::RebindMask(du32, hn::IsNaN(value));
  auto code = hn::IfThenElse(is_small, small, normal);
  code = hn::Or(hn::IfThenElse(is_nan, hn::Set(du32, uint32_t{0x7f}), code), sign);
  hn::StoreU(hn::DemoteTo(du8, hn::BitCast(di32, code)), du8, reinterpret_cast<uint8_t*>(to));
}

// A code from each lane, which is within its range, nearest even.
HWY_INLINE void StoreFromF32(FloatVec value, int8_t* to) {
  const hn::Rebind<int8_t, FloatTag> di8;
  hn::StoreU(hn::DemoteTo(di8, hn::NearestInt(value)), di8, to);
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
  const auto is_nan = hn::RebindMask(du32, hn::IsNaN(value));
  const auto chosen = hn::ShiftRight<16>(hn::IfThenElse(is_nan, quiet, rounded));
  hn::StoreU(hn::DemoteTo(du16, hn::BitCast(di32, chosen)), du16, to);
}

#if HWY_TARGET == HWY_AVX3
// Adds to each sum the two products of a pair in bfloat16, as VDPBF16PS does: denormal inputs are
// taken as 0, and denormal sums made 0. For machines where HasAvx512Bf16() holds. It is written in
// assembler so that what calls it need not be compiled for them.
HWY_INLINE FloatVec AddPair(FloatVec sums, WordVec pairs, WordVec inputs) {
  asm("vdpbf16ps %2, %1, %0" : "+v"(sums.raw) : "v"(pairs.raw), "v"(inputs.raw));
  return sums;
}
#endif

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

// Turns blocks of four by four words: block b of the vectors holds words 0 to 3 of rows 4 b to
// 4 b + 3. Calls f.operator()<k>(words) with word k of all of these rows, in order, k from 0 to 3.
template <class D, typename F>
HWY_INLINE void TransposeBlocks(D d, hn::Vec<D> r0, hn::Vec<D> r1, hn::Vec<D> r2, hn::Vec<D> r3,
                                F f) {
  const hn::Repartition<uint64_t, D> d64;
  const auto low01 = hn::BitCast(d64, hn::InterleaveLower(d, r0, r1));
  const auto low23 = hn::BitCast(d64, hn::InterleaveLower(d, r2, r3));
  const auto high01 = hn::BitCast(d64, hn::InterleaveUpper(d, r0, r1));
  const auto high23 = hn::BitCast(d64, hn::InterleaveUpper(d, r2, r3));
  f.template operator()<0>(hn::BitCast(d, hn::InterleaveLower(d64, low01, low23)));
  f.template operator()<1>(hn::BitCast(d, hn::InterleaveUpper(d64, low01, low23)));
  f.template operator()<2>(hn::BitCast(d, hn::InterleaveLower(d64, high01, high23)));
  f.template operator()<3>(hn::BitCast(d, hn::InterleaveUpper(d64, high01, high23)));
}

// Calls f with a null pointer whose type is that of the elements of a KV cache.
template <typename F>
HWY_INLINE void ForKvType(DType dtype, F f) {
  switch (dtype) {
    case DType::kF32:
      return f(static_cast<const float*>(nullptr));
    case DType::kInt8:
      return f(static_cast<const int8_t*>(nullptr));
    case DType::kFp8:
      return f(static_cast<const E4m3*>(nullptr));
    case DType::kBF16:
    case DType::kF16:  // which CheckHostKv refuses
      return f(static_cast<const uint16_t*>(nullptr));
  }
}

HWY_INLINE float Sum(FloatVec value) { return hn::GetLane(hn::SumOfLanes(kFloat, value)); }
HWY_INLINE float Highest(FloatVec value) { return hn::GetLane(hn::MaxOfLanes(kFloat, value)); }

// kernels::ExpF32, operation by operation. What is no number stays none: bounds alone would make a
// small weight of it, and hide that the model is broken.
HWY_INLINE FloatVec Exp(FloatVec given) {
  using C = ExpF32Constants;
  const hn::RebindToSigned<FloatTag> di32;
  const auto lowest = hn::Set(kFloat, C::kMin);
  const auto underflow = hn::Lt(given, lowest);
  const auto x = hn::Min(hn::Max(given, lowest), hn::Set(kFloat, C::kMax));
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
  return hn::IfThenElse(hn::IsNaN(given), given, hn::IfThenZeroElse(underflow, scaled));
}

}  // namespace baton::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // BATON_CPU_TARGET

#endif  // toggle
