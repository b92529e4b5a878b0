#pragma once

#include <cstdint>

#include "kernels/attention_split.h"

namespace baton::kernels::cpu {

// How attention lays out the scratch of a task. It is computed outside of the kernels, so that
// every machine can.

// `n` in whole vectors of AVX-512, or in as many times `multiple`.
constexpr int64_t Padded(int64_t n, int64_t multiple = 16) {
  return (n + multiple - 1) / multiple * multiple;
}

// Cuts the scratch of a task, which is 64-byte aligned, into parts that are so, too.
struct ScratchCutter {
  float* next;
  float* Take(int64_t floats) {
    float* const part = next;
    next += Padded(floats);
    return part;
  }
};

// The scores of a split, and room for those that a tile writes beyond it.
inline constexpr int64_t kScoreStride = kAttentionSplitTokens + 16;

// What FloatTiles takes for so many rows, a head of `dim` and tiles of up to `tile` tokens.
struct FloatScratch {
  static constexpr int32_t kTokensTogether = 1;  // whose values are added at once
  // How many floats the result of a row takes.
  static constexpr int64_t Width(int64_t dim) { return Padded(dim); }
  static constexpr int64_t Floats(int64_t rows, int64_t dim, int64_t tile) {
    return Padded(rows * dim) + rows * kScoreStride + Padded(dim * Padded(tile)) +
           tile * Width(dim) + Padded(tile);
  }
};

// The same of PairTiles, whose vectors of columns in bfloat16 have 32.
struct PairScratch {
  static constexpr int32_t kTokensTogether = 2;
  static constexpr int64_t Width(int64_t dim) { return Padded(dim, 32); }
  static constexpr int64_t Floats(int64_t rows, int64_t dim, int64_t tile) {
    return Padded(rows * dim / 2) + rows * kScoreStride + Padded(dim / 2 * Padded(tile)) +
           (tile + 1) / 2 * Width(dim) + Padded(tile);
  }
};

// What AttentionResults takes for so many rows of `width` floats, and what it saves of a split.
struct ResultScratch {
  static constexpr int64_t Floats(int64_t rows, int64_t width) {
    return 2 * Padded(rows * width) + 4 * Padded(rows);
  }
  static constexpr int64_t SplitFloats(int64_t rows, int64_t width) { return rows * (width + 2); }
};

// Whether tokens whose values are added at once may lie in two blocks. The values of a split are
// then put together, as one tile.
template <typename Scratch>
constexpr bool GathersValues(int32_t block_size) {
  return block_size % Scratch::kTokensTogether != 0;
}

// How many tokens the largest tile has.
template <typename Scratch>
constexpr int32_t LargestTile(int32_t block_size) {
  return GathersValues<Scratch>(block_size) || block_size > kAttentionSplitTokens
             ? kAttentionSplitTokens
             : block_size;
}

// What the values that are put together take, of two bytes a number or fewer.
template <typename Scratch>
constexpr int64_t GatheredFloats(int64_t dim, int32_t block_size) {
  return GathersValues<Scratch>(block_size) ? kAttentionSplitTokens * dim / 2 : 0;
}

// All that a task of `rows` rows takes.
template <typename Scratch>
constexpr int64_t TaskFloats(int64_t rows, int64_t dim, int32_t block_size) {
  return Scratch::Floats(rows, dim, LargestTile<Scratch>(block_size)) +
         ResultScratch::Floats(rows, Scratch::Width(dim)) +
         GatheredFloats<Scratch>(dim, block_size);
}

}  // namespace baton::kernels::cpu
