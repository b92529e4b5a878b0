// How the integers of a quantized weight and what scales them come into registers. Highway includes
// this once for each instruction set that it compiles, so it has a toggle in place of an include
// guard.
#if defined(BATON_KERNELS_CPU_QUANTIZED_CODES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BATON_KERNELS_CPU_QUANTIZED_CODES_INL_H_
#undef BATON_KERNELS_CPU_QUANTIZED_CODES_INL_H_
#else
#define BATON_KERNELS_CPU_QUANTIZED_CODES_INL_H_
#endif

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/panel_gemm.h"
#include "kernels/cpu/quantized_weight.h"
#include "kernels/cpu/vec-inl.h"

#if BATON_CPU_TARGET
HWY_BEFORE_NAMESPACE();
namespace baton::kernels::cpu::HWY_NAMESPACE {

using IntTag = hn::RebindToSigned<FloatTag>;
using IntVec = hn::Vec<IntTag>;
constexpr IntTag kInt;

constexpr int kParts = static_cast<int>(kPanelWidth / kLanes);  // vectors of a panel's width

// Integers of 8 bits: a column is 16 bytes.
struct Codes8 {
  static constexpr int kStep = 1;  // columns that are loaded at once
  // The column's integers of the outputs that begin at `part` vectors.
  using Loaded = FloatVec;
  static HWY_INLINE Loaded Load(const std::byte* codes, int64_t step, int part) {
    const hn::Rebind<int8_t, FloatTag> bytes;
    const auto* from = reinterpret_cast<const int8_t*>(codes) + step * kPanelWidth + part * kLanes;
    return hn::ConvertTo(kFloat, hn::PromoteTo(kInt, hn::LoadU(bytes, from)));
  }
  template <int kColumn>
  static HWY_INLINE FloatVec Get(const Loaded& loaded) {
    return loaded;
  }
};

// Integers of 4 bits: eight columns are 16 words. A code becomes a number where it stands in its
// word, so all but the last are too large by a power of two, which is taken off the input instead:
// see WidenQuantizedRows. That is exact, and saves shifts.
struct Codes4 {
  static constexpr int kStep = 8;
  using Loaded = IntVec;
  static HWY_INLINE Loaded Load(const std::byte* codes, int64_t step, int part) {
    const auto* from = reinterpret_cast<const int32_t*>(codes) + step * kPanelWidth + part * kLanes;
    return hn::LoadU(kInt, from);
  }
  template <int kColumn>
  static HWY_INLINE FloatVec Get(const Loaded& loaded) {
    if constexpr (kColumn == 7) {
      const hn::RebindToUnsigned<FloatTag> words;
      return hn::ConvertTo(kFloat,
                           hn::BitCast(kInt, hn::ShiftRight<28>(hn::BitCast(words, loaded))));
    } else {
      return hn::ConvertTo(kFloat, hn::And(loaded, hn::Set(kInt, 0xf << (4 * kColumn))));
    }
  }
};

template <int kColumn, int kColumns, typename F>
HWY_INLINE void ForEachColumn(F f) {
  if constexpr (kColumn < kColumns) {
    f.template operator()<kColumn>();
    ForEachColumn<kColumn + 1, kColumns>(f);
  }
}

HWY_INLINE FloatVec LoadScales(const QuantizedLayout& layout, const std::byte* record, int part) {
  const std::byte* scales = record + layout.code_bytes();
  if (layout.scale_dtype == DType::kF32) {
    return hn::LoadU(kFloat, reinterpret_cast<const float*>(scales) + part * kLanes);
  }
  const auto* bits = reinterpret_cast<const uint16_t*>(scales) + part * kLanes;
  if (layout.scale_dtype == DType::kBF16) return LoadAsF32(bits);
  const hn::Rebind<hwy::float16_t, FloatTag> halves;
  return hn::PromoteTo(kFloat, hn::LoadU(halves, reinterpret_cast<const hwy::float16_t*>(bits)));
}

HWY_INLINE FloatVec LoadZeros(const QuantizedLayout& layout, const std::byte* record, int part) {
  const hn::Rebind<int16_t, FloatTag> shorts;
  const auto* zeros =
      reinterpret_cast<const int16_t*>(record + layout.code_bytes() + layout.scale_bytes());
  return hn::ConvertTo(kFloat, hn::PromoteTo(kInt, hn::LoadU(shorts, zeros + part * kLanes)));
}

HWY_INLINE FloatVec LoadMinimums(const QuantizedLayout& layout, const std::byte* record, int part) {
  const auto* minimums = reinterpret_cast<const float*>(record + layout.code_bytes() +
                                                        layout.scale_bytes() + layout.zero_bytes());
  return hn::LoadU(kFloat, minimums + part * kLanes);
}

// What a group of columns means, for one vector of outputs.
struct GroupScale {
  FloatVec scale;
  FloatVec offset;   // what stands for 0; undefined where no sums are used
  FloatVec minimum;  // 0 where there are none
  bool has_minimum = false;
};

HWY_INLINE GroupScale LoadGroup(const QuantizedLayout& layout, const std::byte* record, int part) {
  const auto offset =
      layout.zero_points ? LoadZeros(layout, record, part) : hn::Set(kFloat, layout.offset);
  const auto minimum = layout.minimums ? LoadMinimums(layout, record, part) : hn::Zero(kFloat);
  return {LoadScales(layout, record, part), offset, minimum, layout.minimums};
}

}  // namespace baton::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // BATON_CPU_TARGET

#endif  // toggle
