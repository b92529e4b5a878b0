// How attention in pairs of bfloat16 multiplies weights and values. Compiled once per target: no
// include guard but a toggle.
#if defined(BATON_KERNELS_CPU_ATTENTION_PAIR_VALUES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BATON_KERNELS_CPU_ATTENTION_PAIR_VALUES_INL_H_
#undef BATON_KERNELS_CPU_ATTENTION_PAIR_VALUES_INL_H_
#else
#define BATON_KERNELS_CPU_ATTENTION_PAIR_VALUES_INL_H_
#endif

#include <array>
#include <cstring>

#include "kernels/cpu/attention/attention_tile-inl.h"
#include "kernels/cpu/attention/kv_elements-inl.h"

#if HWY_TARGET == HWY_AVX3
HWY_BEFORE_NAMESPACE();
namespace baton::kernels::cpu::HWY_NAMESPACE {

// A word is a pair in bfloat16, with the first one in its low half: of two elements of a query or a
// key, of the weights of two tokens, or of two tokens' values in one column. It may be read from
// where it was not written as a word.
HWY_INLINE WordVec BroadcastPair(const void* pair) {
  uint32_t word;
  std::memcpy(&word, pair, sizeof(word));
  return hn::Set(WordTag(), word);
}

// Rounds to bfloat16, nearest even, a vector behind another; denormal numbers become 0.
HWY_INLINE WordVec RoundToPairs(FloatVec low, FloatVec high) {
  WordVec pairs;
  asm("vcvtne2ps2bf16 %2, %1, %0" : "=v"(pairs.raw) : "v"(high.raw), "v"(low.raw));
  return pairs;
}

// How many elements in bfloat16 a vector has.
constexpr int64_t kBf16Lanes = 2 * kLanes;
using Bf16Tag = hn::Repartition<uint16_t, FloatTag>;
// Of two tokens, the pairs of as many columns: of every eight the first four are in the first
// vector and the others in the second.
using ColumnPairs = std::array<WordVec, 2>;

// Which tokens of a pair are multiplied. The other may be what nobody wrote: zeros take its place.
enum class Tokens { kBoth, kFirst, kSecond };

// Values of a tile as they lie in the cache, with rows of `dim` elements that are `row` apart. A
// code is multiplied by its row's scale and rounded to bfloat16.
template <typename Kv>
struct StoredValues {
  const Kv* from;
  int64_t row;
  int64_t dim;

  // Of one token, the columns from `column` on: a vector, or if kPartial fewer and zeros.
  template <bool kPartial>
  HWY_INLINE hn::Vec<Bf16Tag> Token(int64_t token, int64_t column) const {
    const Kv* const at = from + token * row + column;
    if constexpr (sizeof(Kv) == 1) {
      auto first = LoadAsF32(at);
      auto second = hn::Zero(kFloat);  // a row of codes has whole vectors of fp32
      if constexpr (!kPartial) second = LoadAsF32(at + kLanes);
      if constexpr (kHasScales<Kv>) {
        const auto scale = hn::Set(kFloat, ScaleOf(from + token * row, dim));
        first = hn::Mul(first, scale);
        second = hn::Mul(second, scale);
      }
      return hn::BitCast(Bf16Tag(), RoundToPairs(first, second));
    } else if constexpr (kPartial) {
      const auto mask = hn::FirstN(Bf16Tag(), static_cast<size_t>(dim - column));
      return hn::MaskedLoad(mask, Bf16Tag(), at);
    } else {
      return hn::LoadU(Bf16Tag(), at);
    }
  }
  template <bool kPartial, Tokens kTokens>
  HWY_INLINE ColumnPairs Load(int64_t pair, int64_t column) const {
    auto first = hn::Zero(Bf16Tag());
    auto second = first;
    if constexpr (kTokens != Tokens::kSecond) first = Token<kPartial>(2 * pair, column);
    if constexpr (kTokens != Tokens::kFirst) second = Token<kPartial>(2 * pair + 1, column);
    return {hn::BitCast(WordTag(), hn::InterleaveLower(Bf16Tag(), first, second)),
            hn::BitCast(WordTag(), hn::InterleaveUpper(Bf16Tag(), first, second))};
  }
};

// Values of a tile in pairs [tile / 2, width], each vector of columns as two.
struct PairedValues {
  const uint32_t* from;
  int64_t width;

