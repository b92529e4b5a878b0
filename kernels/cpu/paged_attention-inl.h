// Tile kernels of paged attention. Compiled once per target: no include guard but a toggle.
#if defined(BATON_KERNELS_CPU_PAGED_ATTENTION_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BATON_KERNELS_CPU_PAGED_ATTENTION_INL_H_
#undef BATON_KERNELS_CPU_PAGED_ATTENTION_INL_H_
#else
#define BATON_KERNELS_CPU_PAGED_ATTENTION_INL_H_
#endif

#include <algorithm>
#include <type_traits>

#include "kernels/attention_split.h"
#include "kernels/cpu/vec-inl.h"
#include "kernels/float_convert.h"

#if BATON_CPU_TARGET
HWY_BEFORE_NAMESPACE();
namespace baton::kernels::cpu::HWY_NAMESPACE {

// How many tokens the largest tile has.
inline int32_t AttentionTile(int32_t block_size) {
  return std::min(block_size, kAttentionSplitTokens);
}

// Scratch of one task, cut from one allocation. Widths are padded to 16 floats on every target.
struct AttentionMemory {
  static constexpr int64_t kPad = 16;
  // The scores of a split, and room for those that a tile writes beyond it.
  static constexpr int64_t kScoreStride = kAttentionSplitTokens + kPad;
  static int64_t Padded(int64_t n) { return (n + kPad - 1) / kPad * kPad; }
  static size_t Floats(int64_t rows, int64_t dim, int64_t tile) {
    const int64_t dim_padded = Padded(dim);
    return static_cast<size_t>(3 * rows * dim_padded + rows * kScoreStride +
                               Padded(dim + 1) * Padded(tile) + tile * dim_padded + Padded(tile) +
                               4 * Padded(rows));
  }

  AttentionMemory(float* scratch, int64_t rows, int64_t dim, int64_t tile)
      : dim_padded(Padded(dim)), tile_padded(Padded(tile)) {
    const auto take = [&scratch](int64_t count) {
      float* part = scratch;
      scratch += count;
      return part;
    };
    queries_ = take(rows * dim_padded);
    outs_ = take(rows * dim_padded);
    split_outs_ = take(rows * dim_padded);
    scores_ = take(rows * kScoreStride);
    keys = take(Padded(dim + 1) * tile_padded);
    values = take(tile * dim_padded);
    key_scales = take(tile_padded);
    highest = take(Padded(rows));
    total = take(Padded(rows));
    split_highest = take(Padded(rows));
    split_total = take(Padded(rows));
    dim_ = dim;
  }

  // The results of a split for `rows` rows, as they are kept outside of the scratch.
  static int64_t SplitFloats(int64_t rows, int64_t dim) { return rows * (Padded(dim) + 2); }
  void SaveSplit(int64_t rows, float* to) const {
    to = std::copy_n(split_outs_, rows * dim_padded, to);
    to = std::copy_n(split_highest, rows, to);
    std::copy_n(split_total, rows, to);
  }
  void LoadSplit(int64_t rows, const float* from) {
    std::copy_n(from, rows * dim_padded, split_outs_);
    std::copy_n(from + rows * dim_padded, rows, split_highest);
    std::copy_n(from + rows * (dim_padded + 1), rows, split_total);
  }

  float* query(int64_t row) { return queries_ + row * dim_; }   // [rows, dim]
  float* out(int64_t row) { return outs_ + row * dim_padded; }  // [rows, dim_padded]
  float* split_out(int64_t row) { return split_outs_ + row * dim_padded; }
  float* score(int64_t row) { return scores_ + row * kScoreStride; }  // [rows, kScoreStride]

  int64_t dim_padded;
  int64_t tile_padded;
  float* keys;        // [dim, tile_padded], transposed
  float* values;      // [tile, dim_padded]
  float* key_scales;  // [tile_padded]: what q·k of each token is multiplied by
  float* highest;
  float* total;
  float* split_highest;
  float* split_total;

