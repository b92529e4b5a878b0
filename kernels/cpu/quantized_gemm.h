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
  const float* rows = nullptr;  // [count, layout->padded_in()], as QuantizedKernel::widen made them
  const float* sums =
      nullptr;  // [count, layout->groups] of the rows' groups; null unless needs_sums()
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
  float* rows = nullptr;  // [in.rows, layout->padded_in()]
  float* sums = nullptr;  // [in.rows, layout->groups]; null unless needs_sums()
};

// Both run on one thread.
struct QuantizedKernel {
  void (*multiply)(const QuantizedTask& task) = nullptr;
  // Fills rows [begin, end) of `rows`; beyond the input they are 0.
  void (*widen)(const QuantizedRows& rows, int64_t begin, int64_t end) = nullptr;
};
QuantizedKernel ChooseQuantizedKernel(Isa isa);

// The matrix product by weights of small integers, for every instruction set. Inputs are not
// rounded: integers become fp32 in registers. Within a group of columns each element of the output
// has one accumulator, to which products of input and integer are added in ascending order; at the
// group's end the integer that stands for 0 times the sum of the inputs is taken off, and the rest
// times the scale is added to the element. That is the arithmetic for any number of rows, so a row
// has the same bits in any batch, on any number of threads. Few rows multiply what they unpack at
// once; for many rows a group is unpacked into the first-level cache, and all rows use it.
class QuantizedGemm final {
 public:
  QuantizedGemm(Isa isa, int threads) : kernel_(ChooseQuantizedKernel(isa)), threads_(threads) {}

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
  std::unique_ptr<Buffer> rows_;  // fp32 [kPanelRows, padded_in]
  std::unique_ptr<Buffer> sums_;  // fp32 [kPanelRows, groups]
};

}  // namespace baton::kernels::cpu
