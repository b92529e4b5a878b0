// The elements of a KV cache's rows. Compiled once per target: no include guard but a toggle.
#if defined(BATON_KERNELS_CPU_ATTENTION_KV_ELEMENTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BATON_KERNELS_CPU_ATTENTION_KV_ELEMENTS_INL_H_
#undef BATON_KERNELS_CPU_ATTENTION_KV_ELEMENTS_INL_H_
#else
#define BATON_KERNELS_CPU_ATTENTION_KV_ELEMENTS_INL_H_
#endif

#include <cstring>
#include <type_traits>

#include "kernels/cpu/vec-inl.h"
#include "kernels/float_convert.h"

#if BATON_CPU_TARGET
HWY_BEFORE_NAMESPACE();
namespace baton::kernels::cpu::HWY_NAMESPACE {

// Whether a row of the cache ends in a scale of its own, and that scale.
template <typename Kv>
constexpr bool kHasScales = std::is_same_v<Kv, int8_t>;

HWY_INLINE float ScaleOf(const int8_t* row, int64_t dim) {
  float scale;
  std::memcpy(&scale, row + dim, sizeof(scale));
  return scale;
}
// Those of a vector of rows, which are `row` elements apart.
HWY_INLINE FloatVec ScalesOf(const int8_t* rows, int64_t row, int64_t dim) {
  HWY_ALIGN float scales[kLanes];
  for (int64_t i = 0; i < kLanes; ++i) scales[i] = ScaleOf(rows + i * row, dim);
  return hn::Load(kFloat, scales);
}

// Byte kByte of each word as fp32, a code without its scale.
template <int kByte, class D>
HWY_INLINE hn::Vec<hn::RebindToFloat<D>> CodesToFloats(D /*d*/, hn::Vec<D> words,
                                                       const int8_t* /*type*/) {
  const hn::RebindToSigned<D> di32;
  const auto top = hn::BitCast(di32, hn::ShiftLeft<24 - 8 * kByte>(words));
  return hn::ConvertTo(hn::RebindToFloat<D>(), hn::ShiftRight<24>(top));
}
template <int kByte, class D>
HWY_INLINE hn::Vec<hn::RebindToFloat<D>> CodesToFloats(D d, hn::Vec<D> words,
                                                       const E4m3* /*type*/) {
  return FloatsFromE4m3(d, hn::ShiftRight<8 * kByte>(words));
}

// One element of a tile, a code without its scale.
template <typename Kv>
HWY_INLINE float ElementOf(const Kv* from) {
  if constexpr (std::is_same_v<Kv, uint16_t>) {
    return FloatFromBf16(*from);
  } else if constexpr (std::is_same_v<Kv, E4m3>) {
    return FloatFromE4m3(static_cast<uint8_t>(*from));
  } else {
    return static_cast<float>(*from);
  }
}

}  // namespace baton::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // BATON_CPU_TARGET

#endif  // toggle
