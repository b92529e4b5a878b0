#pragma once

#include <memory>
#include <string>

#include "kernels/cpu/gemm.h"
#include "kernels/cpu/isa.h"

namespace baton::kernels::cpu {

constexpr int64_t kPanelWidth = 16;
constexpr int64_t kPanelRows = 96;  // how many input rows share one reading of the weights

// Where the rows of a product go, and what is added to them.
struct PanelOutput {
  Matrix out;
  const float* bias = nullptr;  // [out] or null
  bool accumulate = false;
};

PanelOutput OutputOf(Matrix out, const MatMulEpilogue& epilogue);

// The product of one group of panels with the rows that share a reading of the weights.
struct PanelTask {
  const float* rows = nullptr;  // [count, in]
  int64_t row_stride = 0;       // elements
  int64_t count = 0;
  int64_t in = 0;
  const void* panels = nullptr;  // [group][in][16]
  DType dtype = DType::kF32;
  int64_t group = 1;         // panels, up to kPanelGroup
  PanelOutput output;        // of `count` rows
  int64_t first_column = 0;  // of the group in the output
};
constexpr int64_t kPanelGroup = 4;

// The product for one instruction set.
struct PanelKernel {
  void (*run)(const PanelTask& task) = nullptr;
  // out [rows, stride] fp32 = rows [begin, end) of `in`, each at its own index.
  void (*to_floats)(Matrix in, int64_t begin, int64_t end, int64_t stride, float* out) = nullptr;
};

const PanelKernel& PanelKernelOf(Isa isa);

// The matrix product by AVX2 or AVX-512, with the same bits. It computes in fp32 for every number
// of rows; bf16 is only a type of storage. Each element of the output has one accumulator, to which
// the products along the row are added in ascending order, so a row has the same bits in any batch.
// (Products of libraries do not.) Weights lie in panels of 16 outputs, [in][16] each.
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
  std::unique_ptr<Buffer> rows_;  // fp32 [kPanelRows, in + a line of memory]: input rows
  int64_t rows_capacity_ = 0;
};

}  // namespace baton::kernels::cpu
