#pragma once

#include <cstdint>

namespace baton::kernels::cpu {

// AMX's instructions, for code that runs only where MayUseAmx() holds. A tile is up to 16 rows of
// 64 bytes; there are 8 of them per thread, whose sizes LDTILECFG sets. They are written in
// assembly, for the compiler's own forms do not order loads of tiles behind stores to memory. The
// "memory" of every one also keeps them in the order of the source.

inline constexpr int64_t kTileRows = 16;
inline constexpr int64_t kTileRowBytes = 64;
inline constexpr int64_t kTileBytes = kTileRows * kTileRowBytes;

// The operand of LDTILECFG.
struct alignas(64) TileConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};

  void Set(int tile, int64_t tile_rows) {
    row_bytes[tile] = tile_rows > 0 ? kTileRowBytes : 0;
    rows[tile] = static_cast<uint8_t>(tile_rows);
  }
};
static_assert(sizeof(TileConfig) == 64);

// The tiles of the calling thread have these sizes, and hold zeros, until ReleaseTiles. A thread
// that has released them is switched without their 8 KiB.
inline void ConfigureTiles(const TileConfig& config) {
  asm volatile("ldtilecfg %0" ::"m"(config) : "memory");
}
inline void ReleaseTiles() { asm volatile("tilerelease" ::: "memory"); }

template <int kTile>
inline void ZeroTile() {
  asm volatile("tilezero %%tmm%c0" ::"i"(kTile) : "memory");
}

// Rows of the tile lie `stride` bytes apart.
template <int kTile>
inline void LoadTile(const void* from, int64_t stride) {
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(from), "r"(stride), "i"(kTile) : "memory");
}
template <int kTile>
inline void StoreTile(void* to, int64_t stride) {
  asm volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(to), "r"(stride), "i"(kTile) : "memory");
}

// kSum (fp32) += kRows (bf16 [rows, 32]) x kPairs (bf16 [16 pairs of a row's elements, 16
// columns, 2]). Within the 32 the elements of even and of odd places are summed apart from 0, each
// sum rounded to nearest even, and their sum is added. Denormal numbers are taken as 0.
template <int kSum, int kRows, int kPairs>
inline void MultiplyTiles() {
  asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(kSum), "i"(kRows), "i"(kPairs)
               : "memory");
}

}  // namespace baton::kernels::cpu
