#include <algorithm>
#include <array>
#include <cstddef>
#include <type_traits>
#include <utility>

#include "kernels/cpu/panel_gemm.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/panel_kernel.cc"
#include "hwy/foreach_target.h"
#include "kernels/cpu/panel_finish-inl.h"
#include "kernels/cpu/vec-inl.h"
#include "kernels/float_convert.h"

#if BATON_CPU_TARGET
HWY_BEFORE_NAMESPACE();
namespace baton::kernels::cpu::HWY_NAMESPACE {

// Vectors of a panel's width.
constexpr int kParts = static_cast<int>(kPanelWidth / kLanes);

// A tile is so many rows that its sums, weights and an input fit the registers: 16 with AVX2, 32
// with AVX-512.
#if HWY_TARGET == HWY_AVX2
constexpr int kMostSums = 12;
constexpr int kTileRows = 6;
#else
constexpr int kMostSums = 28;
constexpr int kTileRows = 14;
#endif

// Elements of depth that all tiles multiply before the next. So much of a pair of panels stays in
// the first-level cache for them in fp32, beside what is fetched meanwhile.
constexpr int64_t kDepth = 128;

// How far ahead of the products a tile that is alone fetches weights. The processor's own fetching
// does not fill the time that it is multiplied.
constexpr int64_t kAheadBytes = 4096;

// What a pass over some elements of depth fetches meanwhile: an address, and how far it moves with
// every element.
struct Fetch {
  const std::byte* from = nullptr;
  int64_t step = 0;  // bytes
};

// A tile of those of some rows, which have about equally many.
struct Tile {
  int64_t row = 0;  // the first
  int64_t rows = 0;
  int64_t index = 0;
  int64_t of = 0;
};

// Some elements of depth of a pair of panels, as they are stored.
struct Slice {
  const std::byte* begin = nullptr;
  int64_t depth = 0;
  int64_t element_bytes = 0;
};

// Several tiles fetch the next weights together, each its part of them and evenly all the time: the
// first alone would wait for memory, which had nothing to do while the others are multiplied.
HWY_INLINE Fetch FetchAfter(const Slice& slice, int64_t pass, int64_t passes) {
  if (passes == 1) return {slice.begin + kAheadBytes, slice.element_bytes};
  const int64_t bytes = slice.depth * slice.element_bytes;
  return {slice.begin + bytes + bytes * pass / passes, (slice.element_bytes + passes - 1) / passes};
}

// Calls fn(Tile) for the tiles of `count` rows.
template <typename Fn>
HWY_INLINE void ForEachTile(int64_t count, Fn fn) {
  const int64_t tiles = (count + kTileRows - 1) / kTileRows;
  for (int64_t i = 0; i < tiles; ++i) {
    const int64_t row = count * i / tiles;
    fn(Tile{row, count * (i + 1) / tiles - row, i, tiles});
  }
}

// Weights of an element of depth, which begins at `from`: a vector of each panel of a pair.
HWY_INLINE void LoadPair(const uint16_t* from, int part, FloatVec& first, FloatVec& second) {
  const hn::RebindToUnsigned<FloatTag> du32;
  const auto words = hn::LoadU(du32, reinterpret_cast<const uint32_t*>(from) + part * kLanes);
  first = hn::BitCast(kFloat, hn::ShiftLeft<16>(words));
  second = hn::BitCast(kFloat, hn::And(words, hn::Set(du32, 0xffff0000u)));
}
HWY_INLINE void LoadPair(const float* from, int part, FloatVec& first, FloatVec& second) {
  first = hn::LoadU(kFloat, from + part * kLanes);
  second = hn::LoadU(kFloat, from + kPanelWidth + part * kLanes);
}

// sums [kRows][32] += rows [depth][kRows] x a pair of panels [depth][32], one element of depth
// after the other; of the panels' columns only those of some vectors. With kWiden these are left in
// `wide` [depth][2][16].
template <int kRows, int kCount, bool kWiden, typename W>
HWY_INLINE void MultiplyParts(const float* rows, const W* pair, int first_part, int64_t depth,
                              Fetch fetch, float* sums, float* wide) {
  FloatVec acc[kRows][kCount][2];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (int p = 0; p < kCount; ++p) {
      const float* const from = sums + r * kPanelPairWidth + (first_part + p) * kLanes;
      acc[r][p][0] = hn::LoadU(kFloat, from);
      acc[r][p][1] = hn::LoadU(kFloat, from + kPanelWidth);
    }
  }
  // Instructions of the loop itself would count beside the few products of AVX2's tiles.
#pragma GCC unroll 4
  for (int64_t k = 0; k < depth; ++k) {
    const W* const weights = pair + k * kPanelPairWidth;
    for (size_t line = 0; line < kPanelPairWidth * sizeof(W); line += 64) {
      __builtin_prefetch(fetch.from + line);
    }
    fetch.from += fetch.step;
#pragma GCC unroll 2
    for (int p = 0; p < kCount; ++p) {
      FloatVec first;
      FloatVec second;
      LoadPair(weights, first_part + p, first, second);
      if constexpr (kWiden) {
        float* const to = wide + k * kPanelPairWidth + (first_part + p) * kLanes;
        hn::Store(first, kFloat, to);
        hn::Store(second, kFloat, to + kPanelWidth);
      }
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
        const auto x = hn::Set(kFloat, rows[k * kRows + r]);
        acc[r][p][0] = hn::MulAdd(x, first, acc[r][p][0]);
        acc[r][p][1] = hn::MulAdd(x, second, acc[r][p][1]);
      }
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (int p = 0; p < kCount; ++p) {
      float* const to = sums + r * kPanelPairWidth + (first_part + p) * kLanes;
      hn::StoreU(acc[r][p][0], kFloat, to);
      hn::StoreU(acc[r][p][1], kFloat, to + kPanelWidth);
    }
  }
}

