#include <algorithm>

#include "kernels/cpu/panel_gemm.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/panel_kernel.cc"
#include "hwy/foreach_target.h"
#include "kernels/cpu/panel_finish-inl.h"
#include "kernels/cpu/vec-inl.h"

// Only the AVX2 path multiplies with these kernels.
#if HWY_TARGET == HWY_AVX2
HWY_BEFORE_NAMESPACE();
namespace baton::kernels::cpu::HWY_NAMESPACE {

constexpr int64_t kDepth = 256;  // elements of a panel that stay in the first-level cache
constexpr int kHalves = 2;       // vectors of a panel's width

// sums [kRows][kPanels * 16] += rows [kRows, depth] x panels [depth][16] each, one element of depth
// after the other.
template <int kRows, int kPanels, typename W>
HWY_INLINE void MultiplyTile(const float* rows, int64_t row_stride, const W* panels,
                             int64_t panel_stride, int64_t depth, float* sums, int64_t sum_stride) {
  constexpr int kVectors = kPanels * kHalves;
  FloatVec acc[kRows][kVectors];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      acc[r][v] = hn::LoadU(kFloat, sums + r * sum_stride + v * kLanes);
    }
  }
  for (int64_t k = 0; k < depth; ++k) {
    FloatVec w[kVectors];
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      w[v] = LoadAsF32(panels + (v / kHalves) * panel_stride + k * kPanelWidth +
                       (v % kHalves) * kLanes);
    }
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const auto x = hn::Set(kFloat, rows[r * row_stride + k]);
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) acc[r][v] = hn::MulAdd(x, w[v], acc[r][v]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      hn::StoreU(acc[r][v], kFloat, sums + r * sum_stride + v * kLanes);
    }
  }
}

// For a few rows: panels are read side by side, straight from their storage type, so that there are
// enough independent sums to hide the latency of the additions.
template <int kRows, int kPanels, typename W>
void FewRows(const PanelTask& task, const W* panels) {
  HWY_ALIGN float sums[kRows * kPanels * kPanelWidth];
  const int64_t panel_stride = task.in * kPanelWidth;
  int64_t panel = 0;
  for (; panel + kPanels <= task.group; panel += kPanels) {
    std::fill_n(sums, kRows * kPanels * kPanelWidth, 0.0f);
    MultiplyTile<kRows, kPanels>(task.rows, task.in, panels + panel * panel_stride, panel_stride,
                                 task.in, sums, kPanels * kPanelWidth);
    for (int64_t p = 0; p < kPanels; ++p) {
      FinishPanel(task.output, task.first_column + (panel + p) * kPanelWidth,
                  sums + p * kPanelWidth, kPanels * kPanelWidth);
    }
  }
  if constexpr (kPanels > 1) {
    if (panel < task.group) {
      PanelTask rest = task;
      rest.group = task.group - panel;
      rest.first_column += panel * kPanelWidth;
      FewRows<kRows, 1>(rest, panels + panel * panel_stride);
    }
  }
}

// For many rows: a slice of a panel is converted to fp32 once, and all rows use it.
template <typename W>
void ManyRows(const PanelTask& task, const W* panel, int64_t index) {
  HWY_ALIGN float slice[kDepth * kPanelWidth];
  HWY_ALIGN float sums[kPanelRows * kPanelWidth];
  std::fill_n(sums, task.count * kPanelWidth, 0.0f);
  for (int64_t k = 0; k < task.in; k += kDepth) {
    const int64_t depth = std::min(kDepth, task.in - k);
    for (int64_t i = 0; i < depth * kPanelWidth; i += kLanes) {
      hn::StoreU(LoadAsF32(panel + k * kPanelWidth + i), kFloat, slice + i);
    }
    int64_t row = 0;
    const auto run = [&]<int kRows>() {
      for (; row + kRows <= task.count; row += kRows) {
        MultiplyTile<kRows, 1>(task.rows + row * task.in + k, task.in, slice, 0, depth,
                               sums + row * kPanelWidth, kPanelWidth);
      }
    };
    run.template operator()<6>();
    run.template operator()<4>();
    run.template operator()<1>();
  }
  FinishPanel(task.output, task.first_column + index * kPanelWidth, sums, kPanelWidth);
}

template <typename W>
void RunAs(const PanelTask& task) {
  const W* panels = static_cast<const W*>(task.panels);
  if (task.count == 1) return FewRows<1, 4>(task, panels);
  if (task.count == 2) return FewRows<2, 2>(task, panels);
  if (task.count == 3) return FewRows<3, 2>(task, panels);
  if (task.count <= 6) {
    if (task.count == 4) return FewRows<4, 1>(task, panels);
    if (task.count == 5) return FewRows<5, 1>(task, panels);
    return FewRows<6, 1>(task, panels);
  }
  for (int64_t p = 0; p < task.group; ++p) ManyRows(task, panels + p * task.in * kPanelWidth, p);
}

void RunPanels(const PanelTask& task) {
  if (task.dtype == DType::kF32) {
    RunAs<float>(task);
  } else {
    RunAs<uint16_t>(task);
  }
}

template <typename T>
void ToFloats(const T* from, int64_t cols, float* to) {
  ForEachVector(cols, [&](int64_t i, int64_t count) {
    StorePartial(LoadPartial(from + i, count), to + i, count);
  });
}

void InputRowsToFloats(Matrix in, int64_t begin, int64_t end, float* out) {
  for (int64_t row = begin; row < end; ++row) {
    if (in.dtype == DType::kF32) {
      ToFloats(static_cast<const float*>(in.row(row)), in.cols, out + row * in.cols);
    } else {
      ToFloats(static_cast<const uint16_t*>(in.row(row)), in.cols, out + row * in.cols);
    }
  }
}

}  // namespace baton::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // HWY_AVX2

#if HWY_ONCE
namespace baton::kernels::cpu {

void RunPanelTask(const PanelTask& task) { N_AVX2::RunPanels(task); }

void RowsToFloats(Matrix in, int64_t begin, int64_t end, float* out) {
  N_AVX2::InputRowsToFloats(in, begin, end, out);
}

}  // namespace baton::kernels::cpu
#endif
