#include <algorithm>
#include <utility>

#include "kernels/cpu/quantized_gemm.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/quantized_kernel.cc"
#include "hwy/foreach_target.h"
#include "kernels/cpu/panel_finish-inl.h"
#include "kernels/cpu/quantized_codes-inl.h"
#include "kernels/cpu/vec-inl.h"

#if BATON_CPU_TARGET
HWY_BEFORE_NAMESPACE();
namespace baton::kernels::cpu::HWY_NAMESPACE {

constexpr bool kManyRegisters = kParts == 1;  // AVX-512 has 32, AVX2 16
// Memory is asked for so far ahead.
constexpr int64_t kAhead = 4096;

// How a weight is multiplied: its codes, the instructions, and whether groups have several blocks.
template <typename CodesOf, typename DotsOf, bool kBlocks>
struct Kind {
  using Codes = CodesOf;
  using Dots = DotsOf;
  static constexpr bool kManyBlocks = kBlocks;
  // Rows of a tile and panels side by side, whose sums stay in registers.
  static constexpr int kPanels = kManyRegisters && Dots::kRegisters == 1 ? 2 : 1;
  static constexpr int kRows = (kManyRegisters ? 16 : 8) / (kPanels * kParts * Dots::kRegisters);
};

// A tile of rows by panels side by side, whose sums are all in registers.
template <typename Kind, int kRows, int kPanels>
class Tile {
 public:
  Tile(const QuantizedTask& task, int64_t row, int64_t panel)
      : layout_(*task.layout),
        rows_(task.rows.From(row, layout_)),
        width_(layout_.block()),
        stride_(layout_.padded_in()),
        blocks_(layout_.blocks()) {
    for (int64_t p = 0; p < kPanels; ++p) {
      records_[p] = task.panels + (panel + p) * layout_.panel_bytes();
    }
  }

  // sums [kRows][kPanels][16] = the products.
  HWY_INLINE void Multiply(float* sums) {
    FloatVec totals[kRows][kVectors];
    ForAll([&](int r, int v) HWY_ATTR { totals[r][v] = hn::Zero(kFloat); });
    const int64_t in_group = layout_.group / width_;
    int64_t block = 0;
    for (int64_t group = 0; group < layout_.groups; ++group) {
      FloatVec partial[kRows][kVectors];
      if constexpr (Kind::kManyBlocks) {
        ForAll([&](int r, int v) HWY_ATTR { partial[r][v] = hn::Zero(kFloat); });
        for (int64_t i = 0; i < in_group; ++i, ++block) {
          AddBlock(block, i, [&](int r, int v, FloatVec value, FloatVec scale) HWY_ATTR {
            partial[r][v] = hn::MulAdd(value, scale, partial[r][v]);
          });
        }
      } else {
        AddBlock(block++, 0, [&](int r, int v, FloatVec value, FloatVec scale) HWY_ATTR {
          partial[r][v] = hn::Mul(value, scale);
        });
      }
      AddGroup(group, partial, totals);
      for (const std::byte*& record : records_) record += layout_.record_bytes();
    }
    ForAll([&](int r, int v) HWY_ATTR {
      hn::StoreU(totals[r][v], kFloat, sums + r * kPanels * kPanelWidth + v * kLanes);
    });
  }

 private:
  using Codes = typename Kind::Codes;
  using Dots = typename Kind::Dots;
  static constexpr int kVectors = kPanels * kParts;

  template <typename F>
  static HWY_INLINE void ForAll(F f) {
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; ++v) f(r, v);
    }
  }
  HWY_INLINE const std::byte* Record(int vector) const { return records_[vector / kParts]; }
  HWY_INLINE IntVec Start(int64_t block, int row) const {
    return hn::Set(kInt, rows_.starts[row * blocks_ + block]);
  }

  // Calls use(row, vector, sum, scale of the inputs) for the sums of one block, the one of its
  // number in the group and in the row.
  template <typename F>
  HWY_INLINE void AddBlock(int64_t block, int64_t in_group, F use) {
    typename Dots::Sums sums[kRows][kVectors];
    ForAll([&](int r, int v) HWY_ATTR { sums[r][v] = Dots::Begin(Start(block, r)); });
    const int8_t* x = rows_.codes + block * width_;
    const int64_t steps = width_ / Codes::kStep;
    for (int64_t step = in_group * steps; step < (in_group + 1) * steps; ++step) {
      ByteVec loaded[kVectors];
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; ++v) {
        loaded[v] = LoadStep(Record(v), step, v % kParts);
        if (v % kParts == 0) __builtin_prefetch(Record(v) + step * kStepBytes + kAhead, 0, 3);
      }
      ForEachQuad<0, Codes::kStep / 4>([&]<int kQuad>() HWY_ATTR {
        typename Dots::Weights w[kVectors];
#pragma GCC unroll 16
        for (int v = 0; v < kVectors; ++v) {
          w[v] = Dots::Of(Codes::template Get<kQuad>(loaded[v]));
        }
#pragma GCC unroll 16
        for (int r = 0; r < kRows; ++r) {
          const InputVec inputs = LoadInputs(x + r * stride_ + 4 * kQuad);
#pragma GCC unroll 16
          for (int v = 0; v < kVectors; ++v) Dots::Add(w[v], inputs, sums[r][v]);
        }
      });
      x += Codes::kStep;
    }
    ForAll([&](int r, int v) HWY_ATTR {
      use(r, v, hn::ConvertTo(kFloat, Dots::Value(sums[r][v], Start(block, r))),
          hn::Set(kFloat, rows_.scales[r * blocks_ + block]));
    });
  }

  // totals += scale * partial - minimum * sum of the inputs.
  HWY_INLINE void AddGroup(int64_t group, const FloatVec (&partial)[kRows][kVectors],
                           FloatVec (&totals)[kRows][kVectors]) const {
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) {
      const auto scale = LoadScales(layout_, Record(v), v % kParts);
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) totals[r][v] = hn::MulAdd(partial[r][v], scale, totals[r][v]);
      if (rows_.sums == nullptr) continue;
      const auto minimum = LoadMinimums(layout_, Record(v), v % kParts, scale);
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
        const auto sum = hn::Set(kFloat, rows_.sums[r * layout_.groups + group]);
        totals[r][v] = hn::NegMulAdd(minimum, sum, totals[r][v]);
      }
    }
  }

  const QuantizedLayout layout_;
  const RoundedRows rows_;
  const std::byte* records_[kPanels];  // of the group that is next
  const int64_t width_;                // columns of a block
  const int64_t stride_;               // from row to row
  const int64_t blocks_;               // of a row
};

