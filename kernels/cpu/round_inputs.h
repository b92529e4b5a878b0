#pragma once

#include <cstdint>

#include "kernels/backend.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/quantized_weight.h"

namespace baton::kernels::cpu {

// A block of a row of inputs, rounded to 8 bits as InputScale says: codes that stand for themselves
// times the scale, and where sums of products with them begin, which is minus QuantizedLayout::zero
// times the sum of the codes. Blocks of 16 fill the first half.
struct RoundedBlock {
  int8_t codes[32];
  float scale;
  int32_t start;
};

// Rows of inputs as products by small integers take them. They are cut into tiles of about equal
// height, which a kernel passes from front to back: a tile has the blocks of its rows, those of the
// first columns first. Columns are in the order of the weight's and fill its last group up with 0.
struct RoundedRows {
  int64_t rows = 0;
  int64_t tiles = 0;
  const QuantizedLayout* layout = nullptr;
  RoundedBlock* blocks = nullptr;  // [tiles][layout->blocks()][rows of the tile]
  // [tiles][layout->groups][rows of the tile]: sums of the rounded inputs. Null unless
  // layout->needs_sums().
  float* sums = nullptr;

  int64_t First(int64_t tile) const { return rows * tile / tiles; }
  int64_t Height(int64_t tile) const { return First(tile + 1) - First(tile); }
  RoundedBlock* Blocks(int64_t tile) const { return blocks + First(tile) * layout->blocks(); }
  float* Sums(int64_t tile) const {
    return sums == nullptr ? nullptr : sums + First(tile) * layout->groups;
  }
};

// Rounds groups [begin, end) of columns of `in`, counted tile by tile: tile * layout->groups +
// group stands for those of all rows of a tile, which lie together. The result does not depend on
// the instruction set.
struct RoundTask {
  Matrix in;
  const int32_t* input_of = nullptr;  // [in.cols] or null
  RoundedRows rows;
};
using RoundInputs = void (*)(const RoundTask& task, int64_t begin, int64_t end);
RoundInputs ChooseRoundInputs(Isa isa);

}  // namespace baton::kernels::cpu
