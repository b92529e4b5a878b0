#include <algorithm>

#include "kernels/cpu/quantized_gemm.h"
#include "kernels/float_convert.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/quantized_kernel.cc"
#include "hwy/foreach_target.h"
#include "kernels/cpu/panel_finish-inl.h"
#include "kernels/cpu/quantized_codes-inl.h"
#include "kernels/cpu/vec-inl.h"

#if BATON_CPU_TARGET
HWY_BEFORE_NAMESPACE();
namespace baton::kernels::cpu::HWY_NAMESPACE {

// Products in fp32. Up to five rows multiply what they unpack at once; for more rows a group of a
// panel is unpacked into the first-level cache, and all rows use it. The integer that stands for 0
// is taken off as a whole at a group's end, times the sum of the inputs.
constexpr bool kManyRegisters = kParts == 1;  // AVX-512 has 32, AVX2 16
constexpr int kTileRows = kManyRegisters ? 12 : 6;

// totals += (sum of input times integer - offset * sum of input) * scale - minimum * sum of input,
// for one vector of one row. `input` is the sum of the row's group, or null where neither offset
// nor minimums are used.
HWY_INLINE void AddGroup(const GroupScale& group, FloatVec products, const float* input,
                         float* totals) {
  const auto before = hn::LoadU(kFloat, totals);
  if (input == nullptr) {
    hn::StoreU(hn::MulAdd(group.scale, products, before), kFloat, totals);
    return;
  }
  const auto sum = hn::Set(kFloat, *input);
  products = hn::NegMulAdd(group.offset, sum, products);
  auto after = hn::MulAdd(group.scale, products, before);
  if (group.has_minimum) after = hn::NegMulAdd(group.minimum, sum, after);
  hn::StoreU(after, kFloat, totals);
}

// The sum of a row's inputs of a group; null where it is not needed.
HWY_INLINE const float* SumOf(const QuantizedTask& task, int64_t row, int64_t group) {
  return task.sums != nullptr ? task.sums + row * task.layout->groups + group : nullptr;
}

// totals [kRows][kPanels][16] += one group of columns of `kPanels` panels side by side, unpacked on
// the way.
template <typename Codes, int kRows, int kPanels>
HWY_INLINE void AddFewRows(const QuantizedTask& task, const std::byte* panels, int64_t group,
                           float* totals) {
  constexpr int kVectors = kPanels * kParts;
  const QuantizedLayout& layout = *task.layout;
  const float* rows = static_cast<const float*>(task.rows) + group * layout.group;
  const int64_t stride = layout.padded_in();
  const std::byte* record = panels + group * layout.record_bytes();
  FloatVec products[kRows][kVectors];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) products[r][v] = hn::Zero(kFloat);
  }
  for (int64_t step = 0; step < layout.group / Codes::kStep; ++step) {
    typename Codes::Loaded loaded[kVectors];
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) {
      loaded[v] = Codes::Load(record + v / kParts * layout.panel_bytes(), step, v % kParts);
    }
    ForEachColumn<0, Codes::kStep>([&]<int kColumn>() HWY_ATTR {
      const float* x = rows + step * Codes::kStep + kColumn;
      FloatVec w[kVectors];
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; ++v) w[v] = Codes::template Get<kColumn>(loaded[v]);
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
        const auto input = hn::Set(kFloat, x[r * stride]);
#pragma GCC unroll 16
        for (int v = 0; v < kVectors; ++v) products[r][v] = hn::MulAdd(input, w[v], products[r][v]);
      }
    });
  }
#pragma GCC unroll 16
  for (int v = 0; v < kVectors; ++v) {
    const GroupScale scale =
        LoadGroup(layout, record + v / kParts * layout.panel_bytes(), v % kParts);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      AddGroup(scale, products[r][v], SumOf(task, r, group),
               totals + r * kPanels * kPanelWidth + v * kLanes);
    }
  }
}

