// How the codes of a quantized weight and what scales them come into registers, and how codes are
// multiplied with those of rounded inputs. Highway includes this once for each instruction set that
// it compiles, so it has a toggle in place of an include guard.
#if defined(BATON_KERNELS_CPU_QUANTIZED_CODES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BATON_KERNELS_CPU_QUANTIZED_CODES_INL_H_
#undef BATON_KERNELS_CPU_QUANTIZED_CODES_INL_H_
#else
#define BATON_KERNELS_CPU_QUANTIZED_CODES_INL_H_
#endif

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/cpu/panel_gemm.h"
#include "kernels/cpu/quantized_weight.h"
#include "kernels/cpu/vec-inl.h"

#if BATON_CPU_TARGET
HWY_BEFORE_NAMESPACE();
namespace baton::kernels::cpu::HWY_NAMESPACE {

using IntTag = hn::RebindToSigned<FloatTag>;
using IntVec = hn::Vec<IntTag>;
using ShortTag = hn::Repartition<int16_t, FloatTag>;
using ShortVec = hn::Vec<ShortTag>;
// Four neighbouring columns of every output.
using ByteTag = hn::Repartition<uint8_t, FloatTag>;
using ByteVec = hn::Vec<ByteTag>;
using InputTag = hn::Repartition<int8_t, FloatTag>;
using InputVec = hn::Vec<InputTag>;
constexpr IntTag kInt;
constexpr ShortTag kShort;
constexpr ByteTag kByte;
constexpr InputTag kInput;

constexpr int kParts = static_cast<int>(kPanelWidth / kLanes);  // vectors of a panel's width
constexpr int64_t kStepBytes = 4 * kPanelWidth;                 // of a step of both kinds of codes

HWY_INLINE ByteVec LoadStep(const std::byte* codes, int64_t step, int part) {
  const auto* from = reinterpret_cast<const uint8_t*>(codes) + step * kStepBytes;
  return hn::LoadU(kByte, from + part * hn::Lanes(kByte));
}

// The lower (kHalf 0) or upper four bits of every byte.
template <int kHalf>
HWY_INLINE ByteVec HalfBytes(ByteVec bytes) {
  const hn::Repartition<uint16_t, FloatTag> words;
  if constexpr (kHalf == 1) {
    bytes = hn::BitCast(kByte, hn::ShiftRight<4>(hn::BitCast(words, bytes)));
  }
  return hn::And(bytes, hn::Set(kByte, 15));
}

// Codes of 8 and 4 bits: how many columns are loaded at once, and four of them.
struct Codes8 {
  static constexpr int kBits = 8;
  static constexpr int kStep = 4;
  template <int kQuad>
  static HWY_INLINE ByteVec Get(ByteVec loaded) {
    return loaded;
  }
};
struct Codes4 {
  static constexpr int kBits = 4;
  static constexpr int kStep = 8;
  template <int kQuad>
  static HWY_INLINE ByteVec Get(ByteVec loaded) {
    return HalfBytes<kQuad>(loaded);
  }
};

// Sums of products of neighbouring pairs of bytes, at most 32767, and of 16 bits.
HWY_INLINE ShortVec PairSums(ByteVec a, InputVec b) {
#if HWY_TARGET == HWY_AVX3
  return ShortVec{_mm512_maddubs_epi16(a.raw, b.raw)};
#else
  return ShortVec{_mm256_maddubs_epi16(a.raw, b.raw)};
#endif
}
HWY_INLINE IntVec PairSums(ShortVec a, ShortVec b) {
#if HWY_TARGET == HWY_AVX3
  return IntVec{_mm512_madd_epi16(a.raw, b.raw)};
#else
  return IntVec{_mm256_madd_epi16(a.raw, b.raw)};
#endif
}

// The four codes at `x` for every output.
HWY_INLINE InputVec LoadInputs(const int8_t* x) {
  int32_t four;
  std::memcpy(&four, x, sizeof(four));
  return hn::BitCast(kInput, hn::Set(kInt, four));
}

// Sums of products of up to 32 codes of a weight with codes of inputs, which are exact. These sum
// pairs of products in 16 bits, which hold eight times two of 15 * 127; so codes of 8 bits are
// multiplied by halves.
template <typename Codes>
struct PlainDots {
  static constexpr int kRegisters = Codes::kBits / 4;
  struct Sums {
    ShortVec halves[kRegisters];
  };
  using Weights = Sums;  // codes, two to an element