// Rows [row, row + kRows) by `kPanels` panels from `panel` on.
template <typename Kind, int kRows, int kPanels>
void MultiplyTile(const QuantizedTask& task, int64_t row, int64_t panel) {
  HWY_ALIGN float sums[kRows * kPanels * kPanelWidth];
  Tile<Kind, kRows, kPanels>(task, row, panel).Multiply(sums);
  PanelOutput output = task.output;
  output.out = Matrix::Dense(output.out.row(row), output.out.dtype, kRows, output.out.cols);
  for (int64_t p = 0; p < kPanels; ++p) {
    FinishPanel(output, task.first_column + (panel + p) * kPanelWidth, sums + p * kPanelWidth,
                kPanels * kPanelWidth);
  }
}

// Up to three rows wait for memory, which is read fastest from front to back: they take one panel
// at a time. More rows take panels side by side, which share the inputs.
template <typename Kind, int kRows>
void MultiplyRows(const QuantizedTask& task, int64_t row, int64_t panel) {
  const int64_t end = std::min<int64_t>(panel + Kind::kPanels, task.group);
  if constexpr (kRows > 3 && Kind::kPanels > 1) {
    if (panel + Kind::kPanels == end) {
      return MultiplyTile<Kind, kRows, Kind::kPanels>(task, row, panel);
    }
  }
  for (; panel < end; ++panel) MultiplyTile<Kind, kRows, 1>(task, row, panel);
}

// Rows in equal tiles of as many as leave room in registers. All pass the panels while these are in
// a cache; every tile unpacks in registers for itself.
template <typename Kind, int... kRows>
void MultiplyAs(const QuantizedTask& task, std::integer_sequence<int, kRows...> /*rows*/) {
  static constexpr void (*kMultiply[])(const QuantizedTask& task, int64_t row,
                                       int64_t panel) = {&MultiplyRows<Kind, kRows + 1>...};
  const int64_t tiles = (task.count + Kind::kRows - 1) / Kind::kRows;
  for (int64_t panel = 0; panel < task.group; panel += Kind::kPanels) {
    for (int64_t tile = 0; tile < tiles; ++tile) {
      const int64_t first = task.count * tile / tiles;
      const int64_t rows = task.count * (tile + 1) / tiles - first;
      kMultiply[rows - 1](task, first, panel);
    }
  }
}

template <typename Kind>
void MultiplyKind(const QuantizedTask& task) {
  MultiplyAs<Kind>(task, std::make_integer_sequence<int, Kind::kRows>());
}

template <template <typename> class Dots>
void MultiplyQuantized(const QuantizedTask& task) {
  const bool blocks = task.layout->group > task.layout->block();
  if (task.layout->bits == 4) {
    blocks ? MultiplyKind<Kind<Codes4, Dots<Codes4>, true>>(task)
           : MultiplyKind<Kind<Codes4, Dots<Codes4>, false>>(task);
  } else {
    blocks ? MultiplyKind<Kind<Codes8, Dots<Codes8>, true>>(task)
           : MultiplyKind<Kind<Codes8, Dots<Codes8>, false>>(task);
  }
}

void MultiplyPlain(const QuantizedTask& task) { MultiplyQuantized<PlainDots>(task); }
#if HWY_TARGET == HWY_AVX3
void MultiplyVnni(const QuantizedTask& task) { MultiplyQuantized<VnniDots>(task); }
#endif

}  // namespace baton::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // BATON_CPU_TARGET

#if HWY_ONCE
namespace baton::kernels::cpu {

QuantizedKernel QuantizedKernelOf(Isa isa, bool vnni) {
  if (isa != Isa::kAvx512) return {&N_AVX2::MultiplyPlain, ChooseRoundInputs(isa)};
  return {vnni ? &N_AVX3::MultiplyVnni : &N_AVX3::MultiplyPlain, ChooseRoundInputs(isa)};
}

}  // namespace baton::kernels::cpu
#endif
