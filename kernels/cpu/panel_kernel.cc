#include <algorithm>
#include <cstddef>
#include <utility>

#include "kernels/cpu/panel_gemm.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/panel_kernel.cc"
#include "hwy/foreach_target.h"
#include "kernels/cpu/panel_finish-inl.h"
#include "kernels/cpu/vec-inl.h"

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
// the first-level cache for them, and as much again that is fetched meanwhile in the second.
constexpr int64_t kDepth = 256;

// How far ahead of the products a tile that is alone fetches weights. The processor's own fetching
// does not fill the time that it is multiplied.
constexpr int64_t kAheadBytes = 4096;

// What a pass over some elements of depth fetches meanwhile: an address, and how far it moves with
// every element.
struct Fetch {
  const std::byte* from = nullptr;
  int64_t step = 0;  // bytes
};

// Several tiles fetch the next weights together, each its part of them and evenly all the time: the
// first alone would wait for memory, which had nothing to do while the others are multiplied.
template <typename W>
HWY_INLINE Fetch FetchOf(const W* weights, int64_t depth, int64_t pass, int64_t passes) {
  constexpr int64_t kElementBytes = kPanelPairWidth * sizeof(W);
  const auto* const from = reinterpret_cast<const std::byte*>(weights);
  if (passes == 1) return {from + kAheadBytes, kElementBytes};
  const int64_t bytes = depth * kElementBytes;
  return {from + bytes + bytes * pass / passes, (kElementBytes + passes - 1) / passes};
}

// A tile of those of some rows, which have about equally many.
struct Tile {
  int64_t row = 0;  // the first
  int64_t rows = 0;
  int64_t index = 0;
  int64_t of = 0;
};

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
// after the other; of the panels' columns only those of some vectors.
template <int kRows, int kCount, typename W>
HWY_INLINE void MultiplyParts(const float* rows, const W* pair, int first_part, int64_t depth,
                              Fetch fetch, float* sums) {
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

template <int kRows, typename W>
void MultiplyTile(const float* rows, const W* pair, const Tile& tile, int64_t depth, float* sums) {
  constexpr int kCount = 2 * kParts * kRows <= kMostSums ? kParts : 1;
  constexpr int kPasses = kParts / kCount;
  for (int pass = 0; pass < kPasses; ++pass) {
    const Fetch fetch = FetchOf(pair, depth, tile.index * kPasses + pass, tile.of * kPasses);
    MultiplyParts<kRows, kCount>(rows, pair, pass * kCount, depth, fetch, sums);
  }
}

template <typename W, int... kRows>
void RunAs(const PanelTask& task, std::integer_sequence<int, kRows...>) {
  static constexpr void (*kTiles[])(const float*, const W*, const Tile&, int64_t,
                                    float*) = {&MultiplyTile<kRows + 1, W>...};
  const W* const pair = static_cast<const W*>(task.pair);
  HWY_ALIGN float sums[kPanelRows * kPanelPairWidth];
  std::fill_n(sums, task.count * kPanelPairWidth, 0.0f);
  for (int64_t k = 0; k < task.in; k += kDepth) {
    ForEachTile(task.count, [&](const Tile& tile) {
      kTiles[tile.rows - 1](task.rows + tile.row * task.in + k * tile.rows,
                            pair + k * kPanelPairWidth, tile, std::min(kDepth, task.in - k),
                            sums + tile.row * kPanelPairWidth);
    });
  }
  FinishPanels(task.output, task.first_column, kPanelPairWidth, sums);
}

void RunPair(const PanelTask& task) {
  constexpr std::make_integer_sequence<int, kTileRows> kRows;
  if (task.dtype == DType::kF32) {
    RunAs<float>(task, kRows);
  } else {
    RunAs<uint16_t>(task, kRows);
  }
}

// Columns [begin, end) of the rows of a tile, to their places in it.
template <typename T>
void PackTile(Matrix in, int64_t row, int64_t rows, int64_t begin, int64_t end, float* tile) {
  for (int64_t r = 0; r < rows; ++r) {
    const T* const from = static_cast<const T*>(in.row(row + r));
    ForEachVector(end - begin, [&](int64_t i, int64_t count) {
      HWY_ALIGN float values[kLanes];
      hn::Store(LoadPartial(from + begin + i, count), kFloat, values);
      float* const to = tile + (begin + i) * rows + r;
      for (int64_t c = 0; c < count; ++c) to[c * rows] = values[c];
    });
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
