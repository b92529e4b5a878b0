#include <algorithm>
#include <cstddef>
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

// Panels that lie side by side in a tile. Where a group has fewer, the last stands for those that
// are missing, and what they give is not used.
template <int kPanels, typename W>
struct TilePanels {
  const W* at[kPanels];

  TilePanels(const W* first, int64_t stride, int64_t count) {
    for (int p = 0; p < kPanels; ++p) at[p] = first + std::min<int64_t>(p, count - 1) * stride;
  }
};

// sums [kRows][kPanels * 16] += rows [kRows, depth] x panels [depth][16] each, one element of depth
// after the other; fetch(k) is called before each.
template <int kRows, int kPanels, typename W, typename Fetch>
HWY_INLINE void MultiplyTile(const float* rows, int64_t row_stride, TilePanels<kPanels, W> panels,
                             int64_t depth, float* sums, Fetch fetch) {
  constexpr int kVectors = kPanels * kHalves;
  FloatVec acc[kRows][kVectors];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      acc[r][v] = hn::LoadU(kFloat, sums + (r * kVectors + v) * kLanes);
    }
  }
  for (int64_t k = 0; k < depth; ++k) {
    fetch(k);
    FloatVec w[kVectors];
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      w[v] = LoadAsF32(panels.at[v / kHalves] + k * kPanelWidth + (v % kHalves) * kLanes);
    }
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const auto x = hn::Set(kFloat, rows[r * row_stride + k]);
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) acc[r][v] = hn::MulAdd(x, w[v], acc[r][v]);
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      hn::StoreU(acc[r][v], kFloat, sums + (r * kVectors + v) * kLanes);
    }
  }
}

// For a few rows: panels are read side by side, straight from their storage type, so that there are
// enough independent sums to hide the latency of the additions.
template <int kRows, typename W>
void FewRows(const PanelTask& task, const W* panels) {
  constexpr int kFit = kMostSums / (kRows * kHalves);
  constexpr int kPanels = kFit >= 4 ? 4 : kFit >= 2 ? 2 : 1;
  constexpr int kWidth = kPanels * static_cast<int>(kPanelWidth);
  HWY_ALIGN float sums[kRows * kWidth];
  const int64_t panel_stride = task.in * kPanelWidth;
  for (int64_t panel = 0; panel < task.group; panel += kPanels) {
    const int64_t count = std::min<int64_t>(kPanels, task.group - panel);
    std::fill_n(sums, kRows * kWidth, 0.0f);
    MultiplyTile<kRows>(task.rows, task.row_stride,
                        TilePanels<kPanels, W>(panels + panel * panel_stride, panel_stride, count),
                        task.in, sums, [](int64_t) {});
    for (int64_t p = 0; p < count; ++p) {
      FinishPanel(task.output, task.first_column + (panel + p) * kPanelWidth,
                  sums + p * kPanelWidth, kWidth);
    }
  }
}

// The panels of a slice, in fp32, and where those that are converted next begin, as they are
// stored. The first tile that multiplies a slice fetches these.
struct Slice {
  HWY_ALIGN float panels[kTilePanels * kDepth * kPanelWidth];
  int64_t depth = 0;
  TilePanels<kTilePanels, std::byte> next{nullptr, 0, 1};
  int64_t next_stride = 0;  // bytes of an element of depth
};

template <int kRows>
void SliceTile(const float* rows, int64_t row_stride, const Slice& slice, bool first, float* sums) {
  const TilePanels<kTilePanels, float> panels(slice.panels, kDepth * kPanelWidth, kTilePanels);
  MultiplyTile<kRows>(rows, row_stride, panels, slice.depth, sums, [&](int64_t k) {
    if (!first) return;
    for (int p = 0; p < kTilePanels; ++p) {
      __builtin_prefetch(slice.next.at[p] + k * slice.next_stride, 0, 2);
    }
  });
}

using SliceTileFn = void (*)(const float* rows, int64_t row_stride, const Slice& slice, bool first,
                             float* sums);

// Adds the products of columns from `k` on with a slice to the sums of all rows, in tiles of about
// equally many rows.
template <int... kRows>
void AddSlice(const PanelTask& task, int64_t k, const Slice& slice, float* sums,
              std::integer_sequence<int, kRows...>) {
  static constexpr SliceTileFn kTiles[] = {&SliceTile<kRows + 1>...};
  const int64_t tiles = (task.count + kTileRows - 1) / kTileRows;
  for (int64_t tile = 0; tile < tiles; ++tile) {
    const int64_t row = task.count * tile / tiles;
    const int64_t rows = task.count * (tile + 1) / tiles - row;
    kTiles[rows - 1](task.rows + row * task.row_stride + k, task.row_stride, slice, tile == 0,
                     sums + row * kTilePanels * kPanelWidth);
  }
}

// For many rows: a slice of a tile's panels is converted to fp32 once, and all rows use it.
template <typename W>
void ManyRows(const PanelTask& task, const W* panels) {
  constexpr int64_t kWidth = kTilePanels * kPanelWidth;
  HWY_ALIGN float sums[kPanelRows * kWidth];
  Slice slice;
  slice.next_stride = kPanelWidth * static_cast<int64_t>(sizeof(W));
  const int64_t panel_stride = task.in * kPanelWidth;
  for (int64_t panel = 0; panel < task.group; panel += kTilePanels) {
    const int64_t count = std::min<int64_t>(kTilePanels, task.group - panel);
    std::fill_n(sums, task.count * kWidth, 0.0f);
    for (int64_t k = 0; k < task.in; k += slice.depth) {
      slice.depth = std::min(kDepth, task.in - k);
      const W* const from = panels + panel * panel_stride + k * kPanelWidth;
      const TilePanels<kTilePanels, W> stored(from, panel_stride, count);
      for (int p = 0; p < kTilePanels; ++p) {
        float* const to = slice.panels + p * kDepth * kPanelWidth;
        for (int64_t i = 0; i < slice.depth * kPanelWidth; i += kLanes) {
          hn::StoreU(LoadAsF32(stored.at[p] + i), kFloat, to + i);
        }
        slice.next.at[p] =
            reinterpret_cast<const std::byte*>(stored.at[p] + slice.depth * kPanelWidth);
      }
      AddSlice(task, k, slice, sums, std::make_integer_sequence<int, kTileRows>());
    }
    FinishPanels(task.output, task.first_column + panel * kPanelWidth, kWidth, sums);
  }
}

template <typename W, int... kRows>
void RunAs(const PanelTask& task, std::integer_sequence<int, kRows...>) {
  static constexpr void (*kFew[])(const PanelTask&, const W*) = {&FewRows<kRows + 1, W>...};
  const W* panels = static_cast<const W*>(task.panels);
  if (task.count <= kFewRows) return kFew[task.count - 1](task, panels);
  ManyRows(task, panels);
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
