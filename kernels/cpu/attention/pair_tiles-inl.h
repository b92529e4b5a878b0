// Attention in pairs of bfloat16, over keys and values in bfloat16 or in codes. Compiled once per
// target: no include guard but a toggle.
#if defined(BATON_KERNELS_CPU_ATTENTION_PAIR_TILES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BATON_KERNELS_CPU_ATTENTION_PAIR_TILES_INL_H_
#undef BATON_KERNELS_CPU_ATTENTION_PAIR_TILES_INL_H_
#else
#define BATON_KERNELS_CPU_ATTENTION_PAIR_TILES_INL_H_
#endif

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "kernels/cpu/attention/attention_tile-inl.h"
#include "kernels/cpu/attention/pair_values-inl.h"

#if HWY_TARGET == HWY_AVX3
HWY_BEFORE_NAMESPACE();
namespace baton::kernels::cpu::HWY_NAMESPACE {

// Calls f.operator()<kIndex>(pairs) for the elements of each word in pairs, codes without their
// scale: a word is a pair already or four codes. Codes are exact in bfloat16, the upper half of
// fp32.
template <class D, typename Kv, typename F>
HWY_INLINE void ForEachPair(D d, hn::Vec<D> words, const Kv* type, F f) {
  if constexpr (sizeof(Kv) == 1) {
    const auto pairs_of = [&](auto first, auto second) {
      return hn::Or(hn::ShiftRight<16>(hn::BitCast(d, first)), hn::BitCast(d, second));
    };
    f.template operator()<0>(
        pairs_of(CodesToFloats<0>(d, words, type), CodesToFloats<1>(d, words, type)));
    f.template operator()<1>(
        pairs_of(CodesToFloats<2>(d, words, type), CodesToFloats<3>(d, words, type)));
  } else {
    f.template operator()<0>(words);
  }
}

// How many pairs a word becomes.
template <typename Kv>
constexpr int kPairsInWord = kInWord<Kv> / 2;

// keys [dim / 2, stride]: transposed rows of a K tile [tile, dim], which lie `row` elements apart;
// dim is a multiple of 8, of codes one of 16. Columns from `tile` on are left as they are: their
// scores are masked.
template <typename Kv>
void TransposePairs(const Kv* from, int64_t tile, int64_t dim, int64_t row, int64_t stride,
                    uint32_t* keys) {
  const auto transpose = [&](auto d, int64_t token) {
    ForEachColumn(d, from + token * row, dim, row, [&]<int kColumn>(int64_t i, auto words) {
      uint32_t* const to = keys + (i + kColumn) * kPairsInWord<Kv> * stride + token;
      ForEachPair(d, words, from,
                  [&]<int kIndex>(auto pairs) { hn::StoreU(pairs, d, to + kIndex * stride); });
    });
  };
  int64_t token = 0;
  for (; token + kLanes <= tile; token += kLanes) transpose(WordTag(), token);
  for (; token + 4 <= tile; token += 4) transpose(hn::FixedTag<uint32_t, 4>(), token);
  for (; token < tile; ++token) {
    const Kv* const key = from + token * row;
    for (int64_t i = 0; i < dim / 2; ++i) {
      keys[i * stride + token] = std::bit_cast<uint32_t>(ElementOf(key + 2 * i)) >> 16 |
                                 std::bit_cast<uint32_t>(ElementOf(key + 2 * i + 1));
    }
  }
}

// The sums of even and of odd pairs, of kRows rows and a vector of tokens.
template <int kRows>
struct PairScores {
  FloatVec sums[2][kRows];

