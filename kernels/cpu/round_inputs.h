#pragma once

#include <cstdint>

#include "kernels/backend.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/quantized_weight.h"

namespace baton::kernels::cpu {

// Rows of inputs rounded to 8 bits, as products by small integers take them. Columns are in the
// order of the weight's and fill its last group up with 0.
struct RoundedRows {
  int8_t* codes = nullptr;  // [rows, layout.padded_in()]
  float* scales = nullptr;  // [rows, layout.blocks()]: a code stands for itself times its block's
  // [rows, layout.blocks()]: where sums of products begin, layout.zero times the sum of the codes
  // of the block, times -1.
  int32_t* starts = nullptr;
  // [rows, layout.groups]: sums of the rounded inputs of every group. Null unless
  // layout.needs_sums().
  float* sums = nullptr;

  RoundedRows From(int64_t row, const QuantizedLayout& layout) const {
    return {codes + row * layout.padded_in(), scales + row * layout.blocks(),
            starts + row * layout.blocks(), sums == nullptr ? nullptr : sums + row * layout.groups};
  }
};

// Rounds rows [begin, end) of `in`. What every block of columns becomes is said at
// reference::RoundInputs, and does not depend on the instruction set.
struct RoundTask {
  Matrix in;
  const int32_t* input_of = nullptr;  // [in.cols] or null
  const QuantizedLayout* layout = nullptr;
  RoundedRows rows;
};
using RoundInputs = void (*)(const RoundTask& task, int64_t begin, int64_t end);
RoundInputs ChooseRoundInputs(Isa isa);

}  // namespace baton::kernels::cpu
