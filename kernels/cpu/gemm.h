#pragma once

#include <memory>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/backend.h"

namespace baton::kernels::cpu {

// The matrix product of one ISA path. Matrices are dense: row stride = columns.
class Gemm {
 public:
  virtual ~Gemm() = default;
  virtual const std::string& implementation() const = 0;
  // `part` is resolved: no -1 ends.
  virtual absl::StatusOr<std::unique_ptr<PackedWeight>> Pack(const HostTensor& weight,
                                                             const Shard& part) = 0;
  virtual absl::Status Prepare(std::span<const MatMulUse> uses) = 0;
  virtual void Run(const PackedWeight& weight, Matrix in, Matrix out,
                   const MatMulEpilogue& epilogue) = 0;
  // Row `row` of the weight, as it was packed, into fp32 row `out_row` of `out`.
  virtual void UnpackRow(const PackedWeight& weight, int64_t row, Matrix out, int64_t out_row) = 0;
};

}  // namespace baton::kernels::cpu
