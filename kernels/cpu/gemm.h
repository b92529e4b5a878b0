#pragma once

#include <memory>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "kernels/packed_images.h"

namespace baton::kernels::cpu {

// The matrix product by weights of floats: by bands of bf16 with amx and avx512_bf16, by panels
// otherwise. Matrices are dense: rows follow each other without gaps.
class Gemm {
 public:
  virtual ~Gemm() = default;
  virtual const std::string& implementation() const = 0;
  // `part` has no -1 ends: see ResolveShard.
  virtual absl::StatusOr<std::unique_ptr<PackedWeight>> Pack(const HostTensor& weight,
                                                             const Shard& part) = 0;
  virtual absl::Status Prepare(std::span<const MatMulUse> uses) = 0;
  virtual void Run(const PackedWeight& weight, Matrix in, Matrix out,
                   const MatMulEpilogue& epilogue) = 0;
  // Writes row `row` of the weight, as it was packed, to row `out_row` of the fp32 matrix `out`.
  virtual void UnpackRow(const PackedWeight& weight, int64_t row, Matrix out, int64_t out_row) = 0;

  // As those of PackedImages, for weights that Pack made.
  virtual std::string layout() const = 0;
  virtual PackedImage ImageOf(const PackedWeight& weight) const = 0;
  virtual absl::StatusOr<std::unique_ptr<PackedWeight>> FromImage(const PackedImage& image,
                                                                  int64_t out,
                                                                  int64_t in) const = 0;
};

}  // namespace baton::kernels::cpu
