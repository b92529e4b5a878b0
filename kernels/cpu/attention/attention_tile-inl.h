// What the two ways to compute attention have in common, float_tiles-inl.h and pair_tiles-inl.h.
// Compiled once per target: no include guard but a toggle.
#if defined(BATON_KERNELS_CPU_ATTENTION_ATTENTION_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BATON_KERNELS_CPU_ATTENTION_ATTENTION_TILE_INL_H_
#undef BATON_KERNELS_CPU_ATTENTION_ATTENTION_TILE_INL_H_
#else
#define BATON_KERNELS_CPU_ATTENTION_ATTENTION_TILE_INL_H_
#endif

#include <algorithm>
#include <limits>

#include "kernels/cpu/attention/attention_scratch.h"
#include "kernels/cpu/vec-inl.h"

#if BATON_CPU_TARGET
HWY_BEFORE_NAMESPACE();
namespace baton::kernels::cpu::HWY_NAMESPACE {

// Positions [begin, end) of a sequence, or of a part of one.
struct Positions {
  int32_t begin = 0;
  int32_t end = 0;
  int32_t count() const { return end - begin; }
  bool empty() const { return begin >= end; }
  bool operator==(const Positions&) const = default;
  // Those that lie in `whole`, counted from its beginning.
  Positions Within(Positions whole) const {
    return {std::clamp(begin - whole.begin, 0, whole.count()),
            std::clamp(end - whole.begin, 0, whole.count())};
  }
};

// Rows [begin, end), which are pairs of a query and a head, or queries.
struct RowRange {
  int32_t begin = 0;
  int32_t end = 0;
  int32_t count() const { return end - begin; }
};

// Of a row's softmax over a split: its weights are exp(score - highest), and `total` is their sum.
struct SplitSoftmax {
  float highest = 0;
  float total = 0;
};

// Gives a row's tokens that it does not see the weight 0, in all vectors of so many tokens where it
// sees any. Returns where these begin and end.
inline Positions MaskUnseen(float* line, Positions seen, int32_t vector) {
  const Positions whole = {seen.begin / vector * vector,
                           static_cast<int32_t>(Padded(seen.end, vector))};
  const float masked = -std::numeric_limits<float>::infinity();
  std::fill(line + whole.begin, line + seen.begin, masked);
  std::fill(line + seen.end, line + whole.end, masked);
  return whole;
}

HWY_INLINE FloatVec HighestOf(const float* line, Positions whole) {
  auto highest = hn::LoadU(kFloat, line + whole.begin);
  for (int64_t i = whole.begin + kLanes; i < whole.end; i += kLanes) {
    highest = hn::Max(highest, hn::LoadU(kFloat, line + i));
  }
  return hn::MaxOfLanes(kFloat, highest);
}

// Calls f.operator()<count>(), with count from 1 to kMost.
template <int kMost, typename F>
HWY_INLINE void WithCount(int32_t count, F f) {
  if constexpr (kMost > 1) {
    if (count < kMost) return WithCount<kMost - 1>(count, f);
  }
  f.template operator()<kMost>();
}

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
  // To what lies so many bytes further.
  void MoveBy(int64_t bytes) {
    if (next == nullptr) return;
    next += bytes;
    end += bytes;
  }
};

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

// How many elements a word has.
template <typename Kv>
constexpr int kInWord = static_cast<int>(4 / sizeof(Kv));

// How many bytes are fetched while a word is multiplied. Of codes they are twice as many, as of
// values: they leave time, and a row that ends in its scale is longer than its words.
template <typename Kv>
constexpr int64_t kFetchedOfWord = sizeof(Kv) == 1 ? 8 : 4;

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

}  // namespace baton::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // BATON_CPU_TARGET

#endif  // toggle
