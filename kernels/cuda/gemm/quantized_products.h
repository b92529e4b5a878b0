#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/device/runtime.h"
#include "kernels/cuda/gemm/device_weights.h"
#include "kernels/cuda/gemm/matmul.h"
#include "kernels/cuda/gemm/quantized.h"
#include "kernels/tensor_view.h"

namespace baton::kernels::cuda {

// Products with weights of small integers. Few rows are multiplied by the integers as they lie in
// memory, with sums in fp32. For more rows the weight is widened into a workspace, where its
// numbers are rounded to the compute dtype, and cuBLASLt multiplies by that.
class QuantizedProducts final {
 public:
  QuantizedProducts(DType dtype, StreamHandle stream) : dtype_(dtype), stream_(stream) {}

  // Whether a product of so many rows needs the workspace and an algorithm of cuBLASLt.
  static bool Widens(int64_t rows) { return rows > kFewRows; }

  // Makes room to widen a weight of this size. Returns true if the workspace moved, so that
  // addresses which a graph has captured are void.
  absl::StatusOr<bool> Reserve(int64_t out, int64_t in);
  void* workspace() const { return workspace_ != nullptr ? workspace_->data() : nullptr; }
  size_t workspace_bytes() const { return workspace_ != nullptr ? workspace_->size() : 0; }

  // out [rows, out] = in · weightᵀ + bias, or += with `accumulate`. `out` is fp32 or the compute
  // dtype. There is room for the weight if these rows need it.
  absl::Status Run(MatMul& matmul, const IntegerWeight& weight, Matrix in, Matrix out,
                   const DeviceVector* bias, bool accumulate);

 private:
  const DType dtype_;
  const StreamHandle stream_;
  std::unique_ptr<DeviceMemory> workspace_;  // compute dtype [out, in] of the largest weight
};

}  // namespace baton::kernels::cuda
