// How products write sums of panels of 16 outputs, and of bands, which are as two. Highway includes
// this once for each instruction set that it compiles, so it has a toggle, no include guard.
#if defined(BATON_KERNELS_CPU_PANEL_FINISH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BATON_KERNELS_CPU_PANEL_FINISH_INL_H_
#undef BATON_KERNELS_CPU_PANEL_FINISH_INL_H_
#else
#define BATON_KERNELS_CPU_PANEL_FINISH_INL_H_
#endif

#include <algorithm>
#include <cstdint>

#include "kernels/cpu/panel_gemm.h"
#include "kernels/cpu/vec-inl.h"

#if BATON_CPU_TARGET
HWY_BEFORE_NAMESPACE();
namespace baton::kernels::cpu::HWY_NAMESPACE {

// out = sums (+ bias) (+ out) for one row and one panel, whose first output is `column`.
template <typename Out>
HWY_INLINE void FinishRow(const PanelOutput& output, int64_t column, const float* sums, Out* out) {
  const int64_t left = std::min(kPanelWidth, output.out.cols - column);
  ForEachVector(left, [&](int64_t i, int64_t count) {
    auto value = hn::LoadU(kFloat, sums + i);
    if (output.bias != nullptr) {
      value = hn::Add(value, LoadPartial(output.bias + column + i, count));
    }
    if (output.accumulate) value = hn::Add(value, LoadPartial(out + column + i, count));
    StorePartial(value, out + column + i, count);
  });
}

// The same for all rows of `output`, whose sums begin `sum_stride` numbers apart.
HWY_INLINE void FinishPanel(const PanelOutput& output, int64_t column, const float* sums,
                            int64_t sum_stride) {
  for (int64_t row = 0; row < output.out.rows; ++row) {
    const float* from = sums + row * sum_stride;
    if (output.out.dtype == DType::kF32) {
      FinishRow(output, column, from, static_cast<float*>(output.out.row(row)));
    } else {
      FinishRow(output, column, from, static_cast<uint16_t*>(output.out.row(row)));
    }
  }
}

// The same for several panels side by side, `width` outputs from `column` on, whose sums are
// [rows of `output`][width]. A row is written after the other: lines of memory that follow each
// other are written much faster than one here and one there.
template <typename Out>
HWY_INLINE void FinishPanelsAs(const PanelOutput& output, int64_t column, int64_t width,
                               const float* sums) {
  const int64_t end = std::min(column + width, output.out.cols);
  for (int64_t row = 0; row < output.out.rows; ++row) {
    Out* const to = static_cast<Out*>(output.out.row(row));
    for (int64_t at = column; at < end; at += kPanelWidth) {
      FinishRow(output, at, sums + row * width + at - column, to);
    }
  }
}

HWY_INLINE void FinishPanels(const PanelOutput& output, int64_t column, int64_t width,
                             const float* sums) {
  if (output.out.dtype == DType::kF32) {
    FinishPanelsAs<float>(output, column, width, sums);
  } else {
    FinishPanelsAs<uint16_t>(output, column, width, sums);
  }
}

}  // namespace baton::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // BATON_CPU_TARGET

#endif  // toggle
