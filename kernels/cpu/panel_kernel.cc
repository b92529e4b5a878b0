#include <algorithm>
#include <utility>

#include "kernels/cpu/panel_gemm.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/panel_kernel.cc"
#include "hwy/foreach_target.h"
#include "kernels/cpu/panel_finish-inl.h"
#include "kernels/cpu/vec-inl.h"

#if BATON_CPU_TARGET
HWY_BEFORE_NAMESPACE();
namespace baton::kernels::cpu::HWY_NAMESPACE {

constexpr int kHalves = static_cast<int>(kPanelWidth / kLanes);  // vectors of a panel's width

// A tile is so many rows and panels that its sums, a panel's weights and an input fit the
// registers: 16 with AVX2, 32 with AVX-512.
#if HWY_TARGET == HWY_AVX2
constexpr int kMostSums = 12;
constexpr int kTileRows = 6;
constexpr int kTilePanels = 1;
constexpr int kFewRows = 6;
#else
constexpr int kMostSums = 28;
constexpr int kTileRows = 12;
constexpr int kTilePanels = 2;
constexpr int kFewRows = 14;
#endif

// Elements of depth of which the panels of a tile stay in the first-level cache, in fp32.
constexpr int64_t kDepth = 256 / kTilePanels;

// Where the rows and the panels of a tile begin, and how far apart they are, in elements.
template <typename W>
struct TileInput {
  const float* rows = nullptr;
  int64_t row_stride = 0;
  const W* panels = nullptr;
  int64_t panel_stride = 0;
  int64_t depth = 0;
};

// What is read next, as it is stored; a tile fetches it element of depth by element.
template <typename W>
struct TileAhead {
  const W* panels = nullptr;
  int64_t panel_stride = 0;
};

// sums [kRows][kPanels * 16] += rows [kRows, depth] x panels [depth][16] each, one element of depth
// after the other.
template <int kRows, int kPanels, typename W, typename Fetch>
HWY_INLINE void MultiplyTile(const TileInput<W>& in, float* sums, int64_t sum_stride, Fetch fetch) {
  constexpr int kVectors = kPanels * kHalves;
  FloatVec acc[kRows][kVectors];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      acc[r][v] = hn::LoadU(kFloat, sums + r * sum_stride + v * kLanes);
    }
  }
  for (int64_t k = 0; k < in.depth; ++k) {
    fetch(k);
    FloatVec w[kVectors];
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      w[v] = LoadAsF32(in.panels + (v / kHalves) * in.panel_stride + k * kPanelWidth +
                       (v % kHalves) * kLanes);
    }
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const auto x = hn::Set(kFloat, in.rows[r * in.row_stride + k]);
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) acc[r][v] = hn::MulAdd(x, w[v], acc[r][v]);
    }
  }
#pragma GCC unroll 16
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
void FewRowsOf(const PanelTask& task, const W* panels) {
  HWY_ALIGN float sums[kRows * kPanels * kPanelWidth];
  const int64_t panel_stride = task.in * kPanelWidth;
  int64_t panel = 0;
  for (; panel + kPanels <= task.group; panel += kPanels) {
    std::fill_n(sums, kRows * kPanels * kPanelWidth, 0.0f);
    MultiplyTile<kRows, kPanels, W>({.rows = task.rows,
                                     .row_stride = task.row_stride,
                                     .panels = panels + panel * panel_stride,
                                     .panel_stride = panel_stride,
                                     .depth = task.in},
                                    sums, kPanels * kPanelWidth, [](int64_t) {});
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
      FewRowsOf<kRows, 1>(rest, panels + panel * panel_stride);
    }
  }
}

template <int kRows, typename W>
void FewRows(const PanelTask& task, const W* panels) {
  constexpr int kFit = kMostSums / (kRows * kHalves);
  FewRowsOf<kRows, kFit >= 4 ? 4 : kFit >= 2 ? 2 : 1>(task, panels);
}

// Adds a slice of panels to the sums of all rows of a task, a tile of about equally many rows after
// the other. The first fetches what is `ahead`.
template <int kPanels, typename W>
class SliceOfPanels {
 public:
  SliceOfPanels(const PanelTask& task, float* sums) : task_(task), sums_(sums) {}

  void Add(int64_t k, const TileInput<float>& slice, const TileAhead<W>& ahead) {
    const int64_t tiles = (task_.count + kTileRows - 1) / kTileRows;
    for (int64_t tile = 0; tile < tiles; ++tile) {
      const int64_t row = task_.count * tile / tiles;
      const int64_t rows = task_.count * (tile + 1) / tiles - row;
      TileInput<float> in = slice;
      in.rows = task_.rows + row * task_.row_stride + k;
      AddTile<kTileRows>(rows, in, tile == 0 ? &ahead : nullptr,
                         sums_ + row * kPanels * kPanelWidth);
    }
  }

