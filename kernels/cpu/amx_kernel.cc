#include <algorithm>

#include "kernels/cpu/amx_tiles.h"
#include "kernels/cpu/band_gemm.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/amx_kernel.cc"
#include "hwy/foreach_target.h"
#include "kernels/cpu/band_walk-inl.h"
#include "kernels/cpu/vec-inl.h"

// Machines with AMX have AVX-512, which writes the sums.
#if HWY_TARGET == HWY_AVX3
HWY_BEFORE_NAMESPACE();
namespace baton::kernels::cpu::HWY_NAMESPACE {

constexpr int64_t kLine = 64;
// So near that a fetch enters a page just before the first read in it: then the processor's own
// fetching, which stops at pages, follows at the rate of memory. Farther ones keep it from that.
constexpr int64_t kAheadBytes = 3072;

// Tiles 0 to 3 are sums, 4 and 5 rows, 6 and 7 the weight. Where a block is not full, rows beyond
// it are neither read nor computed.
TileConfig ConfigFor(int64_t rows) {
  TileConfig config;
  const int64_t first = std::min(kTileRows, rows);
  const int64_t second = std::clamp<int64_t>(rows - kTileRows, 0, kTileRows);
  for (const int tile : {0, 1, 4}) config.Set(tile, first);
  for (const int tile : {2, 3, 5}) config.Set(tile, second);
  for (const int tile : {6, 7}) config.Set(tile, kTileRows);
  return config;
}

// sums [32][sum_stride] = the rows of a block, whose first is at `x`, times one band. kTiles is how
// many tiles of rows there are. The first block that uses a band brings it from memory (kFetches),
// a little ahead of its use.
template <int kTiles, bool kFetches>
void AmxBlock(const BandRows& rows, const std::byte* x, const std::byte* band, int64_t steps,
              float* sums, int64_t sum_stride) {
  ZeroTile<0>();
  ZeroTile<1>();
  if constexpr (kTiles == 2) {
    ZeroTile<2>();
    ZeroTile<3>();
  }
  for (int64_t step = 0; step < steps; ++step) {
    LoadTile<6>(band, kTileRowBytes);
    LoadTile<4>(x, rows.row_stride);
    MultiplyTiles<0, 4, 6>();
    LoadTile<7>(band + kTileBytes, kTileRowBytes);
    MultiplyTiles<1, 4, 7>();
    if constexpr (kTiles == 2) {
      LoadTile<5>(x + rows.tile_stride, rows.row_stride);
      MultiplyTiles<2, 5, 6>();
      MultiplyTiles<3, 5, 7>();
    }
    if constexpr (kFetches) {
#pragma GCC unroll 32
      for (int64_t at = 0; at < kBandStepBytes; at += kLine) {
        __builtin_prefetch(band + kAheadBytes + at, 0, 2);
      }
    }
    band += kBandStepBytes;
    x += rows.step_stride;
  }
  const int64_t stride = sum_stride * static_cast<int64_t>(sizeof(float));
  StoreTile<0>(sums, stride);
  StoreTile<1>(sums + kTileRows, stride);
  if constexpr (kTiles == 2) {
    StoreTile<2>(sums + kTileRows * sum_stride, stride);
    StoreTile<3>(sums + kTileRows * sum_stride + kTileRows, stride);
  }
}

using AmxBlockFn = void (*)(const BandRows& rows, const std::byte* x, const std::byte* band,
                            int64_t steps, float* sums, int64_t sum_stride);

AmxBlockFn BlockFor(int64_t count, bool fetches) {
  if (count > kTileRows) return fetches ? &AmxBlock<2, true> : &AmxBlock<2, false>;
  return fetches ? &AmxBlock<1, true> : &AmxBlock<1, false>;
}

void RunAmx(const BandProduct& product, int64_t begin, int64_t end) {
  const BandRows& rows = product.rows;
  ConfigureTiles(ConfigFor(rows.blocks() == 1 ? rows.count : kBandBlock));
  ForEachBandPart(product, begin, end, [&](const BandPart& part, float* sums) {
    const AmxBlockFn multiply = BlockFor(part.count, part.fetches);
    for (int64_t band = 0; band < part.bands; ++band) {
      multiply(rows, rows.tile(part.first), product.band(part.first_band + band), product.steps,
               sums + band * kBandWidth, part.width());
    }
  });
  ReleaseTiles();
}

}  // namespace baton::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // HWY_AVX3

#if HWY_ONCE
namespace baton::kernels::cpu {

const BandKernel& AmxKernel() {
  static constexpr BandKernel kKernel = {.implementation = "tiles:amx_bf16",
                                         .layout = "bands of 32, version 1",
                                         .pair_stride = kTileRowBytes,
                                         .half_stride = kTileBytes,
                                         .tile_rows = kTileRows,
                                         .max_rows = 512,
                                         .rows_in_place = kBandBlock,
                                         .run = &N_AVX3::RunAmx};
  return kKernel;
}

}  // namespace baton::kernels::cpu
#endif