  HWY_INLINE PairScores() {
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) sums[0][r] = sums[1][r] = hn::Zero(kFloat);
  }
  // Adds the pairs of one column, of each token and of queries that are `width` words apart.
  template <int kOdd>
  HWY_INLINE void Add(WordVec keys, const uint32_t* queries, int64_t width) {
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      sums[kOdd][r] = AddPair(sums[kOdd][r], keys, BroadcastPair(queries + r * width));
    }
  }
  HWY_INLINE void Store(FloatVec scale, float* scores) const {
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      hn::StoreU(hn::Mul(hn::Add(sums[0][r], sums[1][r]), scale), kFloat,
                 scores + r * kScoreStride);
    }
  }
};

// The scores, weights and weighted values of a task's rows, in pairs of bfloat16, whose products
// are added in fp32. A dot product is the sum of its even and of its odd pairs, each added in
// ascending order. Weights are rounded to bfloat16; what they are divided by is the sum of the
// rounded ones. Values are added by pairs of tokens, counted from the beginning of the split.
//
// Of codes, the scale of a key multiplies its score, and a value is rounded after its scale has
// multiplied it.
template <typename KvType>
class PairTiles {
 public:
  using Activation = uint16_t;
  using Kv = KvType;
  using Scratch = PairScratch;

  // `row` is from one token of a tile to the next, in elements.
  PairTiles(ScratchCutter& scratch, int64_t rows, const AttentionShape& shape, int64_t row,
            int64_t tile)
      : scale_(shape.scale),
        dim_(shape.head_dim),
        width_(Scratch::Width(dim_)),
        row_(row),
        queries_(reinterpret_cast<uint32_t*>(scratch.Take(rows * dim_ / 2))),
        scores_(scratch.Take(rows * kScoreStride)),
        keys_(reinterpret_cast<uint32_t*>(scratch.Take(dim_ / 2 * Padded(tile)))),
        values_(reinterpret_cast<uint32_t*>(scratch.Take((tile + 1) / 2 * width_))),
        key_scales_(scratch.Take(tile)) {
    std::fill_n(key_scales_, Padded(tile), scale_);
  }

  void LoadQuery(int32_t row, const Activation* from) {
    std::memcpy(queries_ + row * dim_ / 2, from, static_cast<size_t>(dim_) * sizeof(*from));
  }

  // The scores of a tile's tokens, the first of which is the split's token `column`; and some that
  // mean nothing, up to a vector beyond the tile.
  void Score(RowRange rows, const Kv* keys, int32_t tokens, int32_t column, ReadAhead ahead) {
    if (rows.count() <= kFewRows && tokens % kLanes == 0) {
      return WithCount<kFewRows>(rows.count(), [&]<int kRows>() {
        ScoreStored<kRows>(rows.begin, keys, tokens, column, ahead);
      });
    }
    const int64_t stride = Padded(tokens);
    TransposePairs(keys, tokens, dim_, row_, stride, keys_);
    if constexpr (kHasScales<Kv>) {
      for (int32_t token = 0; token < tokens; ++token) {
        key_scales_[token] = scale_ * ScaleOf(keys + token * row_, dim_);
      }
    }
    for (int64_t token = 0; token < stride; token += kLanes) {
      int32_t row = rows.begin;
      const auto run = [&]<int kRows>() {
        for (; row + kRows <= rows.end; row += kRows) {
          ScoreTransposed<kRows>(row, token, stride, column, ahead);
        }
      };
      run.template operator()<8>();
      run.template operator()<4>();
      run.template operator()<1>();
    }
  }

  // Turns the scores of what a row sees of a split into weights, which take half of their place.
  SplitSoftmax Weigh(int32_t row, Positions seen) {
    float* line = scores_ + row * kScoreStride;
    // Vectors lie alike for every block size, so that sums round alike.
    const Positions whole = MaskUnseen(line, seen, kBf16Lanes);
    const auto highest = HighestOf(line, whole);
    const auto weigh = [&](int64_t at) {
      return ExpToPrecisionOfPairs(hn::Sub(hn::LoadU(kFloat, line + at), highest));
    };
    const auto ones = hn::Set(WordTag(), 0x3f803f80);
    auto total = hn::Zero(kFloat);
    for (int64_t i = whole.begin; i < whole.end; i += kBf16Lanes) {
      const auto pairs = RoundToPairs(weigh(i), weigh(i + kLanes));
      hn::StoreU(pairs, WordTag(), reinterpret_cast<uint32_t*>(line) + i / 2);
      total = AddPair(total, pairs, ones);
    }
    return {hn::GetLane(highest), Sum(total)};
  }

