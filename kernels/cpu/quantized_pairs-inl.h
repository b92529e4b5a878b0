// How the integers of a quantized weight become pairs of bfloat16, and how pairs are multiplied:
// instructions of avx512_bf16, used beside those of AVX-512. Highway includes this once for each
// instruction set that it compiles, so it has a toggle in place of an include guard.
#if defined(BATON_KERNELS_CPU_QUANTIZED_PAIRS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BATON_KERNELS_CPU_QUANTIZED_PAIRS_INL_H_
#undef BATON_KERNELS_CPU_QUANTIZED_PAIRS_INL_H_
#else
#define BATON_KERNELS_CPU_QUANTIZED_PAIRS_INL_H_
#endif

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/quantized_codes-inl.h"
#include "kernels/float_convert.h"

#if HWY_TARGET == HWY_AVX3
HWY_BEFORE_NAMESPACE();
namespace baton::kernels::cpu::HWY_NAMESPACE {

// Pairs of 16 outputs: two columns of each in bfloat16.
using PairTag = hn::Repartition<uint16_t, FloatTag>;
using PairVec = hn::Vec<PairTag>;
constexpr PairTag kPairTag;

struct __attribute__((packed, may_alias)) PairOfInputs {
  uint32_t bits;
};

// sums + both products of every output's pair with a pair of inputs, each added by itself. Denormal
// numbers are taken as 0. The assembler's way keeps the rest of the file at AVX-512 alone.
HWY_INLINE FloatVec AddPair(FloatVec sums, PairVec pairs, PairVec inputs) {
  asm("vdpbf16ps %2, %1, %0" : "+v"(sums.raw) : "v"(pairs.raw), "v"(inputs.raw));
  return sums;
}
// The same with the pair of inputs at `x`.
HWY_INLINE FloatVec AddPair(FloatVec sums, PairVec pairs, const uint16_t* x) {
  asm("vdpbf16ps %2%{1to16%}, %1, %0"
      : "+v"(sums.raw)
      : "v"(pairs.raw), "m"(*reinterpret_cast<const PairOfInputs*>(x)));
  return sums;
}

// The same for the pairs of several vectors, of which `kPanels` at a time share their inputs, those
// at `x` and further ones `distance` apart.
template <int kPanels, size_t kVectors>
HWY_INLINE void AddPairs(const uint16_t* x, int64_t distance, const PairVec (&pairs)[kVectors],
                         FloatVec (&sums)[kVectors]) {
  constexpr int kGroups = static_cast<int>(kVectors) / kPanels;
#pragma GCC unroll 4
  for (int g = 0; g < kGroups; ++g) {
    const uint16_t* at = x + g * distance;
    if constexpr (kPanels == 1) {
      sums[g] = AddPair(sums[g], pairs[g], at);
    } else {
      const auto bits = reinterpret_cast<const PairOfInputs*>(at)->bits;
      const PairVec inputs{_mm512_set1_epi32(static_cast<int>(bits))};
#pragma GCC unroll 4
      for (int p = 0; p < kPanels; ++p) {
        sums[g * kPanels + p] = AddPair(sums[g * kPanels + p], pairs[g * kPanels + p], inputs);
      }
    }
  }
}

// Integers of 4 bits: eight columns are 16 words of 32 bits, or 32 of 16 bits, each with four codes
// of its output, those of columns 0 to 3 in the lower ones and of columns 4 to 7 in the upper ones.
// So the pairs are (0, 4), (1, 5), (2, 6) and (3, 7). A code is looked up by the five bits at its
// place; the table has every entry twice, so the fifth does not matter.
class PairsOf4 {
 public:
  static constexpr int kStep = 8;  // columns that are loaded at once
  static constexpr int64_t kStepBytes = kStep * kPanelWidth / 2;
  HWY_INLINE explicit PairsOf4(const QuantizedLayout& layout) {
    HWY_ALIGN uint16_t values[32];
    for (int code = 0; code < 32; ++code) {
      values[code] = Bf16FromFloat(static_cast<float>(code % 16) - layout.folded_offset());
    }
    table_ = hn::Load(kPairTag, values);
  }
  HWY_INLINE PairVec Load(const std::byte* record, int64_t step) const {
    return hn::LoadU(kPairTag, reinterpret_cast<const uint16_t*>(record) + step * 2 * kPanelWidth);
  }
  template <int kAt>
  HWY_INLINE PairVec Get(PairVec loaded) const {
    const auto at = kAt == 0 ? loaded : hn::ShiftRight<4 * kAt>(loaded);
    return PairVec{_mm512_permutexvar_epi16(at.raw, table_.raw)};
  }

 private:
  PairVec table_;
};

// Integers of 8 bits, each column 16 bytes. They are exact in bfloat16, which is the upper half of
// their fp32.
class PairsOf8 {
 public:
  static constexpr int kStep = 2;
  static constexpr int64_t kStepBytes = kStep * kPanelWidth;
  HWY_INLINE explicit PairsOf8(const QuantizedLayout&) {}
  HWY_INLINE PairVec Load(const std::byte* record, int64_t step) const {
    const hn::RebindToUnsigned<FloatTag> words;
    const auto even = hn::BitCast(words, Codes8::Load(record, 2 * step, 0));
    const auto odd = hn::BitCast(words, Codes8::Load(record, 2 * step + 1, 0));
    return hn::BitCast(kPairTag, hn::Or(hn::ShiftRight<16>(even), odd));
  }
  template <int kAt>
  HWY_INLINE PairVec Get(PairVec loaded) const {
    return loaded;
  }
};

// Brings a row's elements, a multiple of 16, into the order in which AddPairs takes them with
// integers of so many bits: of 4 bits, elements k and k + 4 of every eight are neighbours.
HWY_INLINE void OrderInputs(int bits, int64_t count, uint16_t* inputs) {
  if (bits == 8) return;
  const hn::Rebind<uint16_t, FloatTag> half;
  HWY_ALIGN constexpr uint16_t kOrder[16] = {0, 4, 1, 5, 2, 6, 3, 7, 8, 12, 9, 13, 10, 14, 11, 15};
  const auto order = hn::Load(half, kOrder);
  for (int64_t i = 0; i < count; i += kLanes) {
    const auto from = hn::LoadU(half, inputs + i);
    hn::StoreU(hn::Vec<decltype(half)>{_mm256_permutexvar_epi16(order.raw, from.raw)}, half,
               inputs + i);
  }
}

}  // namespace baton::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // HWY_AVX3

#endif  // toggle
