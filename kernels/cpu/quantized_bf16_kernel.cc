#include <algorithm>

#include "kernels/cpu/quantized_gemm.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/quantized_bf16_kernel.cc"
#include "hwy/foreach_target.h"
#include "kernels/cpu/panel_finish-inl.h"
#include "kernels/cpu/quantized_pairs-inl.h"
#include "kernels/cpu/vec-inl.h"

// Machines with avx512_bf16 have the rest of AVX-512.
#if HWY_TARGET == HWY_AVX3
HWY_BEFORE_NAMESPACE();
namespace baton::kernels::cpu::HWY_NAMESPACE {

constexpr int kPair = 2;  // panels that stand side by side for many rows
// Columns of a slice: two panels of them take half of the first-level cache.
constexpr int64_t kSliceDepth = 256;
constexpr int64_t kSliceGroups = kSliceDepth / kGroupStep;

// The sum of a row's inputs of a group; null where it is not needed.
HWY_INLINE const float* GroupSum(const QuantizedTask& task, int64_t row, int64_t group) {
  return task.sums != nullptr ? task.sums + row * task.layout->groups + group : nullptr;
}

// totals + (products - offset * sum of inputs) * scale - minimum * sum of inputs. `input` is the
// sum, or null where neither offset nor minimums are used.
HWY_INLINE FloatVec WithGroup(const GroupScale& group, FloatVec products, const float* input,
                              FloatVec totals) {
  if (input == nullptr) return hn::MulAdd(group.scale, products, totals);
  const auto sum = hn::Set(kFloat, *input);
  totals = hn::MulAdd(group.scale, hn::NegMulAdd(group.offset, sum, products), totals);
  return group.has_minimum ? hn::NegMulAdd(group.minimum, sum, totals) : totals;
}

HWY_INLINE GroupScale LoadFoldedGroup(const QuantizedLayout& layout, const std::byte* record) {
  GroupScale group = LoadGroup(layout, record, 0);
  group.offset = hn::Sub(group.offset, hn::Set(kFloat, layout.folded_offset()));
  return group;
}

// totals [kRows][kPanels][16] += one group of columns of `kPanels` panels side by side, unpacked on
// the way.
template <typename Codes, int kRows, int kPanels>
HWY_INLINE void AddFewPairs(const QuantizedTask& task, const Codes& codes, const std::byte* panels,
                            int64_t group, float* totals) {
  const QuantizedLayout& layout = *task.layout;
  const int64_t panel_bytes = layout.panel_bytes();
  const int64_t stride = layout.padded_in();
  const uint16_t* x = static_cast<const uint16_t*>(task.rows) + group * layout.group;
  const std::byte* record = panels + group * layout.record_bytes();
  FloatVec products[kRows][kPanels];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int p = 0; p < kPanels; ++p) products[r][p] = hn::Zero(kFloat);
  }
  for (int64_t step = 0; step < layout.group / Codes::kStep; ++step) {
    PairVec loaded[kPanels];
#pragma GCC unroll 4
    for (int p = 0; p < kPanels; ++p) loaded[p] = codes.Load(record + p * panel_bytes, step);
    ForEachColumn<0, Codes::kStep / 2>([&]<int kAt>() HWY_ATTR {
      PairVec w[kPanels];
#pragma GCC unroll 4
      for (int p = 0; p < kPanels; ++p) w[p] = codes.template Get<kAt>(loaded[p]);
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
        for (int p = 0; p < kPanels; ++p) {
          products[r][p] = AddPairs(products[r][p], w[p], x + r * stride + 2 * kAt);
        }
      }
    });
    x += Codes::kStep;
  }
#pragma GCC unroll 4
  for (int p = 0; p < kPanels; ++p) {
    const GroupScale scale = LoadFoldedGroup(layout, record + p * panel_bytes);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      float* const total = totals + (r * kPanels + p) * kPanelWidth;
      hn::StoreU(WithGroup(scale, products[r][p], GroupSum(task, r, group),
                           hn::LoadU(kFloat, total)),
                 kFloat, total);
    }
  }
}

// `kPanels` panels from `panel` of the task on, for few rows.
template <typename Codes, int kRows, int kPanels>
void FewPairs(const QuantizedTask& task, int64_t panel) {
  HWY_ALIGN float totals[kRows * kPanels * kPanelWidth];
  const QuantizedLayout& layout = *task.layout;
  const Codes codes(layout);
  const std::byte* panels = task.panels + panel * layout.panel_bytes();
  std::fill_n(totals, kRows * kPanels * kPanelWidth, 0.0f);
  for (int64_t group = 0; group < layout.groups; ++group) {
    AddFewPairs<Codes, kRows, kPanels>(task, codes, panels, group, totals);
  }
  for (int64_t p = 0; p < kPanels; ++p) {
    FinishPanel(task.output, task.first_column + (panel + p) * kPanelWidth,
                totals + p * kPanelWidth, kPanels * kPanelWidth);
  }
}