 private:
  template <int kRows>
  void AddTile(int64_t rows, const TileInput<float>& in, const TileAhead<W>* ahead, float* sums) {
    if constexpr (kRows > 1) {
      if (rows < kRows) return AddTile<kRows - 1>(rows, in, ahead, sums);
    }
    if (ahead == nullptr) {
      MultiplyTile<kRows, kPanels>(in, sums, kPanels * kPanelWidth, [](int64_t) {});
    } else {
      MultiplyTile<kRows, kPanels>(in, sums, kPanels * kPanelWidth, [&](int64_t k) {
        for (int p = 0; p < kPanels; ++p) {
          __builtin_prefetch(ahead->panels + p * ahead->panel_stride + k * kPanelWidth, 0, 2);
        }
      });
    }
  }

  const PanelTask& task_;
  float* sums_;  // [count][kPanels * 16]
};

// For many rows: a slice of kPanels panels is converted to fp32 once, and all rows use it.
template <int kPanels, typename W>
void ManyRows(const PanelTask& task, const W* panels, int64_t index) {
  HWY_ALIGN float slice[kPanels * kDepth * kPanelWidth];
  HWY_ALIGN float sums[kPanelRows * kPanels * kPanelWidth];
  std::fill_n(sums, task.count * kPanels * kPanelWidth, 0.0f);
  const int64_t panel_stride = task.in * kPanelWidth;
  SliceOfPanels<kPanels, W> all_rows(task, sums);
  for (int64_t k = 0; k < task.in; k += kDepth) {
    const int64_t depth = std::min(kDepth, task.in - k);
    for (int p = 0; p < kPanels; ++p) {
      const W* const from = panels + p * panel_stride + k * kPanelWidth;
      float* const to = slice + p * kDepth * kPanelWidth;
      for (int64_t i = 0; i < depth * kPanelWidth; i += kLanes) {
        hn::StoreU(LoadAsF32(from + i), kFloat, to + i);
      }
    }
    all_rows.Add(k,
                 {.row_stride = task.row_stride,
                  .panels = slice,
                  .panel_stride = kDepth * kPanelWidth,
                  .depth = depth},
                 {.panels = panels + (k + depth) * kPanelWidth, .panel_stride = panel_stride});
  }
  FinishPanels(task.output, task.first_column + index * kPanelWidth, kPanels * kPanelWidth, sums);
}

template <typename W, int... kRows>
void RunAs(const PanelTask& task, std::integer_sequence<int, kRows...>) {
  static constexpr void (*kFew[])(const PanelTask&, const W*) = {&FewRows<kRows + 1, W>...};
  const W* panels = static_cast<const W*>(task.panels);
  if (task.count <= kFewRows) return kFew[task.count - 1](task, panels);
  const int64_t panel_stride = task.in * kPanelWidth;
  int64_t p = 0;
  for (; p + kTilePanels <= task.group; p += kTilePanels) {
    ManyRows<kTilePanels>(task, panels + p * panel_stride, p);
  }
  for (; p < task.group; ++p) ManyRows<1>(task, panels + p * panel_stride, p);
}

void RunPanels(const PanelTask& task) {
  constexpr std::make_integer_sequence<int, kFewRows> kRows;
  if (task.dtype == DType::kF32) {
    RunAs<float>(task, kRows);
  } else {
    RunAs<uint16_t>(task, kRows);
  }
}

template <typename T>
void ToFloats(const T* from, int64_t cols, float* to) {
  ForEachVector(cols, [&](int64_t i, int64_t count) {
    StorePartial(LoadPartial(from + i, count), to + i, count);
  });
}

void InputRowsToFloats(Matrix in, int64_t begin, int64_t end, int64_t stride, float* out) {
  for (int64_t row = begin; row < end; ++row) {
    if (in.dtype == DType::kF32) {
      ToFloats(static_cast<const float*>(in.row(row)), in.cols, out + row * stride);
    } else {
      ToFloats(static_cast<const uint16_t*>(in.row(row)), in.cols, out + row * stride);
    }
  }
}

}  // namespace baton::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // BATON_CPU_TARGET

#if HWY_ONCE
namespace baton::kernels::cpu {

const PanelKernel& PanelKernelOf(Isa isa) {
  static constexpr PanelKernel kAvx2 = {.run = &N_AVX2::RunPanels,
                                        .to_floats = &N_AVX2::InputRowsToFloats};
  static constexpr PanelKernel kAvx512 = {.run = &N_AVX3::RunPanels,
                                          .to_floats = &N_AVX3::InputRowsToFloats};
  return isa == Isa::kAvx2 ? kAvx2 : kAvx512;
}

}  // namespace baton::kernels::cpu
#endif
