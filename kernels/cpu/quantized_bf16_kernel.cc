#include <algorithm>
#include <iterator>

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

// Products of pairs in bfloat16. Every tile of up to eight rows unpacks in registers for itself. Of
// 4 bits, what stands for 0 is taken off by the table in which codes are looked up (see
// QuantizedLayout::folded_offset), and only what is left of it, as of zero points, at a group's
// end. The instruction takes denormal inputs as 0.
constexpr int64_t kPair = 2;  // panels that are multiplied side by side
// Records of up to so many bytes, four at once, are so near each other that the processor fetches
// them by itself; others are fetched so far ahead.
constexpr int64_t kSmallRecord = 320;
constexpr int64_t kAhead = 4096;

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

// Fetches what loading vector `vector` of a step, from `record` on, will read some steps later: the
// panels side by side, or one panel from front to back.
template <typename Codes, int kPanels, int kGroups>
HWY_INLINE void FetchAhead(const std::byte* first, const std::byte* record, int64_t step,
                           int vector) {
  if constexpr (kPanels == kPair) {
    __builtin_prefetch(record + step * Codes::kStepBytes + kAhead, 0, 3);
  } else {
    __builtin_prefetch(first + (step * kGroups + vector) * Codes::kStepBytes + kAhead, 0, 3);
  }
}

// totals [kRows][kPanels] += `kGroups` groups of columns from `group` on of `kPanels` panels side
// by side, unpacked on the way. Groups and panels together are sums enough that none waits for
// itself.
template <typename Codes, int kRows, int kPanels, int kGroups>
HWY_INLINE void AddGroups(const QuantizedTask& task, const QuantizedLayout& layout,
                          const Codes& codes, const std::byte* panels, int64_t group,
                          FloatVec (&totals)[kRows][kPanels]) {
  constexpr int kVectors = kPanels * kGroups;
  const int64_t stride = layout.padded_in();
  const int64_t columns = layout.group;
  const std::byte* const record = panels + group * layout.record_bytes();
  const std::byte* records[kVectors];
  FloatVec products[kRows][kVectors];
#pragma GCC unroll 4
  for (int v = 0; v < kVectors; ++v) {
    records[v] = record + v % kPanels * layout.panel_bytes() + v / kPanels * layout.record_bytes();
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) products[r][v] = hn::Zero(kFloat);
  }
  const uint16_t* x = static_cast<const uint16_t*>(task.rows) + group * columns;
  for (int64_t step = 0; step < columns / Codes::kStep; ++step) {
    PairVec loaded[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      loaded[v] = codes.Load(records[v], step);
      if (kGroups < 4) FetchAhead<Codes, kPanels, kGroups>(record, records[v], step, v);
    }
    ForEachColumn<0, Codes::kStep / 2>([&]<int kAt>() HWY_ATTR {
      PairVec w[kVectors];
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) w[v] = codes.template Get<kAt>(loaded[v]);
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
        AddPairs<kPanels>(x + r * stride + 2 * kAt, columns, w, products[r]);
      }
    });
    x += Codes::kStep;
  }
#pragma GCC unroll 4
  for (int v = 0; v < kVectors; ++v) {
    const GroupScale scale = LoadFoldedGroup(layout, records[v]);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      FloatVec& total = totals[r][v % kPanels];
      total = WithGroup(scale, products[r][v], GroupSum(task, r, group + v / kPanels), total);
    }
  }
}

// The rows of the task by `kPanels` panels from `panel` on.
template <typename Codes, int kRows, int kPanels, int kGroups>
void MultiplyPanels(const QuantizedTask& task, int64_t panel) {
  const QuantizedLayout layout = *task.layout;
  const Codes codes(layout);
  const std::byte* panels = task.panels + panel * layout.panel_bytes();
  FloatVec totals[kRows][kPanels];
  for (int i = 0; i < kRows * kPanels; ++i) totals[i / kPanels][i % kPanels] = hn::Zero(kFloat);
  int64_t group = 0;
  for (; group + kGroups <= layout.groups; group += kGroups) {
    AddGroups<Codes, kRows, kPanels, kGroups>(task, layout, codes, panels, group, totals);
  }
  for (; group < layout.groups; ++group) {
    AddGroups<Codes, kRows, kPanels, 1>(task, layout, codes, panels, group, totals);
  }
  HWY_ALIGN float sums[kRows * kPanels * kPanelWidth];
  for (int i = 0; i < kRows * kPanels; ++i) {
    hn::Store(totals[i / kPanels][i % kPanels], kFloat, sums + i * kPanelWidth);
  }
  for (int64_t p = 0; p < kPanels; ++p) {
    FinishPanel(task.output, task.first_column + (panel + p) * kPanelWidth, sums + p * kPanelWidth,
                kPanels * kPanelWidth);
  }
}

// The rows of the task by up to two panels. Up to three rows wait for memory, which is read fastest
// from front to back: they take one panel, several groups of it at once. More rows take two panels
// at once, which share the inputs.
template <typename Codes, int kRows>
void MultiplyRows(const QuantizedTask& task, int64_t panel) {
  const int64_t end = std::min(panel + kPair, task.group);
  if constexpr (kRows > 3) {
    if (panel + kPair == end) return MultiplyPanels<Codes, kRows, kPair, 1>(task, panel);
  }
  for (; panel < end; ++panel) {
    if constexpr (kRows <= 3) {
      if (task.layout->record_bytes() <= kSmallRecord) {
        MultiplyPanels<Codes, kRows, 1, 4>(task, panel);
        continue;
      }
    }
    MultiplyPanels<Codes, kRows, 1, 2>(task, panel);
  }
}

// The task of `count` of its rows from `first` on.
QuantizedTask RowsOf(QuantizedTask task, int64_t first, int64_t count) {
  task.rows = static_cast<const uint16_t*>(task.rows) + first * task.layout->padded_in();
  if (task.sums != nullptr) task.sums += first * task.layout->groups;
  task.count = count;
  const Matrix out = task.output.out;
  task.output.out = Matrix::Dense(out.row(first), out.dtype, count, out.cols);
  return task;
}

// Rows in equal tiles of as many as leave room in registers. All pass two panels while these are
// in a cache; unpacking once for eight rows costs no more than unpacking into the cache once would.
template <typename Codes>
void MultiplyPairsAs(const QuantizedTask& task) {
  static constexpr void (*kMultiply[])(const QuantizedTask& task, int64_t panel) = {
      &MultiplyRows<Codes, 1>, &MultiplyRows<Codes, 2>, &MultiplyRows<Codes, 3>,
      &MultiplyRows<Codes, 4>, &MultiplyRows<Codes, 5>, &MultiplyRows<Codes, 6>,
      &MultiplyRows<Codes, 7>, &MultiplyRows<Codes, 8>};
  constexpr auto kTileRows = static_cast<int64_t>(std::size(kMultiply));
  const int64_t tiles = (task.count + kTileRows - 1) / kTileRows;
  for (int64_t panel = 0; panel < task.group; panel += kPair) {
    for (int64_t tile = 0; tile < tiles; ++tile) {
      const int64_t first = task.count * tile / tiles;
      const int64_t rows = task.count * (tile + 1) / tiles - first;
      kMultiply[rows - 1](RowsOf(task, first, rows), panel);
    }
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