template <typename Codes, int kRows, int kPanels>
void FewQuantizedRows(const QuantizedTask& task) {
  HWY_ALIGN float totals[kRows * kPanels * kPanelWidth];
  const QuantizedLayout& layout = *task.layout;
  int64_t panel = 0;
  for (; panel + kPanels <= task.group; panel += kPanels) {
    const std::byte* panels = task.panels + panel * layout.panel_bytes();
    std::fill_n(totals, kRows * kPanels * kPanelWidth, 0.0f);
    for (int64_t group = 0; group < layout.groups; ++group) {
      AddFewRows<Codes, kRows, kPanels>(task, panels, group, totals);
    }
    for (int64_t p = 0; p < kPanels; ++p) {
      FinishPanel(task.output, task.first_column + (panel + p) * kPanelWidth,
                  totals + p * kPanelWidth, kPanels * kPanelWidth);
    }
  }
  if constexpr (kPanels > 1) {
    if (panel < task.group) {
      QuantizedTask rest = task;
      rest.panels += panel * layout.panel_bytes();
      rest.group = task.group - panel;
      rest.first_column += panel * kPanelWidth;
      FewQuantizedRows<Codes, kRows, 1>(rest);
    }
  }
}

// slice [group][16] = the integers of a record in fp32.
template <typename Codes>
HWY_INLINE void UnpackRecord(const QuantizedLayout& layout, const std::byte* record, float* slice) {
  for (int64_t step = 0; step < layout.group / Codes::kStep; ++step) {
    for (int part = 0; part < kParts; ++part) {
      const auto loaded = Codes::Load(record, step, part);
      float* to = slice + step * Codes::kStep * kPanelWidth + part * kLanes;
      ForEachColumn<0, Codes::kStep>([&]<int kColumn>() HWY_ATTR {
        hn::StoreU(Codes::template Get<kColumn>(loaded), kFloat, to + kColumn * kPanelWidth);
      });
    }
  }
}

// totals [kRows][16] += one group of columns, of rows from `first` on, by the unpacked integers.
template <int kRows>
HWY_INLINE void AddTile(const QuantizedTask& task, const std::byte* record, int64_t group,
                        int64_t first, const float* slice, float* totals) {
  const QuantizedLayout& layout = *task.layout;
  const int64_t stride = layout.padded_in();
  const float* rows = static_cast<const float*>(task.rows) + first * stride + group * layout.group;
  FloatVec products[kRows][kParts];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kParts; ++v) products[r][v] = hn::Zero(kFloat);
  }
  for (int64_t k = 0; k < layout.group; ++k) {
    FloatVec w[kParts];
#pragma GCC unroll 4
    for (int v = 0; v < kParts; ++v) {
      w[v] = hn::LoadU(kFloat, slice + k * kPanelWidth + v * kLanes);
    }
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const auto x = hn::Set(kFloat, rows[r * stride + k]);
#pragma GCC unroll 4
      for (int v = 0; v < kParts; ++v) products[r][v] = hn::MulAdd(x, w[v], products[r][v]);
    }
  }
#pragma GCC unroll 4
  for (int v = 0; v < kParts; ++v) {
    const GroupScale scale = LoadGroup(layout, record, v);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      AddGroup(scale, products[r][v], SumOf(task, first + r, group),
               totals + (first + r) * kPanelWidth + v * kLanes);
    }
  }
}

template <typename Codes>
void ManyQuantizedRows(const QuantizedTask& task, int64_t panel) {
  HWY_ALIGN float slice[kMostGroup * kPanelWidth];
  HWY_ALIGN float totals[kPanelRows * kPanelWidth];
  const QuantizedLayout& layout = *task.layout;
  std::fill_n(totals, task.count * kPanelWidth, 0.0f);
  for (int64_t group = 0; group < layout.groups; ++group) {
    const std::byte* record =
        task.panels + panel * layout.panel_bytes() + group * layout.record_bytes();
    UnpackRecord<Codes>(layout, record, slice);
    int64_t row = 0;
    const auto run = [&]<int kRows>(int64_t left) HWY_ATTR {
      for (; task.count - row >= left; row += kRows) {
        AddTile<kRows>(task, record, group, row, slice, totals);
      }
    };
    // A tile of one or two rows would wait for its own sums, so the last two tiles share their
    // rows.
    run.template operator()<kTileRows>(kTileRows + 3);
    run.template operator()<kTileRows / 2 + 1>(kTileRows + 1);
    run.template operator()<kTileRows>(kTileRows);
    run.template operator()<5>(5);
    run.template operator()<4>(4);
    run.template operator()<3>(3);
    run.template operator()<2>(2);
    run.template operator()<1>(1);
  }
  FinishPanel(task.output, task.first_column + panel * kPanelWidth, totals, kPanelWidth);
}