 private:
  int64_t dim_;
  float* queries_;
  float* outs_;
  float* split_outs_;
  float* scores_;
};

// What is read after what is computed now. It is fetched evenly meanwhile: many requests at once
// would wait for each other, and the products for them. Blocks lie far apart, so the processor does
// not guess them. It goes to the second-level cache: the first one may wait for few lines at a
// time.
struct ReadAhead {
  const std::byte* next = nullptr;
  const std::byte* end = nullptr;
  // Fetches the lines of so many bytes, unless all have been.
  template <int64_t kBytes>
  HWY_INLINE void Fetch() {
    if (next >= end) return;
#pragma GCC unroll 4
    for (int64_t i = 0; i < kBytes; i += 64) __builtin_prefetch(next + i, 0, 2);
    next += std::max<int64_t>(kBytes, 64);
  }
};

using Words = hn::RebindToUnsigned<FloatTag>;

// Vector of 128-bit blocks: block b holds the four words at from + 4 b stride.
template <class D>
HWY_INLINE hn::Vec<D> LoadBlocks(D d, const uint32_t* from, int64_t stride) {
  if constexpr (sizeof(hn::Vec<D>) == 16) {
    return hn::LoadU(d, from);
  } else {
    const hn::Half<D> half;
    constexpr int64_t kUpper = sizeof(hn::Vec<D>) / 8;
    return hn::Combine(d, LoadBlocks(half, from + kUpper * stride, stride),
                       LoadBlocks(half, from, stride));
  }
}

// Whether a row of the cache ends in a scale of its own, and that scale.
template <typename Kv>
constexpr bool kHasScales = std::is_same_v<Kv, int8_t>;

HWY_INLINE float ScaleOf(const int8_t* row, int64_t dim) {
  float scale;
  std::memcpy(&scale, row + dim, sizeof(scale));
  return scale;
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

// Calls f.operator()<kIndex>(floats) for the elements of each word, a code without its scale: a
// word is an fp32 element, a pair of bf16 elements with the even one in its low half, or four codes
// with the first one in its lowest byte.
template <class D, typename Kv, typename F>
HWY_INLINE void ForEachElement(D d, hn::Vec<D> words, const Kv* type, F f) {
  const hn::RebindToFloat<D> df;
  if constexpr (sizeof(Kv) == 1) {
    f.template operator()<0>(CodesToFloats<0>(d, words, type));
    f.template operator()<1>(CodesToFloats<1>(d, words, type));
    f.template operator()<2>(CodesToFloats<2>(d, words, type));
    f.template operator()<3>(CodesToFloats<3>(d, words, type));
  } else if constexpr (sizeof(Kv) == 4) {
    f.template operator()<0>(hn::BitCast(df, words));
  } else {
    f.template operator()<0>(hn::BitCast(df, hn::ShiftLeft<16>(words)));
    f.template operator()<1>(hn::BitCast(df, hn::And(words, hn::Set(d, 0xffff0000))));
  }
}

// How many elements a word has.
template <typename Kv>
constexpr int kInWord = static_cast<int>(4 / sizeof(Kv));

// Of as many tokens as D has lanes, whose rows of `dim` elements are `row` elements apart: calls
// f.operator()<k>(i, words) for each column i + k of words, in order, k from 0 to 3.
template <class D, typename Kv, typename F>
HWY_INLINE void ForEachColumn(D d, const Kv* from, int64_t dim, int64_t row, F f) {
  const int64_t width = dim / kInWord<Kv>;
  const int64_t apart = row / kInWord<Kv>;
  const auto* words = reinterpret_cast<const uint32_t*>(from);
  for (int64_t i = 0; i < width; i += 4) {
    const auto r0 = LoadBlocks(d, words + i, apart);
    const auto r1 = LoadBlocks(d, words + i + apart, apart);
    const auto r2 = LoadBlocks(d, words + i + 2 * apart, apart);
    const auto r3 = LoadBlocks(d, words + i + 3 * apart, apart);
    TransposeBlocks(d, r0, r1, r2, r3, [&]<int kColumn>(hn::Vec<D> column) {
      f.template operator()<kColumn>(i, column);
    });
  }
}

// keys [dim, stride] = transposed rows of as many tokens as D has lanes.
template <class D, typename Kv>
HWY_INLINE void TransposeTokens(D d, const Kv* from, int64_t dim, int64_t row, int64_t stride,
                                float* keys) {
  ForEachColumn(d, from, dim, row, [&]<int kColumn>(int64_t i, hn::Vec<D> words) {
    float* const to = keys + (i + kColumn) * kInWord<Kv> * stride;
    ForEachElement(d, words, from, [&]<int kIndex>(hn::Vec<hn::RebindToFloat<D>> floats) {
      hn::StoreU(floats, hn::RebindToFloat<D>(), to + kIndex * stride);
    });
  });
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

// keys [dim, stride] fp32 from a K tile [tile, dim] with rows `row` elements apart; dim is a
// multiple of 8, of codes one of 16. Columns from `tile` on are left as they are: their scores are
// masked.
template <typename Kv>
void TransposeKeys(const Kv* from, int64_t tile, int64_t dim, int64_t row, int64_t stride,
                   float* keys) {
  int64_t token = 0;
  for (; token + kLanes <= tile; token += kLanes) {
    TransposeTokens(Words(), from + token * row, dim, row, stride, keys + token);
  }
  for (; token + 4 <= tile; token += 4) {
    TransposeTokens(hn::FixedTag<uint32_t, 4>(), from + token * row, dim, row, stride,
                    keys + token);
  }
  for (; token < tile; ++token) {
    for (int64_t i = 0; i < dim; ++i) keys[i * stride + token] = ElementOf(from + token * row + i);
  }
}

// Scores of kRows rows against one vector of tokens: the sum of the even and the odd products.
template <int kRows>
HWY_INLINE void ScoreTile(const float* queries, int64_t dim, const float* keys, int64_t stride,
                          FloatVec scale, float* scores, int64_t score_stride, ReadAhead& ahead) {
  FloatVec even[kRows];
  FloatVec odd[kRows];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) even[r] = odd[r] = hn::Zero(kFloat);
  for (int64_t i = 0; i < dim; i += 2) {
    ahead.Fetch<64>();
    const auto k0 = hn::LoadU(kFloat, keys + i * stride);
    const auto k1 = hn::LoadU(kFloat, keys + (i + 1) * stride);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      even[r] = hn::MulAdd(hn::Set(kFloat, queries[r * dim + i]), k0, even[r]);
      odd[r] = hn::MulAdd(hn::Set(kFloat, queries[r * dim + i + 1]), k1, odd[r]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    hn::StoreU(hn::Mul(hn::Add(even[r], odd[r]), scale), kFloat, scores + r * score_stride);
  }
}

// As ScoreTile, of keys as they lie in the cache, `row` elements apart: few rows are multiplied
// with less work than transposed keys take to be stored and loaded again.
template <int kRows, typename Kv>
void ScoreFew(const float* queries, int64_t dim, const Kv* keys, int64_t row, FloatVec scale,
              float* scores, int64_t score_stride, ReadAhead& ahead) {
  FloatVec sums[2][kRows];  // of even and of odd elements
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) sums[0][r] = sums[1][r] = hn::Zero(kFloat);
  ForEachColumn(Words(), keys, dim, row, [&]<int kColumn>(int64_t i, hn::Vec<Words> words) {
    ahead.Fetch<sizeof(words)>();
    const float* const of_column = queries + i * kInWord<Kv>;
    ForEachElement(Words(), words, keys, [&]<int kIndex>(FloatVec key) {
      constexpr int kElement = kColumn * kInWord<Kv> + kIndex;
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        const auto query = hn::Set(kFloat, of_column[r * dim + kElement]);
        sums[kElement % 2][r] = hn::MulAdd(query, key, sums[kElement % 2][r]);
      }
    });
  });
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    hn::StoreU(hn::Mul(hn::Add(sums[0][r], sums[1][r]), scale), kFloat, scores + r * score_stride);
  }
}

