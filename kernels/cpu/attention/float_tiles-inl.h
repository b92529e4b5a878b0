// Attention in fp32, over keys and values of any dtype. Compiled once per target: no include guard
// but a toggle.
#if defined(BATON_KERNELS_CPU_ATTENTION_FLOAT_TILES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BATON_KERNELS_CPU_ATTENTION_FLOAT_TILES_INL_H_
#undef BATON_KERNELS_CPU_ATTENTION_FLOAT_TILES_INL_H_
#else
#define BATON_KERNELS_CPU_ATTENTION_FLOAT_TILES_INL_H_
#endif

#include <algorithm>

#include "kernels/cpu/attention/attention_tile-inl.h"
#include "kernels/cpu/attention/kv_elements-inl.h"

#if BATON_CPU_TARGET
HWY_BEFORE_NAMESPACE();
namespace baton::kernels::cpu::HWY_NAMESPACE {

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

// keys [dim, stride] fp32 from a K tile [tile, dim] with rows `row` elements apart; dim is a
// multiple of 8, of codes one of 16. Columns from `tile` on are left as they are: their scores are
// masked.
template <typename Kv>
void TransposeKeys(const Kv* from, int64_t tile, int64_t dim, int64_t row, int64_t stride,
                   float* keys) {
  int64_t token = 0;
  for (; token + kLanes <= tile; token += kLanes) {
    TransposeTokens(WordTag(), from + token * row, dim, row, stride, keys + token);
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
  ForEachColumn(WordTag(), keys, dim, row, [&]<int kColumn>(int64_t i, WordVec words) {
    ahead.Fetch<kFetchedOfWord<Kv> * kLanes>();
    const float* const of_column = queries + i * kInWord<Kv>;
    ForEachElement(WordTag(), words, keys, [&]<int kIndex>(FloatVec key) {
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
      const auto weight = hn::Set(kFloat, weights[r * kScoreStride + token]);
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

// Rows of out [rows, stride] += weights x values, over the tokens `seen`.
template <typename V>
HWY_INLINE void AddRows(const float* weights, const V* values, int64_t value_stride, int64_t dim,
                        float* out, int64_t out_stride, RowRange rows, Positions seen,
                        ReadAhead& ahead) {
  constexpr int kVectors = kLanes == 16 ? 4 : 2;
  const auto run = [&]<int kRows, int kColumns>(int32_t row, int64_t column) {
    AddTile<kRows, kColumns>(weights + row * kScoreStride, values, value_stride, dim, column,
                             out + row * out_stride, out_stride, seen.begin, seen.end, ahead);
  };
  const auto for_rows = [&]<int kColumns>(int64_t column) {
    int32_t row = rows.begin;
    for (; row + 4 <= rows.end; row += 4) run.template operator()<4, kColumns>(row, column);
    for (; row < rows.end; ++row) run.template operator()<1, kColumns>(row, column);
  };
  int64_t column = 0;
  for (; column + kVectors * kLanes <= out_stride; column += kVectors * kLanes) {
    for_rows.template operator()<kVectors>(column);
  }
  for (; column < out_stride; column += kLanes) for_rows.template operator()<1>(column);
}

// The scores, weights and weighted values of a task's rows, in fp32. A dot product is the sum of
// its even and of its odd elements, each added in ascending order; values are added token by token.
template <typename ActivationType, typename KvType>
class FloatTiles {
 public:
  using Activation = ActivationType;
  using Kv = KvType;
  using Scratch = FloatScratch;

  // `row` is from one token of a tile to the next, in elements.
  FloatTiles(ScratchCutter& scratch, int64_t rows, const AttentionShape& shape, int64_t row,
             int64_t tile)
      : scale_(shape.scale),
        dim_(shape.head_dim),
        width_(Scratch::Width(dim_)),
        row_(row),
        queries_(scratch.Take(rows * dim_)),
        scores_(scratch.Take(rows * kScoreStride)),
        keys_(scratch.Take(dim_ * Padded(tile))),
        values_(scratch.Take(tile * width_)),
        key_scales_(scratch.Take(tile)) {
    std::fill_n(key_scales_, Padded(tile), scale_);
  }

  void LoadQuery(int32_t row, const Activation* from) {
    ForEachVector(dim_, [&](int64_t i, int64_t count) {
      StorePartial(LoadPartial(from + i, count), queries_ + row * dim_ + i, count);
    });
  }

  // The scores of a tile's tokens, the first of which is the split's token `column`; and some that
  // mean nothing, up to a vector beyond the tile.
  void Score(RowRange rows, const Kv* keys, int32_t tokens, int32_t column, ReadAhead ahead) {
    if (rows.count() <= kFewRows && tokens % kLanes == 0) {
      return WithCount<kFewRows>(rows.count(), [&]<int kRows>() {
        ScoreStored<kRows>(rows.begin, keys, tokens, column, ahead);
      });
    }
    const int64_t padded = Padded(tokens);
    TransposeKeys(keys, tokens, dim_, row_, padded, keys_);
    if constexpr (kHasScales<Kv>) {
      for (int32_t token = 0; token < tokens; ++token) {
        key_scales_[token] = scale_ * ScaleOf(keys + token * row_, dim_);
      }
    }
    ScoreRows(queries_, dim_, keys_, padded, key_scales_, scores_ + column, kScoreStride,
              rows.begin, rows.end, ahead);
  }

  // Turns the scores of what a row sees of a split into weights.
  SplitSoftmax Weigh(int32_t row, Positions seen) {
    float* line = scores_ + row * kScoreStride;
    // Vectors lie alike for every block size, so that sums round alike.
    const Positions whole = MaskUnseen(line, seen, 16);
    const auto highest = HighestOf(line, whole);
    auto total = hn::Zero(kFloat);
    for (int64_t i = whole.begin; i < whole.end; i += kLanes) {
      const auto weight = Exp(hn::Sub(hn::LoadU(kFloat, line + i), highest));
      hn::StoreU(weight, kFloat, line + i);
      total = hn::Add(total, weight);
    }
    return {hn::GetLane(highest), Sum(total)};
  }

  // What AddValues reads. `all_seen`: by every row of them.
  void TakeValues(RowRange rows, const Kv* values, int32_t tokens, bool all_seen) {
    stored_ = nullptr;
    if (rows.count() <= kFewRows && dim_ == width_ && all_seen) {
      stored_ = values;
    } else {
      ValuesToFloats(values, tokens, dim_, row_, width_, values_);
    }
  }

  // Adds the tile's tokens `seen`, times their weights, to rows of outs [rows, width].
  void AddValues(RowRange rows, Positions seen, int32_t column, float* outs, ReadAhead& ahead) {
    const float* weights = scores_ + column;
    if (stored_ != nullptr) {
      AddRows(weights, stored_, row_, dim_, outs, width_, rows, seen, ahead);
    } else {
      AddRows(weights, values_, width_, dim_, outs, width_, rows, seen, ahead);
    }
  }

  // A row's result, divided by `total` and multiplied by `scale`.
  void Store(const float* out, float total, float scale, Activation* to) const {
    ForEachVector(dim_, [&](int64_t i, int64_t count) {
      const auto mean = hn::Div(hn::LoadU(kFloat, out + i), hn::Set(kFloat, total));
      StorePartial(hn::Mul(mean, hn::Set(kFloat, scale)), to + i, count);
    });
  }

 private:
  // Up to so many rows read keys and values as they lie in the cache, without a copy in fp32.
  static constexpr int kFewRows = kLanes == 16 ? 8 : 4;

  template <int kRows>
  void ScoreStored(int32_t row, const Kv* keys, int32_t tokens, int32_t column, ReadAhead& ahead) {
    for (int32_t token = 0; token < tokens; token += kLanes) {
      auto scale = hn::Set(kFloat, scale_);
      if constexpr (kHasScales<Kv>) {
        scale = hn::Mul(scale, ScalesOf(keys + token * row_, row_, dim_));
      }
      ScoreFew<kRows>(queries_ + row * dim_, dim_, keys + token * row_, row_, scale,
                      scores_ + row * kScoreStride + column + token, kScoreStride, ahead);
    }
  }

  const float scale_;
  const int64_t dim_;
  const int64_t width_;
  const int64_t row_;
  float* const queries_;     // [rows, dim]
  float* const scores_;      // [rows, kScoreStride]; of a split, then its weights
  float* const keys_;        // [dim, tile], transposed
  float* const values_;      // [tile, width]
  float* const key_scales_;  // [tile]: what q·k of each token is multiplied by
  const Kv* stored_ = nullptr;
};

}  // namespace baton::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // BATON_CPU_TARGET

#endif  // toggle