// Up to `kPanels` side by side while so many are left, then one by one.
template <typename Codes, int kRows, int kPanels>
void AllFewPairs(const QuantizedTask& task) {
  int64_t panel = 0;
  for (; panel + kPanels <= task.group; panel += kPanels) {
    FewPairs<Codes, kRows, kPanels>(task, panel);
  }
  for (; panel < task.group; ++panel) FewPairs<Codes, kRows, 1>(task, panel);
}

// Some groups of up to two panels, unpacked.
struct Slice {
  HWY_ALIGN uint16_t pairs[kSliceDepth * kPair * kPanelWidth];  // [depth / 2][kPanels][16][2]
  HWY_ALIGN float scales[kSliceGroups * kPair * kPanelWidth];   // [groups][kPanels][16]
  HWY_ALIGN float offsets[kSliceGroups * kPair * kPanelWidth];
  HWY_ALIGN float minimums[kSliceGroups * kPair * kPanelWidth];
  int64_t first = 0;  // group
  int64_t groups = 0;
};

template <typename Codes, int kPanels>
void Unpack(const QuantizedTask& task, const Codes& codes, const std::byte* panels, Slice& slice) {
  const QuantizedLayout& layout = *task.layout;
  uint16_t* to = slice.pairs;
  for (int64_t g = 0; g < slice.groups; ++g) {
    const std::byte* record = panels + (slice.first + g) * layout.record_bytes();
    for (int p = 0; p < kPanels; ++p) {
      const GroupScale scale = LoadFoldedGroup(layout, record + p * layout.panel_bytes());
      const int64_t at = (g * kPanels + p) * kPanelWidth;
      hn::StoreU(scale.scale, kFloat, slice.scales + at);
      if (task.sums == nullptr) continue;
      hn::StoreU(scale.offset, kFloat, slice.offsets + at);
      hn::StoreU(scale.minimum, kFloat, slice.minimums + at);
    }
    for (int64_t step = 0; step < layout.group / Codes::kStep; ++step) {
#pragma GCC unroll 4
      for (int p = 0; p < kPanels; ++p) {
        const PairVec loaded = codes.Load(record + p * layout.panel_bytes(), step);
        ForEachColumn<0, Codes::kStep / 2>([&]<int kAt>() HWY_ATTR {
          hn::StoreU(codes.template Get<kAt>(loaded), kPairTag,
                     to + (kAt * kPanels + p) * 2 * kPanelWidth);
        });
      }
      to += Codes::kStep * kPanels * kPanelWidth;
    }
  }
}

// totals [kRows][kPanels][16] += the slice times rows from `first` on.
template <int kRows, int kPanels>
HWY_INLINE void AddTile(const QuantizedTask& task, const Slice& slice, int64_t first,
                        float* totals) {
  const QuantizedLayout& layout = *task.layout;
  const int64_t stride = layout.padded_in();
  const uint16_t* x =
      static_cast<const uint16_t*>(task.rows) + first * stride + slice.first * layout.group;
  const uint16_t* pairs = slice.pairs;
  FloatVec sums[kRows][kPanels];
#pragma GCC unroll 16
  for (int i = 0; i < kRows * kPanels; ++i) {
    sums[i / kPanels][i % kPanels] = hn::LoadU(kFloat, totals + i * kPanelWidth);
  }
  for (int64_t g = 0; g < slice.groups; ++g) {
    FloatVec products[kRows][kPanels];
#pragma GCC unroll 16
    for (int i = 0; i < kRows * kPanels; ++i) products[i / kPanels][i % kPanels] = hn::Zero(kFloat);
    for (int64_t k = 0; k < layout.group / 2; ++k) {
      PairVec w[kPanels];
#pragma GCC unroll 4
      for (int p = 0; p < kPanels; ++p) w[p] = hn::LoadU(kPairTag, pairs + p * 2 * kPanelWidth);
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
        for (int p = 0; p < kPanels; ++p) {
          products[r][p] = AddPairs(products[r][p], w[p], x + r * stride);
        }
      }
      pairs += 2 * kPanels * kPanelWidth;
      x += 2;
    }
#pragma GCC unroll 4
    for (int p = 0; p < kPanels; ++p) {
      const int64_t at = (g * kPanels + p) * kPanelWidth;
      GroupScale scale = {hn::LoadU(kFloat, slice.scales + at), hn::Zero(kFloat), hn::Zero(kFloat)};
      if (task.sums != nullptr) {
        scale.offset = hn::LoadU(kFloat, slice.offsets + at);
        scale.minimum = hn::LoadU(kFloat, slice.minimums + at);
        scale.has_minimum = layout.minimums;
      }
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
        sums[r][p] = WithGroup(scale, products[r][p], GroupSum(task, first + r, slice.first + g),
                               sums[r][p]);
      }
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < kRows * kPanels; ++i) {
    hn::StoreU(sums[i / kPanels][i % kPanels], kFloat, totals + i * kPanelWidth);
  }
}