HWY_INLINE void ScoreRows(const float* queries, int64_t dim, const float* keys, int64_t stride,
                          const float* scales, float* scores, int64_t score_stride, int32_t begin,
                          int32_t end, ReadAhead ahead) {
  // 2 accumulators a row: 8 rows fill the 32 registers of AVX-512, 4 the 16 of AVX2.
  constexpr int kRows = kLanes == 16 ? 8 : 4;
  for (int64_t column = 0; column < stride; column += kLanes) {
    const auto scale = hn::LoadU(kFloat, scales + column);
    int32_t row = begin;
    const auto run = [&]<int kCount>() {
      for (; row + kCount <= end; row += kCount) {
        ScoreTile<kCount>(queries + row * dim, dim, keys + column, stride, scale,
                          scores + row * score_stride + column, score_stride, ahead);
      }
    };
    run.template operator()<kRows>();
    run.template operator()<4>();
    run.template operator()<1>();
  }
}

// values [tile, dim_padded] fp32 from a V tile [tile, dim] with rows `row` elements apart.
template <typename Kv>
void ValuesToFloats(const Kv* from, int64_t tile, int64_t dim, int64_t row, int64_t dim_padded,
                    float* values) {
  for (int64_t token = 0; token < tile; ++token) {
    const Kv* const of_token = from + token * row;
    float scale = 1;
    if constexpr (kHasScales<Kv>) scale = ScaleOf(of_token, dim);
    ForEachVector(dim, [&](int64_t i, int64_t count) {
      auto value = LoadPartial(of_token + i, count);
      if constexpr (kHasScales<Kv>) value = hn::Mul(value, hn::Set(kFloat, scale));
      hn::StoreU(value, kFloat, values + token * dim_padded + i);
    });
  }
}

