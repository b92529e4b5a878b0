// How the parts of a product by bands are passed. Highway includes this once for each instruction
// set that it compiles, so it has a toggle in place of an include guard.
#if defined(BATON_KERNELS_CPU_BAND_WALK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BATON_KERNELS_CPU_BAND_WALK_INL_H_
#undef BATON_KERNELS_CPU_BAND_WALK_INL_H_
#else
#define BATON_KERNELS_CPU_BAND_WALK_INL_H_
#endif

#include <algorithm>
#include <cstdint>

#include "kernels/cpu/band_gemm.h"
#include "kernels/cpu/panel_finish-inl.h"
#include "kernels/cpu/vec-inl.h"

#if BATON_CPU_TARGET
HWY_BEFORE_NAMESPACE();
namespace baton::kernels::cpu::HWY_NAMESPACE {

// A block of rows and a group of bands.
struct BandPart {
  int64_t first = 0;  // row
  int64_t count = 0;  // rows
  int64_t first_band = 0;
  int64_t bands = 0;
  bool fetches = false;  // the bands are not in a cache yet

  int64_t width() const { return bands * kBandWidth; }
};

// Computes the parts [begin, end) of `product`: multiply(part, sums) sets sums [count][width()] of
// a part, and they are written where they belong.
template <typename Multiply>
HWY_INLINE void ForEachBandPart(const BandProduct& product, int64_t begin, int64_t end,
                                Multiply multiply) {
  HWY_ALIGN float sums[kBandBlock * kBandGroup * kBandWidth];
  const BandRows& rows = product.rows;
  const int64_t blocks = rows.blocks();
  for (int64_t index = begin; index < end; ++index) {
    BandPart part = {.first = index % blocks * rows.block(),
                     .first_band = index / blocks * product.group};
    part.count = std::min(rows.block(), rows.count - part.first);
    part.bands = std::min(product.group, product.num_bands - part.first_band);
    part.fetches = index == begin || part.first == 0;
    multiply(part, sums);
    PanelOutput output = product.output;
    output.out =
        Matrix::Dense(output.out.row(part.first), output.out.dtype, part.count, output.out.cols);
    FinishPanels(output, part.first_band * kBandWidth, part.width(), sums);
  }
}

}  // namespace baton::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // BATON_CPU_TARGET

#endif  // toggle
