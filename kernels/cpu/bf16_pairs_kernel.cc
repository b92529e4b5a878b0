#include <algorithm>
#include <utility>

#include "kernels/cpu/band_gemm.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/bf16_pairs_kernel.cc"
#include "hwy/foreach_target.h"
#include "kernels/cpu/band_walk-inl.h"
#include "kernels/cpu/vec-inl.h"

#if HWY_TARGET == HWY_AVX3
HWY_BEFORE_NAMESPACE();
namespace baton::kernels::cpu::HWY_NAMESPACE {

// Products of pairs in bfloat16: to each output's sum, pairs of columns are added in ascending
// order, each pair's products as AddPair does.
constexpr int64_t kPairBytes = 4;
constexpr int64_t kPairStride = kBandWidth * kPairBytes;
constexpr int kHalves = 2;  // vectors of a band's width
constexpr int kPairsOfStep = static_cast<int>(kBandDepth) / 2;
constexpr int kTileRows = 8;

struct __attribute__((packed, may_alias)) PairOfInputs {
  uint32_t bits;
};

// How a tile fetches what is multiplied after it, into the second-level cache.
enum class Fetching {
  kNothing,
  kAhead,           // of the band at work, kAheadBytes ahead
  kEveryPair,       // a line of its part of the next slice while it multiplies a pair
  kEveryOtherPair,  // the same at half the rate
};

// A tile that is alone multiplies six rows or more for as long as it takes to read their band. The
// processor's own fetching does not fill that time, so it fetches ahead. Fewer rows are faster
// without: they wait for nothing but that fetching.
constexpr int64_t kFewestToFetch = 6;
constexpr int64_t kAheadBytes = 6 << 10;

// The tiles of a block pass a band in slices of so many steps, 32 KiB, and fetch the next slice
// together, each its part of it. If the first tile fetched all, it would wait for memory, which
// would have nothing to do while the others multiply.
constexpr int64_t kSliceSteps = 16;

// A tile's work on some steps of a band.
struct TileWork {
  const std::byte* x = nullptr;     // the first row's first step
  const std::byte* band = nullptr;  // its first step
  int64_t steps = 0;
  float* sums = nullptr;  // [rows][32], `sum_stride` apart
  int64_t sum_stride = 0;
  bool adds = false;                       // to what `sums` holds
  const std::byte* fetch_begin = nullptr;  // its part of the next slice
  const std::byte* fetch_end = nullptr;
};

// Sets sums to the rows' products with the steps, or adds these to them. The band is read from
// front to back. With one row the two halves of its sums hide the latency of the additions behind
// memory.
template <int kRows, Fetching kFetching>
void PairsTile(const BandRows& rows, const TileWork& work) {
  FloatVec totals[kRows][kHalves];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    totals[r][0] = totals[r][1] = hn::Zero(kFloat);
    if (work.adds) {
      totals[r][0] = hn::LoadU(kFloat, work.sums + r * work.sum_stride);
      totals[r][1] = hn::LoadU(kFloat, work.sums + r * work.sum_stride + kPanelWidth);
    }
  }
  const std::byte* x = work.x;
  const std::byte* band = work.band;
  const std::byte* fetch = work.fetch_begin;
  for (int64_t step = 0; step < work.steps; ++step) {
#pragma GCC unroll 4
    for (int pair = 0; pair < kPairsOfStep; ++pair) {
      const auto* const from = reinterpret_cast<const uint32_t*>(band + pair * kPairStride);
      const auto low = hn::LoadU(WordTag(), from);
      const auto high = hn::LoadU(WordTag(), from + kPanelWidth);
      if constexpr (kFetching == Fetching::kAhead) {
        __builtin_prefetch(band + pair * kPairStride + kAheadBytes, 0, 2);
        __builtin_prefetch(band + pair * kPairStride + kBandLineBytes + kAheadBytes, 0, 2);
      } else if constexpr (kFetching != Fetching::kNothing) {
        if ((kFetching == Fetching::kEveryPair || pair % 2 == 0) && fetch < work.fetch_end) {
          __builtin_prefetch(fetch, 0, 2);
          fetch += kBandLineBytes;
        }
      }
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        const std::byte* const at = x + r * rows.row_stride + pair * kPairBytes;
        const auto inputs = hn::Set(WordTag(), reinterpret_cast<const PairOfInputs*>(at)->bits);
        totals[r][0] = AddPair(totals[r][0], low, inputs);
        totals[r][1] = AddPair(totals[r][1], high, inputs);
      }
    }
    band += kBandStepBytes;
    x += rows.step_stride;
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    float* const to = work.sums + r * work.sum_stride;
    hn::StoreU(totals[r][0], kFloat, to);
    hn::StoreU(totals[r][1], kFloat, to + kPanelWidth);
  }
}