// Products and totals of a tile, and two panels, stay in registers.
constexpr int kTileRows = 6;

template <int kPanels>
void AddRows(const QuantizedTask& task, const Slice& slice, float* totals) {
  int64_t row = 0;
  const auto run = [&]<int kRows>(int64_t least) HWY_ATTR {
    for (; task.count - row >= least; row += kRows) {
      AddTile<kRows, kPanels>(task, slice, row, totals + row * kPanels * kPanelWidth);
    }
  };
  // A tile of one or two rows would wait for its own sums, so the last two tiles share their rows.
  run.template operator()<kTileRows>(kTileRows + 3);
  run.template operator()<4>(7);
  run.template operator()<kTileRows>(kTileRows);
  run.template operator()<5>(5);
  run.template operator()<4>(4);
  run.template operator()<3>(3);
  run.template operator()<2>(2);
  run.template operator()<1>(1);
}

template <typename Codes, int kPanels>
void ManyPairs(const QuantizedTask& task, int64_t panel) {
  HWY_ALIGN float totals[kPanelRows * kPanels * kPanelWidth];
  Slice slice;
  const QuantizedLayout& layout = *task.layout;
  const Codes codes(layout);
  const std::byte* panels = task.panels + panel * layout.panel_bytes();
  std::fill_n(totals, task.count * kPanels * kPanelWidth, 0.0f);
  const int64_t most = kSliceDepth / layout.group;
  for (int64_t group = 0; group < layout.groups; group += most) {
    slice.first = group;
    slice.groups = std::min(most, layout.groups - group);
    Unpack<Codes, kPanels>(task, codes, panels, slice);
    AddRows<kPanels>(task, slice, totals);
  }
  for (int64_t p = 0; p < kPanels; ++p) {
    FinishPanel(task.output, task.first_column + (panel + p) * kPanelWidth,
                totals + p * kPanelWidth, kPanels * kPanelWidth);
  }
}

template <typename Codes>
void MultiplyPairsAs(const QuantizedTask& task) {
  int64_t panel = 0;
  switch (task.count) {
    case 1:
      return AllFewPairs<Codes, 1, 4>(task);
    case 2:
      return AllFewPairs<Codes, 2, 4>(task);
    case 3:
      return AllFewPairs<Codes, 3, 4>(task);
    case 4:
      return AllFewPairs<Codes, 4, 2>(task);
    case 5:
      return AllFewPairs<Codes, 5, 2>(task);
    case 6:
      return AllFewPairs<Codes, 6, 2>(task);
    case 7:
      return AllFewPairs<Codes, 7, 2>(task);
    case 8:
      return AllFewPairs<Codes, 8, 2>(task);
    default:
      for (; panel + kPair <= task.group; panel += kPair) ManyPairs<Codes, kPair>(task, panel);
      if (panel < task.group) ManyPairs<Codes, 1>(task, panel);
  }
}

void MultiplyPairs(const QuantizedTask& task) {
  if (task.layout->bits == 4) {
    MultiplyPairsAs<PairsOf4>(task);
  } else {
    MultiplyPairsAs<PairsOf8>(task);
  }
}

// Copies a row's elements in the order of columns; beyond the input they are 0.
void CopyInputs(const QuantizedRows& rows, const uint16_t* from, uint16_t* to) {
  const int64_t cols = rows.in.cols;
  if (rows.input_of != nullptr) {
    for (int64_t i = 0; i < cols; ++i) to[i] = from[rows.input_of[i]];
  } else {
    std::copy_n(from, cols, to);
  }
  std::fill(to + cols, to + rows.layout->padded_in(), uint16_t{0});
}

void WidenPairs(const QuantizedRows& rows, int64_t begin, int64_t end) {
  const QuantizedLayout& layout = *rows.layout;
  const int64_t cols = layout.padded_in();
  for (int64_t row = begin; row < end; ++row) {
    auto* const to = static_cast<uint16_t*>(rows.rows) + row * cols;
    CopyInputs(rows, static_cast<const uint16_t*>(rows.in.row(row)), to);
    for (int64_t group = 0; rows.sums != nullptr && group < layout.groups; ++group) {
      auto sum = hn::Zero(kFloat);
      for (int64_t k = 0; k < layout.group; k += kLanes) {
        sum = hn::Add(sum, LoadAsF32(to + group * layout.group + k));
      }
      rows.sums[row * layout.groups + group] = Sum(sum);
    }
    OrderInputs(layout.bits, cols, to);
  }
}

}  // namespace baton::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // HWY_AVX3

#if HWY_ONCE
namespace baton::kernels::cpu {

QuantizedKernel QuantizedPairsKernel() {
  return {&N_AVX3::MultiplyPairs, &N_AVX3::WidenPairs, DType::kBF16};
}

}  // namespace baton::kernels::cpu
#endif
