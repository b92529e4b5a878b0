#pragma once

#include <cstdint>

#include "kernels/cuda/cta/cta.h"
#include "kernels/dtype.h"

// How a weight [out, in] of small integers lies in the device's memory, for host and device.
//
// A row of codes is a row of words of 16 bytes, each with 32 codes of 4 bits or 16 of 8 bits. A
// code is stored plus the half of its range, so that it has no sign. A word is made of runs of
// eight columns, and the runs of a word are not neighbours: 32 words are a stripe (the last one of
// a row has what is left), whose lane l has, of every row of runs of the stripe, the one in place
// l. So the threads of a warp, which read neighbouring words, multiply neighbouring runs of the
// input. The columns that fill the last word have codes of 0, and are multiplied by inputs of 0.
namespace baton::kernels::cuda {

constexpr int kRunColumns = 8;
constexpr int kStripeWords = 32;

struct alignas(16) CodeWord {
  uint32_t at[4];
};

constexpr int RunsOfWord(int bits) { return bits == 4 ? 4 : 2; }
constexpr int CodeOffset(int bits) { return bits == 4 ? 8 : 128; }

struct QuantizedView {
  int bits = 8;
  int64_t out = 0;
  int64_t in = 0;
  int64_t words = 0;    // of a row
  int64_t groups = 0;   // of a row
  int group_shift = 0;  // a group has so many columns as a power of two, at least two runs
  DType scale_dtype = DType::kF32;
  int32_t offset = 0;                    // the stored code that stands for 0, without zero points
  const CodeWord* codes = nullptr;       // [out, words]
  const void* scales = nullptr;          // [out, groups]
  const int16_t* zero_points = nullptr;  // [out, groups] stored codes that stand for 0; or null
  const float* minimums = nullptr;       // [out, groups], or null
  const int32_t* input_of = nullptr;     // [in] the input of each column, or null
};

// The first column of run `run` of a word.
BATON_HD int64_t ColumnOfRun(const QuantizedView& weight, int64_t word, int run) {
  const int64_t stripe = word / kStripeWords * kStripeWords;
  const int64_t left = weight.words - stripe;
  const int64_t lanes = left < kStripeWords ? left : kStripeWords;
  const int runs = RunsOfWord(weight.bits);
  return (stripe * runs + run * lanes + word - stripe) * kRunColumns;
}

}  // namespace baton::kernels::cuda
