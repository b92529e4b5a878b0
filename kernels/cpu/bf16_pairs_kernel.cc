#include <algorithm>

#include "kernels/cpu/band_gemm.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/bf16_pairs_kernel.cc"
#include "hwy/foreach_target.h"
#include "kernels/cpu/band_walk-inl.h"
#include "kernels/cpu/vec-inl.h"

// Machines with avx512_bf16 have the rest of AVX-512.
#if HWY_TARGET == HWY_AVX3
HWY_BEFORE_NAMESPACE();
namespace baton::kernels::cpu::HWY_NAMESPACE {

// Products of pairs in bfloat16: to each output's sum, pairs of columns are added in ascending
// order, each pair's products as VDPBF16PS adds them. The instruction takes denormal inputs as 0,
// and makes denormal sums 0.
constexpr int64_t kPairBytes = 4;
constexpr int64_t kPairStride = kBandWidth * kPairBytes;
constexpr int kHalves = 2;  // vectors of a band's width
constexpr int kPairsOfStep = static_cast<int>(kBandDepth) / 2;

using WordTag = hn::Repartition<int32_t, FloatTag>;
using WordVec = hn::Vec<WordTag>;

struct __attribute__((packed, may_alias)) PairOfInputs {
  int32_t bits;
};

// The assembler's way keeps the rest of the file at AVX-512 alone.
HWY_INLINE FloatVec AddPair(FloatVec sums, WordVec pairs, WordVec inputs) {
  asm("vdpbf16ps %2, %1, %0" : "+v"(sums.raw) : "v"(pairs.raw), "v"(inputs.raw));
  return sums;
}

// How far ahead tiles of six rows or more fetch a band into the second-level cache, which take as
// long to multiply as to read. The processor's own fetching does not fill the time that they
// multiply. Fewer rows are faster without: they wait for nothing but that fetching.
constexpr int64_t kAheadBytes = 16 << 10;

// sums [kRows][32] = the rows of a tile, whose first is at `x`, times one band, which is read from
// front to back. The first tile that uses a band brings it from memory (kFetches). With one row the
// two halves of the band's sums hide the latency of the additions behind memory.
template <int kRows, bool kFetches>
void PairsTile(const BandRows& rows, const std::byte* x, const std::byte* band, int64_t steps,
               float* sums, int64_t sum_stride) {
  FloatVec totals[kRows][kHalves];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) totals[r][0] = totals[r][1] = hn::Zero(kFloat);
  for (int64_t step = 0; step < steps; ++step) {
#pragma GCC unroll 4
    for (int pair = 0; pair < kPairsOfStep; ++pair) {
      const auto* const from = reinterpret_cast<const int32_t*>(band + pair * kPairStride);
      const auto low = hn::LoadU(WordTag(), from);
      const auto high = hn::LoadU(WordTag(), from + kPanelWidth);
      if constexpr (kFetches) {
        __builtin_prefetch(band + pair * kPairStride + kAheadBytes, 0, 2);
        __builtin_prefetch(band + pair * kPairStride + kBandLineBytes + kAheadBytes, 0, 2);
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
    hn::StoreU(totals[r][0], kFloat, sums + r * sum_stride);
    hn::StoreU(totals[r][1], kFloat, sums + r * sum_stride + kPanelWidth);
  }
}

using PairsTileFn = void (*)(const BandRows& rows, const std::byte* x, const std::byte* band,
                             int64_t steps, float* sums, int64_t sum_stride);

template <bool kFetches>
PairsTileFn TileFor(int64_t count) {
  static constexpr PairsTileFn kTiles[] = {
      &PairsTile<1, false>,    &PairsTile<2, false>,    &PairsTile<3, false>,
      &PairsTile<4, false>,    &PairsTile<5, false>,    &PairsTile<6, kFetches>,
      &PairsTile<7, kFetches>, &PairsTile<8, kFetches>,
  };
  return kTiles[count - 1];
}

// A band is used by all tiles of a block while it is in the second-level cache.
void RunPairs(const BandProduct& product, int64_t begin, int64_t end) {
  const BandRows& rows = product.rows;
  ForEachBandPart(product, begin, end, [&](const BandPart& part, float* sums) {
    for (int64_t band = 0; band < part.bands; ++band) {
      for (int64_t row = 0; row < part.count; row += rows.tile_rows) {
        const int64_t of_tile = std::min(rows.tile_rows, part.count - row);
        const bool first_use = part.fetches && row == 0;
        const PairsTileFn multiply = first_use ? TileFor<true>(of_tile) : TileFor<false>(of_tile);
        multiply(rows, rows.tile(part.first + row), product.band(part.first_band + band),
                 product.steps, sums + row * part.width() + band * kBandWidth, part.width());
      }
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
                                         .tile_rows = 8,
                                         .equal_tiles = true,
                                         .max_rows = 256,
                                         .rows_in_place = 3,
                                         .run = &N_AVX3::RunPairs};
  return kKernel;
}

}  // namespace baton::kernels::cpu
#endif