using PairsTileFn = void (*)(const BandRows& rows, const TileWork& work);

template <Fetching kFetching, int... kRows>
PairsTileFn TileOf(std::integer_sequence<int, kRows...> /*rows*/, int64_t count) {
  static constexpr PairsTileFn kTiles[] = {&PairsTile<kRows + 1, kFetching>...};
  return kTiles[count - 1];
}

PairsTileFn TileOf(int64_t count, Fetching fetching) {
  constexpr auto kRows = std::make_integer_sequence<int, kTileRows>();
  switch (fetching) {
    case Fetching::kNothing:
      break;
    case Fetching::kAhead:
      return TileOf<Fetching::kAhead>(kRows, count);
    case Fetching::kEveryPair:
      return TileOf<Fetching::kEveryPair>(kRows, count);
    case Fetching::kEveryOtherPair:
      return TileOf<Fetching::kEveryOtherPair>(kRows, count);
  }
  return TileOf<Fetching::kNothing>(kRows, count);
}

// sums [part.count][part.width()], of which those of one band begin at `sums`.
void MultiplyBand(const BandProduct& product, const BandPart& part, const std::byte* band,
                  float* sums) {
  const BandRows& rows = product.rows;
  const int64_t tiles = (part.count + rows.tile_rows - 1) / rows.tile_rows;
  Fetching fetching = Fetching::kNothing;
  int64_t slice_steps = product.steps;
  if (part.fetches && tiles > 1) {
    fetching = tiles > 3 ? Fetching::kEveryOtherPair : Fetching::kEveryPair;
    slice_steps = kSliceSteps;
  } else if (part.fetches && part.count >= kFewestToFetch) {
    fetching = Fetching::kAhead;
  }
  for (int64_t step = 0; step < product.steps; step += slice_steps) {
    TileWork work = {.band = band + step * kBandStepBytes,
                     .steps = std::min(slice_steps, product.steps - step),
                     .sum_stride = part.width(),
                     .adds = step > 0};
    const std::byte* const next = work.band + work.steps * kBandStepBytes;
    const int64_t lines = work.steps * kBandStepBytes / kBandLineBytes;
    for (int64_t tile = 0; tile < tiles; ++tile) {
      const int64_t row = tile * rows.tile_rows;
      const int64_t count = std::min(rows.tile_rows, part.count - row);
      work.x = rows.tile(part.first + row) + step * rows.step_stride;
      work.sums = sums + row * part.width();
      work.fetch_begin = next + lines * tile / tiles * kBandLineBytes;
      work.fetch_end = next + lines * (tile + 1) / tiles * kBandLineBytes;
      TileOf(count, fetching)(rows, work);
    }
  }
}

// A band is used by all tiles of a block while it is in the second-level cache.
void RunPairs(const BandProduct& product, int64_t begin, int64_t end) {
  ForEachBandPart(product, begin, end, [&](const BandPart& part, float* sums) {
    for (int64_t band = 0; band < part.bands; ++band) {
      MultiplyBand(product, part, product.band(part.first_band + band), sums + band * kBandWidth);
    }
  });
}

}  // namespace baton::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // HWY_AVX3

#if HWY_ONCE
namespace baton::kernels::cpu {

const BandKernel& PairsKernel() {
  static constexpr BandKernel kKernel = {.implementation = "pairs:avx512_bf16",
                                         .layout = "bands of 32 pairs, version 1",
                                         .pair_stride = N_AVX3::kPairStride,
                                         .half_stride = kBandLineBytes,
                                         .tile_rows = N_AVX3::kTileRows,
                                         .equal_tiles = true,
                                         .max_rows = 256,
                                         .rows_in_place = 3,
                                         .run = &N_AVX3::RunPairs};
  return kKernel;
}

}  // namespace baton::kernels::cpu
#endif