template <int kRows, bool kWiden, typename W>
void MultiplyTile(const float* rows, const W* pair, const Tile& tile, const Slice& slice,
                  float* sums, float* wide) {
  constexpr int kCount = 2 * kParts * kRows <= kMostSums ? kParts : 1;
  constexpr int kPasses = kParts / kCount;
  for (int pass = 0; pass < kPasses; ++pass) {
    const Fetch fetch = FetchAfter(slice, tile.index * kPasses + pass, tile.of * kPasses);
    MultiplyParts<kRows, kCount, kWiden>(rows, pair, pass * kCount, slice.depth, fetch, sums, wide);
  }
}

// For tiles of one row, of two, and so on.
template <typename W>
using TileFn = void (*)(const float* rows, const W* pair, const Tile& tile, const Slice& slice,
                        float* sums, float* wide);
template <bool kWiden, typename W, int... kRows>
constexpr std::array<TileFn<W>, sizeof...(kRows)> TileFns(
    std::integer_sequence<int, kRows...> /*rows*/) {
  return {&MultiplyTile<kRows + 1, kWiden, W>...};
}

// Of several tiles the first leaves the weights in fp32 for the others, which have no instructions
// to spare for that.
template <typename W>
void RunAs(const PanelTask& task) {
  constexpr std::make_integer_sequence<int, kTileRows> kRows;
  static constexpr auto kAlone = TileFns<false, W>(kRows);
  static constexpr auto kFirst = TileFns<!std::is_same_v<W, float>, W>(kRows);
  static constexpr auto kLater = TileFns<false, float>(kRows);
  const W* const pair = static_cast<const W*>(task.pair);
  HWY_ALIGN float sums[kPanelRows * kPanelPairWidth];
  HWY_ALIGN float wide[kDepth * kPanelPairWidth];
  std::fill_n(sums, task.count * kPanelPairWidth, 0.0f);
  for (int64_t k = 0; k < task.in; k += kDepth) {
    const W* const weights = pair + k * kPanelPairWidth;
    const Slice slice = {reinterpret_cast<const std::byte*>(weights), std::min(kDepth, task.in - k),
                         kPanelPairWidth * sizeof(W)};
    ForEachTile(task.count, [&](const Tile& tile) {
      const float* const rows = task.rows + tile.row * task.in + k * tile.rows;
      float* const of_tile = sums + tile.row * kPanelPairWidth;
      if (tile.index == 0) {
        const auto& fns = tile.of == 1 ? kAlone : kFirst;
        fns[tile.rows - 1](rows, weights, tile, slice, of_tile, wide);
      } else if constexpr (std::is_same_v<W, float>) {
        kLater[tile.rows - 1](rows, weights, tile, slice, of_tile, wide);
      } else {
        kLater[tile.rows - 1](rows, wide, tile, slice, of_tile, wide);
      }
    });
  }
  FinishPanels(task.output, task.first_column, kPanelPairWidth, sums);
}

