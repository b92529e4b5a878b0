#pragma once

#include <memory>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/panel_gemm.h"
#include "kernels/cpu/quantized_weight.h"

namespace baton::kernels::cpu {

// The product of one group of panels with the rows that share a reading of the weights.
struct QuantizedTask {
  const void* rows = nullptr;   // [count, layout->padded_in()], as QuantizedKernel::widen made them
  const float* sums = nullptr;  // [count, layout->groups] of the rows' groups; null unless needed
  int64_t count = 0;
  const QuantizedLayout* layout = nullptr;
  const std::byte* panels = nullptr;
  int64_t group = 1;         // panels, up to kQuantizedPanels
  PanelOutput output;        // of `count` rows
  int64_t first_column = 0;  // of the group in the output
};
constexpr int64_t kQuantizedPanels = 4;

// Input rows as the kernel takes them.
struct QuantizedRows {
  Matrix in;
  const int32_t* input_of = nullptr;  // [in.cols] or null
  const QuantizedLayout* layout = nullptr;
  void* rows = nullptr;   // [in.rows, layout->padded_in()] of QuantizedKernel::row_dtype
  float* sums = nullptr;  // [in.rows, layout->groups]; null unless QuantizedKernel::NeedsSums
};

// Both run on one thread.
struct QuantizedKernel {
  void (*multiply)(const QuantizedTask& task) = nullptr;
  // Fills rows [begin, end) of `rows`; beyond the input they are 0.
  void (*widen)(const QuantizedRows& rows, int64_t begin, int64_t end) = nullptr;
  DType row_dtype = DType::kF32;  // of rows as `widen` makes them, and of the products

  bool NeedsSums(const QuantizedLayout& layout) const {
    return row_dtype == DType::kBF16 ? layout.pairs_need_sums() : layout.needs_sums();
  }
};
// The kernel of pairs in bfloat16 for inputs of that type where the machine has avx512_bf16 and
// `isa` is kAvx512, else one in fp32.
QuantizedKernel ChooseQuantizedKernel(Isa isa, DType compute_dtype);
QuantizedKernel QuantizedPairsKernel();

// The matrix product by weights of small integers, for every instruction set. Neither inputs nor
// integers are rounded: integers become fp32 in registers, or bfloat16, in which they are as exact,
// where inputs are bfloat16 and the machine multiplies those. Within a group of columns each
// element of the output has one accumulator in fp32, to which products of input and integer are
// added in an order of the columns; at the group's end what still has to come off every integer is
// taken off, times the sum of the inputs, and the rest times the scale is added to the element.
// That is the arithmetic for any number of rows, so a row has the same bits in any batch, on any
// number of threads. The files of the two kernels say what comes off an integer when, and which
// rows share what is unpacked.
class QuantizedGemm final {
 public:
  QuantizedGemm(Isa isa, DType compute_dtype, int threads)
      : kernel_(ChooseQuantizedKernel(isa, compute_dtype)), threads_(threads) {}

  // `part` has no -1 ends: see ResolveShard.
  absl::StatusOr<std::unique_ptr<PackedWeight>> Pack(const QuantizedTensor& weight,
                                                     const Shard& part) const {
    return QuantizedWeight::Pack(weight, part, threads_);
  }
  // Makes room for the products of the quantized ones among `uses`.
  absl::Status Prepare(std::span<const MatMulUse> uses);
  void Run(const PackedWeight& weight, Matrix in, Matrix out, const MatMulEpilogue& epilogue);

 private:
  absl::Status Reserve(const QuantizedWeight& weight);
  void RunRows(const QuantizedWeight& weight, Matrix in, Matrix out,
               const MatMulEpilogue& epilogue);

  const QuantizedKernel kernel_;
  const int threads_;
  std::unique_ptr<Buffer> rows_;  // [kPanelRows, padded_in] of the kernel's type
  std::unique_ptr<Buffer> sums_;  // fp32 [kPanelRows, groups]
};

}  // namespace baton::kernels::cpu
