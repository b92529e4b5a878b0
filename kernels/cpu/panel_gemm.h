#pragma once

#include <memory>
#include <string>

#include "kernels/cpu/gemm.h"
#include "kernels/cpu/isa.h"

namespace baton::kernels::cpu {

constexpr int64_t kPanelWidth = 16;
constexpr int64_t kPanelPairWidth = 2 * kPanelWidth;
constexpr int64_t kPanelRows = 96;  // how many input rows share one reading of the weights

// Where the rows of a product go, and what is added to them.
struct PanelOutput {
  Matrix out;
  const float* bias = nullptr;  // [out] or null
  bool accumulate = false;
};

PanelOutput OutputOf(Matrix out, const MatMulEpilogue& epilogue);

// The product of a pair of panels with the rows that share a reading of the weights.
struct PanelTask {
  const float* rows = nullptr;  // as pack_rows leaves them
  int64_t count = 0;
  int64_t in = 0;
  const void* pair = nullptr;  // [in][32], see PanelGemm
  DType dtype = DType::kF32;   // of the weights
  PanelOutput output;          // of `count` rows
  int64_t first_column = 0;    // of the pair in the output
};

// The product for one instruction set.
struct PanelKernel {
  void (*run)(const PanelTask& task) = nullptr;
  // Columns [begin, end) of all rows of `in` in fp32, to their places in `out`, which holds tiles
  // of rows that are multiplied together: [in][rows of the tile] each, one after the other.
  void (*pack_rows)(Matrix in, int64_t begin, int64_t end, float* out) = nullptr;
};

const PanelKernel& PanelKernelOf(Isa isa);

// The matrix product by AVX2 or AVX-512, with the same bits. It computes in fp32 for every number
// of rows; bf16 is only a type of storage. Each element of the output has one accumulator, to which
// the products along the row are added in ascending order, so a row has the same bits in any batch.
// (Products of libraries do not.) Weights lie in pairs of panels of 16 outputs. Of fp32 a pair is
// [in][2][16]. Of bf16 it is [in][16][2], so that one instruction widens a vector of the first
// panel, a shift of the words that hold both, and one a vector of the second, a mask.
class PanelGemm final : public Gemm {
 public:
  PanelGemm(Isa isa, DType compute_dtype, int threads);

  const std::string& implementation() const override { return implementation_; }
  absl::StatusOr<std::unique_ptr<PackedWeight>> Pack(const HostTensor& weight,
                                                     const Shard& part) override;
  absl::Status Prepare(std::span<const MatMulUse> uses) override;
  void Run(const PackedWeight& weight, Matrix in, Matrix out,
           const MatMulEpilogue& epilogue) override;
  void UnpackRow(const PackedWeight& weight, int64_t row, Matrix out, int64_t out_row) override;
  std::string layout() const override;
  PackedImage ImageOf(const PackedWeight& weight) const override;
  absl::StatusOr<std::unique_ptr<PackedWeight>> FromImage(const PackedImage& image, int64_t out,
                                                          int64_t in) const override;

 private:
  void RunRows(const PackedWeight& weight, Matrix in, Matrix out, const MatMulEpilogue& epilogue);
  void Reserve(int64_t in);

  const PanelKernel& kernel_;
  DType compute_dtype_;
  int threads_;
  std::string implementation_ = "panel:fma";
  std::unique_ptr<Buffer> rows_;  // fp32, kPanelRows input rows, packed
  int64_t rows_capacity_ = 0;
};

}  // namespace baton::kernels::cpu