void RunPair(const PanelTask& task) {
  if (task.dtype == DType::kF32) {
    RunAs<float>(task);
  } else {
    RunAs<uint16_t>(task);
  }
}

using Words = hn::RebindToUnsigned<FloatTag>;

// Words from `at` on of rows: block b of four holds those of row 4 b.
HWY_INLINE hn::Vec<Words> LoadBlocks(const uint32_t* const* rows, int64_t at) {
  const hn::FixedTag<uint32_t, 4> block;
  const hn::FixedTag<uint32_t, 8> two;
  const auto low = hn::Combine(two, hn::LoadU(block, rows[4] + at), hn::LoadU(block, rows[0] + at));
#if HWY_TARGET == HWY_AVX2
  return low;
#else
  return hn::Combine(
      Words(), hn::Combine(two, hn::LoadU(block, rows[12] + at), hn::LoadU(block, rows[8] + at)),
      low);
#endif
}

// Columns [begin, end) of the rows of a tile, to their places in it.
template <typename T>
void PackTile(Matrix in, int64_t row, int64_t rows, int64_t begin, int64_t end, float* tile) {
  constexpr int64_t kInWord = sizeof(uint32_t) / sizeof(T);
  // In place of rows that the tile lacks the last one is read.
  const T* from[kLanes];
  const uint32_t* words[kLanes];
  for (int64_t r = 0; r < kLanes; ++r) {
    from[r] = static_cast<const T*>(in.row(row + std::min(r, rows - 1))) + begin;
    words[r] = reinterpret_cast<const uint32_t*>(from[r]);
  }
  float* to = tile + begin * rows;
  if (rows == 1) {
    return ForEachVector(end - begin, [&](int64_t i, int64_t count) {
      StorePartial(LoadPartial(from[0] + i, count), to + i, count);
    });
  }
  const auto has_row = hn::FirstN(kFloat, static_cast<size_t>(rows));
  const auto store = [&](FloatVec column) {
    hn::BlendedStore(column, has_row, kFloat, to);
    to += rows;
  };
  int64_t i = 0;
  for (; i + 4 * kInWord <= end - begin; i += 4 * kInWord) {
    const int64_t at = i / kInWord;
    TransposeBlocks(Words(), LoadBlocks(words, at), LoadBlocks(words + 1, at),
                    LoadBlocks(words + 2, at), LoadBlocks(words + 3, at),
                    [&]<int kIndex>(hn::Vec<Words> column) {
                      if constexpr (kInWord == 2) {
                        store(hn::BitCast(kFloat, hn::ShiftLeft<16>(column)));
                        store(hn::BitCast(kFloat, hn::And(column, hn::Set(Words(), 0xffff0000u))));
                      } else {
                        store(hn::BitCast(kFloat, column));
                      }
                    });
  }
  for (; i < end - begin; ++i) {
    for (int64_t r = 0; r < rows; ++r) *to++ = LoadElement(from[r], in.dtype, i);
  }
}

void PackRows(Matrix in, int64_t begin, int64_t end, float* out) {
  // So many columns of a tile stay in the first-level cache while its rows come one by one.
  constexpr int64_t kColumns = 128;
  ForEachTile(in.rows, [&](const Tile& tile) {
    for (int64_t column = begin; column < end; column += kColumns) {
      const int64_t last = std::min(column + kColumns, end);
      float* const to = out + tile.row * in.cols;
      if (in.dtype == DType::kF32) {
        PackTile<float>(in, tile.row, tile.rows, column, last, to);
      } else {
        PackTile<uint16_t>(in, tile.row, tile.rows, column, last, to);
      }
    }
  });
}

}  // namespace baton::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // BATON_CPU_TARGET

#if HWY_ONCE
namespace baton::kernels::cpu {

const PanelKernel& PanelKernelOf(Isa isa) {
  static constexpr PanelKernel kAvx2 = {.run = &N_AVX2::RunPair, .pack_rows = &N_AVX2::PackRows};
  static constexpr PanelKernel kAvx512 = {.run = &N_AVX3::RunPair, .pack_rows = &N_AVX3::PackRows};
  return isa == Isa::kAvx2 ? kAvx2 : kAvx512;
}

}  // namespace baton::kernels::cpu
#endif