  template <bool /*kPartial*/, Tokens kTokens>
  HWY_INLINE ColumnPairs Load(int64_t pair, int64_t column) const {
    constexpr uint32_t kMask = kTokens == Tokens::kBoth    ? 0xffffffff
                               : kTokens == Tokens::kFirst ? 0x0000ffff
                                                           : 0xffff0000;
    const uint32_t* const at = from + pair * width + column;
    return {hn::And(hn::LoadU(WordTag(), at), hn::Set(WordTag(), kMask)),
            hn::And(hn::LoadU(WordTag(), at + kLanes), hn::Set(WordTag(), kMask))};
  }
};

// Rows of out [kRows, width] += weights x values, over the tokens `seen` and kVectors vectors of
// columns from `column` on.
template <int kRows, int kVectors, bool kPartial, typename V>
HWY_INLINE void AddPairsTile(const uint32_t* weights, V values, int64_t column, float* out,
                             int64_t width, Positions seen, ReadAhead& ahead) {
  FloatVec sums[kRows][kVectors][2];
  const auto for_each_sum = [&](auto f) {
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < 2 * kVectors; ++v) {
        f(sums[r][v / 2][v % 2], out + r * width + column + v * kLanes);
      }
    }
  };
  for_each_sum([](FloatVec& sum, const float* from) { sum = hn::LoadU(kFloat, from); });
  const auto add = [&]<Tokens kTokens>(int64_t pair) {
    ColumnPairs value[kVectors];
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      value[v] = values.template Load<kPartial, kTokens>(pair, column + v * kBf16Lanes);
    }
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      const auto weight = BroadcastPair(weights + r * kScoreStride + pair);
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) {
        sums[r][v][0] = AddPair(sums[r][v][0], value[v][0], weight);
        sums[r][v][1] = AddPair(sums[r][v][1], value[v][1], weight);
      }
    }
  };
  int64_t pair = seen.begin / 2;
  if (seen.begin % 2 != 0) add.template operator()<Tokens::kSecond>(pair++);
  for (; pair < seen.end / 2; ++pair) {
    ahead.Fetch<2 * kVectors * kBf16Lanes * sizeof(uint16_t)>();
    add.template operator()<Tokens::kBoth>(pair);
  }
  if (seen.end % 2 != 0) add.template operator()<Tokens::kFirst>(pair);
  for_each_sum([](const FloatVec& sum, float* to) { hn::StoreU(sum, kFloat, to); });
}

// Rows of out [rows, width] += weights x values, over the tokens `seen`.
template <typename V>
HWY_INLINE void AddPairsRows(const uint32_t* weights, V values, int64_t dim, float* out,
                             int64_t width, RowRange rows, Positions seen, ReadAhead& ahead) {
  const auto for_rows = [&]<int kVectors, bool kPartial>(int64_t column) {
    int32_t row = rows.begin;
    const auto run = [&]<int kRows>() {
      for (; row + kRows <= rows.end; row += kRows) {
        AddPairsTile<kRows, kVectors, kPartial>(weights + row * kScoreStride, values, column,
                                                out + row * width, width, seen, ahead);
      }
    };
    run.template operator()<4>();
    run.template operator()<2>();
    run.template operator()<1>();
  };
  int64_t column = 0;
  for (; column + 2 * kBf16Lanes <= dim; column += 2 * kBf16Lanes) {
    for_rows.template operator()<2, false>(column);
  }
  for (; column + kBf16Lanes <= dim; column += kBf16Lanes)
    for_rows.template operator()<1, false>(column);
  if (column < dim) for_rows.template operator()<1, true>(column);
}

}  // namespace baton::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // HWY_TARGET == HWY_AVX3

#endif  // toggle
