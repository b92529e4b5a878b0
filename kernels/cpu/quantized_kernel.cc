#include <algorithm>
#include <utility>

#include "kernels/cpu/isa.h"
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
// One tile asks for memory so far ahead. Of several tiles, the first one asks for the next panel,
// which comes while all of them multiply. Up to three rows are multiplied faster than memory is
// read, and some processors fetch what is read from front to back best by themselves: those rows
// ask only where FetchesByHints says so.
constexpr int kFetchingRows = 4;
constexpr int64_t kAhead = 4096;
HWY_INLINE int64_t AheadOf(const RoundedRows& rows, int64_t tile) {
  if (rows.tiles == 1) return kAhead;
  return tile == 0 ? rows.layout->panel_bytes() : 0;
}

// How a weight is multiplied: its codes, the instructions, how wide a block is, and whether groups
// have several.
template <typename CodesOf, typename DotsOf, int kColumns, bool kBlocks>
struct Kind {
  using Codes = CodesOf;
  using Dots = DotsOf;
  static constexpr int kWidth = kColumns;
  static constexpr bool kManyBlocks = kBlocks;
};

// The most rows of a tile, whose sums and products all stay in registers.
template <typename Dots>
constexpr int kTileRows = kManyRegisters ? (Dots::kRegisters == 1 ? 12 : 8) : 4 / Dots::kRegisters;

// The product of a tile of rows with a panel.
template <typename Kind, int kRows>
class Tile {
 public:
  Tile(const QuantizedTask& task, int64_t tile, int64_t panel)
      : layout_(*task.rows.layout),
        blocks_(task.rows.Blocks(tile)),
        sums_(task.rows.Sums(tile)),
        units_(task.panels + panel * layout_.panel_bytes()),
        ahead_(AheadOf(task.rows, tile)),
        hints_(kRows >= kFetchingRows || FetchesByHints()) {}

  // to [kRows][16] = the products.
  HWY_INLINE void Multiply(float* to) {
    Floats totals;
    ForAll([&](int r, int v) HWY_ATTR { totals[r][v] = hn::Zero(kFloat); });
    for (int64_t first = 0; first < layout_.groups; first += layout_.run) {
      const int64_t count = std::min(layout_.run, layout_.groups - first);
      numbers_ = units_ + layout_.unit_bytes();
      codes_ = numbers_ + count * layout_.number_bytes();
      for (int64_t i = 0; i < count; ++i) AddGroup(totals);
      units_ = codes_;
    }
    ForAll([&](int r, int v)
               HWY_ATTR { hn::StoreU(totals[r][v], kFloat, to + r * kPanelWidth + v * kLanes); });
  }

 private:
  using Codes = typename Kind::Codes;
  using Dots = typename Kind::Dots;
  static constexpr int kSteps = Kind::kWidth / Codes::kStep;  // of a block
  using Floats = FloatVec[kRows][kParts];

  template <typename F>
  static HWY_INLINE void ForAll(F f) {
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
      for (int v = 0; v < kParts; ++v) f(r, v);
    }
  }

  // totals += what the group that comes next adds to them.
  HWY_INLINE void AddGroup(Floats& totals) {
    Floats products;
    if constexpr (Kind::kManyBlocks) {
      ForAll([&](int r, int v) HWY_ATTR { products[r][v] = hn::Zero(kFloat); });
      for (int64_t block = 0; block < layout_.group / Kind::kWidth; ++block) AddBlock(products);
    } else {
      AddBlock(products);
    }
    Scale(products, totals);
  }

  // products (+)= the sums of the block that comes next, times the scales of their inputs.
  HWY_INLINE void AddBlock(Floats& products) {
    typename Dots::Sums sums[kRows][kParts];
    ForAll([&](int r, int v) HWY_ATTR { sums[r][v] = Dots::Begin(Start(r)); });
    ForEach<0, kSteps>([&]<int kStep>() HWY_ATTR {
      ByteVec loaded[kParts];
#pragma GCC unroll 16
      for (int v = 0; v < kParts; ++v) loaded[v] = LoadStep(codes_, kStep, v);
      if (kRows >= kFetchingRows || hints_) {
        __builtin_prefetch(codes_ + kStep * kStepBytes + ahead_, 0, 3);
      }
      ForEach<0, Codes::kStep / 4>([&]<int kQuad>() HWY_ATTR {
        typename Dots::Weights w[kParts];
#pragma GCC unroll 16
        for (int v = 0; v < kParts; ++v) w[v] = Dots::Of(Codes::template Get<kQuad>(loaded[v]));
        ForAll([&](int r, int v) HWY_ATTR {
          const int8_t* x = blocks_[r].codes + kStep * Codes::kStep + 4 * kQuad;
          sums[r][v] = Dots::Add(w[v], x, sums[r][v]);
        });
      });
    });
    ForAll([&](int r, int v) HWY_ATTR {
      const auto value = hn::ConvertTo(kFloat, Dots::Value(sums[r][v], Start(r)));
      const auto scale = hn::Set(kFloat, blocks_[r].scale);
      products[r][v] =
          Kind::kManyBlocks ? hn::MulAdd(value, scale, products[r][v]) : hn::Mul(value, scale);
    });
    blocks_ += kRows;
    codes_ += kSteps * kStepBytes;
  }
  HWY_INLINE IntVec Start(int row) const { return hn::Set(kInt, blocks_[row].start); }

  // totals += scales * products - minimums * sums of the inputs, of the group of the products.
  HWY_INLINE void Scale(const Floats& products, Floats& totals) {
#pragma GCC unroll 16
    for (int v = 0; v < kParts; ++v) {
      const auto scale = LoadNumbers(layout_, numbers_, units_, v);
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
        totals[r][v] = hn::MulAdd(products[r][v], scale, totals[r][v]);
      }
      if (sums_ == nullptr) continue;
      const auto minimum = LoadMinimums(layout_, numbers_, units_, v, scale);
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
        totals[r][v] = hn::NegMulAdd(minimum, hn::Set(kFloat, sums_[r]), totals[r][v]);
      }
    }
    if (sums_ != nullptr) sums_ += kRows;
    numbers_ += layout_.number_bytes();
  }

  const QuantizedLayout layout_;
  // Of the block and group that come next, and of their run.
  const RoundedBlock* blocks_;
  const float* sums_;
  const std::byte* units_;
  const std::byte* numbers_ = nullptr;
  const std::byte* codes_ = nullptr;
  const int64_t ahead_;
  const bool hints_;
};