  // What AddValues reads.
  void TakeValues(RowRange rows, const Kv* values, int32_t tokens, bool /*all_seen*/) {
    stored_ = nullptr;
    if (rows.count() <= kFewRows) {
      stored_ = values;
      return;
    }
    for (int64_t pair = 0; pair < tokens / 2; ++pair) PairUp<Tokens::kBoth>(values, pair);
    if (tokens % 2 != 0) PairUp<Tokens::kFirst>(values, tokens / 2);
  }

  // Adds the tile's tokens `seen`, times their weights, to rows of outs [rows, width]. `column` is
  // even.
  void AddValues(RowRange rows, Positions seen, int32_t column, float* outs, ReadAhead& ahead) {
    const auto* weights = reinterpret_cast<const uint32_t*>(scores_) + column / 2;
    if (stored_ != nullptr) {
      AddPairsRows(weights, StoredValues<Kv>{stored_, row_, dim_}, dim_, outs, width_, rows, seen,
                   ahead);
    } else {
      AddPairsRows(weights, PairedValues{values_, width_}, dim_, outs, width_, rows, seen, ahead);
    }
  }

  // A row's result, divided by `total` and multiplied by `scale`.
  void Store(const float* out, float total, float scale, Activation* to) const {
    for (int64_t column = 0; column < dim_; column += kBf16Lanes) {
      const ColumnSums sums =
          InOrder(hn::LoadU(kFloat, out + column), hn::LoadU(kFloat, out + column + kLanes));
      for (int64_t i = 0; i < 2 && column + i * kLanes < dim_; ++i) {
        const auto mean = hn::Div(sums[static_cast<size_t>(i)], hn::Set(kFloat, total));
        const int64_t at = column + i * kLanes;
        StorePartial(hn::Mul(mean, hn::Set(kFloat, scale)), to + at, dim_ - at);
      }
    }
  }

 private:
  // Up to so many rows read keys and values as they lie in the cache.
  static constexpr int kFewRows = 8;

  using ColumnSums = std::array<FloatVec, 2>;

