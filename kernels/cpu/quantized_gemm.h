#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/panel_gemm.h"
#include "kernels/cpu/quantized_weight.h"
#include "kernels/cpu/round_inputs.h"

namespace baton::kernels::cpu {

// The product of some panels with the rows that share a reading of the weights.
struct QuantizedTask {
  RoundedRows rows;  // with the layout
  const std::byte* panels = nullptr;
  int64_t count = 0;
  PanelOutput output;        // of all rows
  int64_t first_column = 0;  // of the panels in the output
};

// Its functions run on one thread.
struct QuantizedKernel {
  std::string_view name;
  void (*multiply)(const QuantizedTask& task) = nullptr;
  RoundInputs round = nullptr;
  int64_t (*tile_rows)(int bits) = nullptr;  // the most rows of a tile
};
// That of kAvx2 or kAvx512, the latter with VPDPBUSD or without. All give the same bits.
QuantizedKernel QuantizedKernelOf(Isa isa, bool vnni);

// The matrix product by weights of small integers, for every instruction set. Inputs are rounded to
// 8 bits, with a scale for every InputBlock of neighbouring columns: see InputScale. Within a block
// every element of the output has a sum of products of integers, which is exact. Sums of blocks
// times the scales of their inputs are added in fp32 to one of their group, in ascending order, and
// those of groups times the scales of the weight to the element. What comes off every number of a
// group, as zero points and minimums, is taken off the element times the sum of the rounded inputs.
// A multiplication and the addition of its result round once. So a row has the same bits in any
// batch, on any number of threads and any machine: those of reference::QuantizedProduct.
class QuantizedGemm final {
 public:
  QuantizedGemm(const QuantizedKernel& kernel, int threads) : kernel_(kernel), threads_(threads) {}

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
  std::unique_ptr<Buffer> blocks_;  // RoundedRows::blocks of kPanelRows rows
  std::unique_ptr<Buffer> sums_;    // RoundedRows::sums of them
};

}  // namespace baton::kernels::cpu