// A vector of a token's values, as they lie in the cache or as ValuesToFloats left them.
HWY_INLINE FloatVec ValueOf(const float* values, int64_t i, int64_t /*dim*/) {
  return hn::LoadU(kFloat, values + i);
}
template <typename Kv>
HWY_INLINE FloatVec ValueOf(const Kv* values, int64_t i, int64_t dim) {
  const auto value = LoadAsF32(values + i);
  if constexpr (kHasScales<Kv>) return hn::Mul(value, hn::Set(kFloat, ScaleOf(values, dim)));
  return value;
}

// out[kRows, kVectors] += weights [kRows, tokens] x values [tokens, kVectors], token by token.
template <int kRows, int kVectors, typename V>
HWY_INLINE void AddTile(const float* weights, const V* values, int64_t value_stride, int64_t dim,
                        int64_t column, float* out, int64_t out_stride, int32_t begin, int32_t end,
                        ReadAhead& ahead) {
  FloatVec sums[kRows][kVectors];
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      sums[r][v] = hn::LoadU(kFloat, out + r * out_stride + column + v * kLanes);
    }
  }
  for (int32_t token = begin; token < end; ++token) {
    ahead.Fetch<kVectors * kLanes * sizeof(uint16_t)>();
    FloatVec value[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      value[v] = ValueOf(values + token * value_stride, column + v * kLanes, dim);
    }
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      const auto weight = hn::Set(kFloat, weights[r * AttentionMemory::kScoreStride + token]);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) sums[r][v] = hn::MulAdd(weight, value[v], sums[r][v]);
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      hn::StoreU(sums[r][v], kFloat, out + r * out_stride + column + v * kLanes);
    }
  }
}

// Rows [begin, end) of out [rows, stride] += weights x values over tokens [first, last).
template <typename V>
HWY_INLINE void AddValues(const float* weights, const V* values, int64_t value_stride, int64_t dim,
                          float* out, int64_t out_stride, int32_t begin, int32_t end, int32_t first,
                          int32_t last, ReadAhead& ahead) {
  constexpr int kVectors = kLanes == 16 ? 4 : 2;
  const auto run = [&]<int kRows, int kColumns>(int32_t row, int64_t column) {
    AddTile<kRows, kColumns>(weights + row * AttentionMemory::kScoreStride, values, value_stride,
                             dim, column, out + row * out_stride, out_stride, first, last, ahead);
  };
  const auto for_rows = [&]<int kColumns>(int64_t column) {
    int32_t row = begin;
    for (; row + 4 <= end; row += 4) run.template operator()<4, kColumns>(row, column);
    for (; row < end; ++row) run.template operator()<1, kColumns>(row, column);
  };
  int64_t column = 0;
  for (; column + kVectors * kLanes <= out_stride; column += kVectors * kLanes) {
    for_rows.template operator()<kVectors>(column);
  }
  for (; column < out_stride; column += kLanes) for_rows.template operator()<1>(column);
}

}  // namespace baton::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // BATON_CPU_TARGET

#endif  // toggle