  static HWY_INLINE Sums Begin(IntVec /*start*/) {
    Sums sums;
    for (auto& half : sums.halves) half = hn::Zero(kShort);
    return sums;
  }
  static HWY_INLINE Weights Of(ByteVec codes) {
    Weights weights;
    if constexpr (kRegisters == 1) {
      weights.halves[0] = hn::BitCast(kShort, codes);
    } else {
      weights.halves[0] = hn::BitCast(kShort, HalfBytes<0>(codes));
      weights.halves[1] = hn::BitCast(kShort, HalfBytes<1>(codes));
    }
    return weights;
  }
  static HWY_INLINE Sums Add(const Weights& weights, const int8_t* x, Sums sums) {
    const InputVec inputs = LoadInputs(x);
    for (int i = 0; i < kRegisters; ++i) {
      const auto codes = hn::BitCast(kByte, weights.halves[i]);
      sums.halves[i] = hn::Add(sums.halves[i], PairSums(codes, inputs));
    }
    return sums;
  }
  // start + the sums.
  static HWY_INLINE IntVec Value(const Sums& sums, IntVec start) {
    for (int i = 0; i < kRegisters; ++i) {
      const auto factor = hn::Set(kShort, static_cast<int16_t>(i == 0 ? 1 : 16));
      start = hn::Add(start, PairSums(sums.halves[i], factor));
    }
    return start;
  }
};

#if HWY_TARGET == HWY_AVX3
struct __attribute__((may_alias)) FourInputs {
  int8_t codes[4];
};

// The same by VPDPBUSD, which multiplies four and adds them to 32 bits. The assembler's way keeps
// the rest of the file at AVX-512 alone.
template <typename Codes>
struct VnniDots {
  static constexpr int kRegisters = 1;
  using Sums = IntVec;
  using Weights = ByteVec;

  static HWY_INLINE Sums Begin(IntVec start) { return start; }
  static HWY_INLINE Weights Of(ByteVec codes) { return codes; }
  static HWY_INLINE Sums Add(Weights weights, const int8_t* x, Sums sums) {
    asm("vpdpbusd %2%{1to16%}, %1, %0"
        : "+v"(sums.raw)
        : "v"(weights.raw), "m"(*reinterpret_cast<const FourInputs*>(x)));
    return sums;
  }
  static HWY_INLINE IntVec Value(const Sums& sums, IntVec /*start*/) { return sums; }
};
#endif

template <int kFirst, int kEnd, typename F>
HWY_INLINE void ForEach(F f) {
  if constexpr (kFirst < kEnd) {
    f.template operator()<kFirst>();
    ForEach<kFirst + 1, kEnd>(f);
  }
}

HWY_INLINE FloatVec LoadHalves(const std::byte* from) {
  const hn::Rebind<hwy::float16_t, FloatTag> halves;
  return hn::PromoteTo(kFloat, hn::LoadU(halves, reinterpret_cast<const hwy::float16_t*>(from)));
}

// The scales or minimums of a group, which lie at `numbers`, and their units.
HWY_INLINE FloatVec LoadNumbers(const QuantizedLayout& layout, const std::byte* numbers,
                                const std::byte* units, int part) {
  numbers += part * kLanes * SizeOf(layout.scale_dtype);
  if (layout.units()) {
    const hn::Rebind<int8_t, FloatTag> bytes;
    const auto steps = hn::LoadU(bytes, reinterpret_cast<const int8_t*>(numbers));
    const auto unit = LoadHalves(units + part * kLanes * sizeof(hwy::float16_t));
    return hn::Mul(hn::ConvertTo(kFloat, hn::PromoteTo(kInt, steps)), unit);
  }
  if (layout.scale_dtype == DType::kF32) {
    return hn::LoadU(kFloat, reinterpret_cast<const float*>(numbers));
  }
  if (layout.scale_dtype == DType::kF16) return LoadHalves(numbers);
  return LoadAsF32(reinterpret_cast<const uint16_t*>(numbers));
}

// What comes off every number of a group: zero points times scales, plus minimums.
HWY_INLINE FloatVec LoadMinimums(const QuantizedLayout& layout, const std::byte* numbers,
                                 const std::byte* units, int part, FloatVec scales) {
  const std::byte* zeros = numbers + layout.scale_bytes();
  const auto minimum = layout.minimums ? LoadNumbers(layout, zeros + layout.zero_bytes(),
                                                     units + layout.unit_bytes() / 2, part)
                                       : hn::Zero(kFloat);
  if (!layout.zero_points) return minimum;
  const hn::Rebind<int16_t, FloatTag> shorts;
  const auto zero = hn::LoadU(shorts, reinterpret_cast<const int16_t*>(zeros) + part * kLanes);
  return hn::MulAdd(hn::ConvertTo(kFloat, hn::PromoteTo(kInt, zero)), scales, minimum);
}

}  // namespace baton::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // BATON_CPU_TARGET

#endif  // toggle