// Tile `tile`, which has kRows rows, by one panel.
template <typename Kind, int kRows>
void MultiplyTile(const QuantizedTask& task, int64_t tile, int64_t panel) {
  HWY_ALIGN float sums[kRows * kPanelWidth];
  Tile<Kind, kRows>(task, tile, panel).Multiply(sums);
  PanelOutput output = task.output;
  output.out = Matrix::Dense(output.out.row(task.rows.First(tile)), output.out.dtype, kRows,
                             output.out.cols);
  FinishPanel(output, task.first_column + panel * kPanelWidth, sums, kPanelWidth);
}

// Memory is read from front to back, which is fastest: all tiles pass one panel, each unpacking it
// in registers for itself, before the next.
template <typename Kind, int... kRows>
void MultiplyAs(const QuantizedTask& task, std::integer_sequence<int, kRows...> /*rows*/) {
  static constexpr void (*kMultiply[])(const QuantizedTask& task, int64_t tile,
                                       int64_t panel) = {&MultiplyTile<Kind, kRows + 1>...};
  for (int64_t panel = 0; panel < task.count; ++panel) {
    for (int64_t tile = 0; tile < task.rows.tiles; ++tile) {
      kMultiply[task.rows.Height(tile) - 1](task, tile, panel);
    }
  }
}

template <typename Codes, typename Dots>
void MultiplyCodes(const QuantizedTask& task) {
  constexpr std::make_integer_sequence<int, kTileRows<Dots>> kRows;
  const QuantizedLayout& layout = *task.rows.layout;
  if (layout.block() == 16) {
    MultiplyAs<Kind<Codes, Dots, 16, false>>(task, kRows);
  } else if (layout.group == 32) {
    MultiplyAs<Kind<Codes, Dots, 32, false>>(task, kRows);
  } else {
    MultiplyAs<Kind<Codes, Dots, 32, true>>(task, kRows);
  }
}

template <template <typename> class Dots>
void MultiplyQuantized(const QuantizedTask& task) {
  if (task.rows.layout->bits == 4) {
    MultiplyCodes<Codes4, Dots<Codes4>>(task);
  } else {
    MultiplyCodes<Codes8, Dots<Codes8>>(task);
  }
}

template <template <typename> class Dots>
int64_t TileRows(int bits) {
  return bits == 4 ? kTileRows<Dots<Codes4>> : kTileRows<Dots<Codes8>>;
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
  const RoundInputs round = ChooseRoundInputs(isa);
  if (isa != Isa::kAvx512) {
    return {"avx2", &N_AVX2::MultiplyPlain, round, &N_AVX2::TileRows<N_AVX2::PlainDots>};
  }
  if (vnni) return {"vnni", &N_AVX3::MultiplyVnni, round, &N_AVX3::TileRows<N_AVX3::VnniDots>};
  return {"avx512", &N_AVX3::MultiplyPlain, round, &N_AVX3::TileRows<N_AVX3::PlainDots>};
}

}  // namespace baton::kernels::cpu
#endif
