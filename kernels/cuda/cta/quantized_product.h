#pragma once

#include <cstdint>

#include "kernels/cuda/cta/cta.h"
#include "kernels/cuda/cta/elements.h"
#include "kernels/cuda/cta/quantized_data.h"
#include "kernels/cuda/cta/sample_math.h"

// The algorithms of gemm/quantized.cu, over a Cta so that tests can run them on the host. All steps
// are single roundings in fp32, so host and device give the same bits.
namespace baton::kernels::cuda {

BATON_HD CodeWord LoadCodes(const CodeWord* from) {
#ifdef __CUDA_ARCH__
  // Every word is read once.
  const uint4 word = __ldcs(reinterpret_cast<const uint4*>(from));
  return {{word.x, word.y, word.z, word.w}};
#else
  return *from;
#endif
}

constexpr float kWholeOnly = 8388608;  // 2^23: the last bit of such a number in fp32 is 1
constexpr uint32_t kWholeOnlyBits = 0x4b000000;

// The eight codes of a run of 4 bits, less the one that stands for 0. Where a code stands in the
// word decides its power of 16, which the multiplication takes off: that is exact.
BATON_HD void UnpackRun4(uint32_t codes, float zero, float values[kRunColumns]) {
  BATON_UNROLL
  for (int half = 0; half < 2; ++half) {
    float scale = 1;
    BATON_UNROLL
    for (int i = 0; i < 4; ++i) {
      const float shifted = BitsFloat((codes & 0xfU << (4 * i)) | kWholeOnlyBits);
      values[4 * half + i] = FmaRn(shifted, scale, -(kWholeOnly * scale + zero));
      scale *= 0.0625F;
    }
    codes >>= 16;
  }
}

// The same for four codes of 8 bits.
BATON_HD void UnpackHalfRun8(uint32_t codes, float zero, float values[4]) {
  BATON_UNROLL
  for (int i = 0; i < 4; ++i) {
#ifdef __CUDA_ARCH__
    const uint32_t bits = __byte_perm(codes, kWholeOnlyBits, 0x7440U + static_cast<uint32_t>(i));
#else
    const uint32_t bits = (codes >> (8 * i) & 0xffU) | kWholeOnlyBits;
#endif
    values[i] = AddRn(BitsFloat(bits), -(kWholeOnly + zero));
  }
}

template <int kBits>
BATON_HD void UnpackRun(const CodeWord& word, int run, float zero, float values[kRunColumns]) {
  if constexpr (kBits == 4) {
    UnpackRun4(word.at[run], zero, values);
  } else {
    UnpackHalfRun8(word.at[2 * run], zero, values);
    UnpackHalfRun8(word.at[2 * run + 1], zero, values + 4);
  }
}

// What a group has beside its codes.
struct GroupScale {
  float scale;
  float zero;
  float minimum;
};

BATON_HD GroupScale LoadGroup(const QuantizedView& weight, int64_t out, int64_t column) {
  const int64_t at = out * weight.groups + (column >> weight.group_shift);
  GroupScale group;
  if (weight.scale_dtype == DType::kF32) {
    group.scale = static_cast<const float*>(weight.scales)[at];
  } else if (weight.scale_dtype == DType::kBF16) {
    group.scale = Widen(static_cast<const Bf16Bits*>(weight.scales)[at]);
  } else {
    group.scale = Widen(static_cast<const F16Bits*>(weight.scales)[at]);
  }
  group.zero =
      static_cast<float>(weight.zero_points != nullptr ? weight.zero_points[at] : weight.offset);
  group.minimum = weight.minimums != nullptr ? weight.minimums[at] : 0;
  return group;
}

constexpr int kProductLanes = 32;
constexpr int kProductWarps = 4;
constexpr int kProductThreads = kProductLanes * kProductWarps;

// Outputs that a warp computes at once: more share what is loaded of the input, fewer make more
// blocks of threads.
constexpr int OutputsOfWarp(int rows) { return rows <= 2 ? 2 : 4; }
constexpr int OutputsOfBlock(int rows) { return kProductWarps * OutputsOfWarp(rows); }

// out [rows, weight.out] = in [rows, weight.in] · weightᵀ + bias, or += with `accumulate`. Rows are
// dense.
template <typename T>
struct FewRows {
  int rows = 0;
  const T* in = nullptr;
  bool aligned = false;         // whether every run of the input begins on 16 bytes
  float* out_floats = nullptr;  // one of these two
  T* out_rounded = nullptr;
  const float* bias = nullptr;  // [out], or null
  bool accumulate = false;
};

template <int kRows>
struct ProductShared {
  // A sum per lane, and one word more, so that neither writing nor adding meets in a bank.
  float sums[kRows * OutputsOfBlock(kRows)][kProductLanes + 1];
};

template <typename T>
struct alignas(16) InputRun {
  T at[kRunColumns];
};

// The inputs of the run that begins at `column`; 0 for what lies beyond the weight.
template <typename T>
BATON_HD void LoadInputs(const QuantizedView& weight, const FewRows<T>& rows, int row,
                         int64_t column, float values[kRunColumns]) {
  const T* const from = rows.in + row * weight.in;
  if (rows.aligned) {
    const InputRun<T> run = *reinterpret_cast<const InputRun<T>*>(from + column);
    BATON_UNROLL
    for (int i = 0; i < kRunColumns; ++i) values[i] = Widen(run.at[i]);
    return;
  }
  for (int i = 0; i < kRunColumns; ++i) {
    const int64_t at = column + i;
    values[i] = 0;
    if (at < weight.in) {
      values[i] = Widen(from[weight.input_of != nullptr ? weight.input_of[at] : at]);
    }
  }
}

// Adds what a lane's word contributes to its sums [outputs][rows]. Within a run the integers are
// summed up in the order of the columns, then scaled and added: the same for every kRows.
template <typename T, int kBits, int kRows>
BATON_HD void MultiplyWord(const QuantizedView& weight, const FewRows<T>& rows, int64_t word,
                           const int64_t* outs, const CodeWord* codes, float (*sums)[kRows]) {
  constexpr int kOuts = OutputsOfWarp(kRows);
  BATON_UNROLL
  for (int run = 0; run < RunsOfWord(kBits); ++run) {
    const int64_t column = ColumnOfRun(weight, word, run);
    if (column >= weight.in) break;
    float integers[kOuts][kRunColumns];
    GroupScale groups[kOuts];
    BATON_UNROLL
    for (int out = 0; out < kOuts; ++out) {
      groups[out] = LoadGroup(weight, outs[out], column);
      UnpackRun<kBits>(codes[out], run, groups[out].zero, integers[out]);
    }
    BATON_UNROLL
    for (int row = 0; row < kRows; ++row) {
      if (row >= rows.rows) break;
      float inputs[kRunColumns];
      LoadInputs(weight, rows, row, column, inputs);
      BATON_UNROLL
      for (int out = 0; out < kOuts; ++out) {
        float sum = 0;
        BATON_UNROLL
        for (int i = 0; i < kRunColumns; ++i) sum = FmaRn(integers[out][i], inputs[i], sum);
        sums[out][row] = FmaRn(groups[out].scale, sum, sums[out][row]);
      }
      if (weight.minimums == nullptr) continue;
      float total = 0;
      BATON_UNROLL
      for (int i = 0; i < kRunColumns; ++i) total = AddRn(total, inputs[i]);
      BATON_UNROLL
      for (int out = 0; out < kOuts; ++out) {
        sums[out][row] = FmaRn(-groups[out].minimum, total, sums[out][row]);
      }
    }
  }
}

// Writes one element of the product, whose sum is `sum`.
template <typename T>
BATON_HD void StoreProduct(const QuantizedView& weight, const FewRows<T>& rows, int row,
                           int64_t out, float sum) {
  if (rows.bias != nullptr) sum = AddRn(sum, rows.bias[out]);
  const int64_t at = row * weight.out + out;
  if (rows.out_floats == nullptr) {
    Narrow(sum, rows.out_rounded + at);
    return;
  }
  if (rows.accumulate) sum = AddRn(rows.out_floats[at], sum);
  rows.out_floats[at] = sum;
}

// The outputs [block * OutputsOfBlock, …) of up to kRows rows, by one block of kProductThreads
// threads. Every warp has outputs of its own. Its lanes have every 32nd word of them, and their
// sums are added in the order of the lanes.
template <typename Cta, typename T, int kBits, int kRows>
BATON_HD void MultiplyFewRows(Cta& cta, const QuantizedView& weight, const FewRows<T>& rows,
                              int64_t block, ProductShared<kRows>& shared) {
  constexpr int kOuts = OutputsOfWarp(kRows);
  constexpr int kBlockOuts = OutputsOfBlock(kRows);
  cta.ForEach([&](int t) {
    const int lane = t % kProductLanes;
    const int first = t / kProductLanes * kOuts;
    int64_t outs[kOuts];
    float sums[kOuts][kRows];
    BATON_UNROLL
    for (int out = 0; out < kOuts; ++out) {
      // What lies beyond the weight is computed like the last output, and not written.
      const int64_t index = block * kBlockOuts + first + out;
      outs[out] = index < weight.out ? index : weight.out - 1;
      BATON_UNROLL
      for (int row = 0; row < kRows; ++row) sums[out][row] = 0;
    }
    CodeWord next[kOuts] = {};
    BATON_UNROLL
    for (int out = 0; out < kOuts; ++out) {
      if (lane < weight.words)
        next[out] = LoadCodes(weight.codes + outs[out] * weight.words + lane);
    }
    for (int64_t word = lane; word < weight.words; word += kProductLanes) {
      CodeWord codes[kOuts];
      BATON_UNROLL
      for (int out = 0; out < kOuts; ++out) {
        codes[out] = next[out];
        const int64_t ahead = word + kProductLanes;
        if (ahead < weight.words) {
          next[out] = LoadCodes(weight.codes + outs[out] * weight.words + ahead);
        }
      }
      MultiplyWord<T, kBits, kRows>(weight, rows, word, outs, codes, sums);
    }
    BATON_UNROLL
    for (int out = 0; out < kOuts; ++out) {
      BATON_UNROLL
      for (int row = 0; row < kRows; ++row) {
        shared.sums[row * kBlockOuts + first + out][lane] = sums[out][row];
      }
    }
  });
  cta.ForEach([&](int t) {
    for (int at = t; at < rows.rows * kBlockOuts; at += kProductThreads) {
      const int64_t out = block * kBlockOuts + at % kBlockOuts;
      if (out >= weight.out) continue;
      float sum = 0;
      for (int lane = 0; lane < kProductLanes; ++lane) sum = AddRn(sum, shared.sums[at][lane]);
      StoreProduct(weight, rows, at / kBlockOuts, out, sum);
    }
  });
}

// Writes the numbers that a word of output `out` stands for to `to` [weight.out, weight.in], each
// at the place of its input, rounded to T.
template <typename T, int kBits>
BATON_HD void WidenWord(const QuantizedView& weight, int64_t out, int64_t word, bool aligned,
                        T* to) {
  const CodeWord codes = LoadCodes(weight.codes + out * weight.words + word);
  T* const row = to + out * weight.in;
  BATON_UNROLL
  for (int run = 0; run < RunsOfWord(kBits); ++run) {
    const int64_t column = ColumnOfRun(weight, word, run);
    if (column >= weight.in) break;
    const GroupScale group = LoadGroup(weight, out, column);
    float values[kRunColumns];
    UnpackRun<kBits>(codes, run, group.zero, values);
    InputRun<T> numbers;
    BATON_UNROLL
    for (int i = 0; i < kRunColumns; ++i) {
      Narrow(AddRn(MulRn(values[i], group.scale), -group.minimum), &numbers.at[i]);
    }
    if (aligned) {
      *reinterpret_cast<InputRun<T>*>(row + column) = numbers;
      continue;
    }
    for (int i = 0; i < kRunColumns; ++i) {
      const int64_t at = column + i;
      if (at < weight.in) {
        row[weight.input_of != nullptr ? weight.input_of[at] : at] = numbers.at[i];
      }
    }
  }
}

}  // namespace baton::kernels::cuda