  // Columns in order, from where ColumnPairs has them.
  static HWY_INLINE ColumnSums InOrder(FloatVec first, FloatVec second) {
    constexpr int kHalves = 0b11'01'10'00;  // quarters 0, 2, 1 and 3
    const auto lower = _mm512_shuffle_f32x4(first.raw, second.raw, 0b01'00'01'00);
    const auto upper = _mm512_shuffle_f32x4(first.raw, second.raw, 0b11'10'11'10);
    return {FloatVec{_mm512_shuffle_f32x4(lower, lower, kHalves)},
            FloatVec{_mm512_shuffle_f32x4(upper, upper, kHalves)}};
  }

  // exp(x) of x up to 0 with a relative error of 3e-6, a thousandth of what rounding it to bfloat16
  // costs; of 0 exactly 1. NaN stays NaN: _mm512_max_ps returns the second of two where one is NaN.
  static HWY_INLINE FloatVec ExpToPrecisionOfPairs(FloatVec x) {
    const auto lowest = hn::Set(kFloat, -150.0f);
    const auto power = hn::Mul(x, hn::Set(kFloat, 1.44269504f));
    const auto bounded = FloatVec{_mm512_max_ps(lowest.raw, power.raw)};
    const auto whole = hn::Round(bounded);
    const auto rest = hn::Sub(bounded, whole);
    auto value = hn::Set(kFloat, 0.00958285294f);
    value = hn::MulAdd(value, rest, hn::Set(kFloat, 0.0559064262f));
    value = hn::MulAdd(value, rest, hn::Set(kFloat, 0.240240991f));
    value = hn::MulAdd(value, rest, hn::Set(kFloat, 0.693124175f));
    value = hn::MulAdd(value, rest, hn::Set(kFloat, 1.0f));
    return FloatVec{_mm512_scalef_ps(value.raw, whole.raw)};
  }

  template <int kRows>
  void ScoreStored(int32_t row, const Kv* keys, int32_t tokens, int32_t column, ReadAhead& ahead) {
    const uint32_t* const queries = queries_ + row * dim_ / 2;
    for (int32_t token = 0; token < tokens; token += kLanes) {
      auto scale = hn::Set(kFloat, scale_);
      if constexpr (kHasScales<Kv>) {
        scale = hn::Mul(scale, ScalesOf(keys + token * row_, row_, dim_));
      }
      PairScores<kRows> scores;
      ForEachColumn(WordTag(), keys + token * row_, dim_, row_,
                    [&]<int kColumn>(int64_t i, WordVec words) {
                      ahead.Fetch<kFetchedOfWord<Kv> * kLanes>();
                      const uint32_t* const of_column = queries + i * kPairsInWord<Kv>;
                      ForEachPair(WordTag(), words, keys, [&]<int kIndex>(WordVec pairs) {
                        constexpr int kPair = kColumn * kPairsInWord<Kv> + kIndex;
                        scores.template Add<kPair % 2>(pairs, of_column + kPair, dim_ / 2);
                      });
                    });
      scores.Store(scale, scores_ + row * kScoreStride + column + token);
    }
  }

  template <int kRows>
  void ScoreTransposed(int32_t row, int64_t token, int64_t stride, int64_t column,
                       ReadAhead& ahead) {
    const uint32_t* const keys = keys_ + token;
    const uint32_t* const queries = queries_ + row * dim_ / 2;
    PairScores<kRows> scores;
    for (int64_t i = 0; i < dim_ / 2; i += 2) {
      ahead.Fetch<64>();
      scores.template Add<0>(hn::LoadU(WordTag(), keys + i * stride), queries + i, dim_ / 2);
      scores.template Add<1>(hn::LoadU(WordTag(), keys + (i + 1) * stride), queries + i + 1,
                             dim_ / 2);
    }
    scores.Store(hn::LoadU(kFloat, key_scales_ + token),
                 scores_ + row * kScoreStride + column + token);
  }

  // Copies the values of a pair of tokens.
  template <Tokens kTokens>
  void PairUp(const Kv* values, int64_t pair) {
    const StoredValues<Kv> from{values, row_, dim_};
    const auto copy = [&]<bool kPartial>(int64_t column) {
      const ColumnPairs pairs = from.template Load<kPartial, kTokens>(pair, column);
      uint32_t* const to = values_ + pair * width_ + column;
      hn::StoreU(pairs[0], WordTag(), to);
      hn::StoreU(pairs[1], WordTag(), to + kLanes);
    };
    int64_t column = 0;
    for (; column + kBf16Lanes <= dim_; column += kBf16Lanes)
      copy.template operator()<false>(column);
    if (column < dim_) copy.template operator()<true>(column);
  }

  const float scale_;
  const int64_t dim_;
  const int64_t width_;
  const int64_t row_;
  uint32_t* const queries_;  // [rows, dim / 2]
  float* const scores_;      // [rows, kScoreStride]; of a split, then its weights in pairs
  uint32_t* const keys_;     // [dim / 2, tile], transposed
  uint32_t* const values_;   // [tile / 2, width]
  float* const key_scales_;  // [tile]: what q·k of each token is multiplied by
  const Kv* stored_ = nullptr;
};

}  // namespace baton::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // HWY_TARGET == HWY_AVX3

#endif  // toggle