// How many panels stand side by side for so many rows: enough for sums that do not wait for each
// other, few enough to stay in registers.
template <typename Codes>
void MultiplyAs(const QuantizedTask& task) {
  constexpr int kNarrow = kManyRegisters ? 2 : 1;
  switch (task.count) {
    case 1:
      return FewQuantizedRows < Codes, 1, kManyRegisters ? 4 : 2 > (task);
    case 2:
      return FewQuantizedRows < Codes, 2, kManyRegisters ? 4 : 2 > (task);
    case 3:
      return FewQuantizedRows<Codes, 3, kNarrow>(task);
    case 4:
      return FewQuantizedRows<Codes, 4, kNarrow>(task);
    case 5:
      return FewQuantizedRows<Codes, 5, kNarrow>(task);
    default:
      for (int64_t panel = 0; panel < task.group; ++panel) ManyQuantizedRows<Codes>(task, panel);
  }
}

void MultiplyQuantized(const QuantizedTask& task) {
  if (task.layout->bits == 4) {
    MultiplyAs<Codes4>(task);
  } else {
    MultiplyAs<Codes8>(task);
  }
}

template <typename T>
void WidenRow(const T* from, const QuantizedRows& rows, float* to) {
  const int64_t cols = rows.in.cols;
  if (rows.input_of != nullptr) {
    for (int64_t i = 0; i < cols; ++i) to[i] = LoadElement(from, rows.in.dtype, rows.input_of[i]);
  } else {
    ForEachVector(cols, [&](int64_t i, int64_t count) HWY_ATTR {
      StorePartial(LoadPartial(from + i, count), to + i, count);
    });
  }
  std::fill(to + cols, to + rows.layout->padded_in(), 0.0f);
}

// Takes off every input the power of two by which Codes4 gives the code of its column too large.
void ShiftInputs(int64_t cols, float* inputs) {
  HWY_ALIGN float factors[8];
  for (int i = 0; i < 8; ++i) factors[i] = i == 7 ? 1.0f : 1.0f / static_cast<float>(1 << (4 * i));
  for (int64_t k = 0; k < cols; ++k) inputs[k] *= factors[k % 8];
}

void WidenQuantizedRows(const QuantizedRows& rows, int64_t begin, int64_t end) {
  const QuantizedLayout& layout = *rows.layout;
  for (int64_t row = begin; row < end; ++row) {
    float* const to = static_cast<float*>(rows.rows) + row * layout.padded_in();
    if (rows.in.dtype == DType::kF32) {
      WidenRow(static_cast<const float*>(rows.in.row(row)), rows, to);
    } else {
      WidenRow(static_cast<const uint16_t*>(rows.in.row(row)), rows, to);
    }
    for (int64_t group = 0; rows.sums != nullptr && group < layout.groups; ++group) {
      auto sum = hn::Zero(kFloat);
      for (int64_t k = 0; k < layout.group; k += kLanes) {
        sum = hn::Add(sum, hn::LoadU(kFloat, to + group * layout.group + k));
      }
      rows.sums[row * layout.groups + group] = Sum(sum);
    }
    if (layout.bits == 4) ShiftInputs(layout.padded_in(), to);
  }
}

}  // namespace baton::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // BATON_CPU_TARGET

#if HWY_ONCE
namespace baton::kernels::cpu {

QuantizedKernel ChooseQuantizedKernel(Isa isa, DType compute_dtype) {
  const bool pairs = isa == Isa::kAvx512 && compute_dtype == DType::kBF16;
  if (pairs && HasAvx512Products(compute_dtype)) return QuantizedPairsKernel();
  if (isa == Isa::kAvx512) return {&N_AVX3::MultiplyQuantized, &N_AVX3::WidenQuantizedRows};
  return {&N_AVX2::MultiplyQuantized, &N_AVX2::WidenQuantizedRows};
}

}  // namespace baton::kernels::cpu
#endif
