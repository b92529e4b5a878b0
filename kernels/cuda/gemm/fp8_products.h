#pragma once

#include <cstdint>
#include <memory>
#include <set>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/device/runtime.h"
#include "kernels/cuda/gemm/device_weights.h"
#include "kernels/cuda/gemm/fp8_ladder.h"
#include "kernels/cuda/gemm/matmul.h"
#include "kernels/tensor_view.h"

namespace baton::kernels::cuda {

// Products with weights of e4m3. The rows of the input are quantized on the way; sums are fp32 and
// rounded to the compute dtype; bias and what is accumulated are added after the product, in fp32.
class Fp8Products final {
 public:
  // Inputs and products are of `dtype`, which has 16 bits.
  Fp8Products(DType dtype, StreamHandle stream) : dtype_(dtype), stream_(stream) {}

  static MatMulKey KeyOf(const DeviceWeight& weight, int64_t rows, DType dtype) {
    return {.rows = rows, .out = weight.out(), .in = weight.in(), .out_dtype = dtype, .fp8 = true};
  }

  Fp8Ladder& ladder() { return ladder_; }

  // Makes room for a product of this size, whose rows are a rung's. Returns true if memory moved,
  // so that addresses which a graph has captured are void.
  absl::StatusOr<bool> Reserve(int64_t rows, int64_t in, int64_t out);

  // out [rows, out] = in · weightᵀ + bias, or += with `accumulate`, by the algorithm of `rung`,
  // which serves these rows and was reserved. `out` is fp32 or the compute dtype, `bias` is fp32
  // [out] or null.
  absl::Status Run(MatMul& matmul, const DeviceWeight& weight, int64_t rung, Matrix in, Matrix out,
                   const float* bias, bool accumulate);

 private:
  // Multiplies the codes of `rows` rows and returns where the product is: in `out`, or, when this
  // is null or only all rows of the rung can be multiplied, in product_.
  absl::StatusOr<void*> Multiply(MatMul& matmul, const MatMulKey& rung, const DeviceWeight& weight,
                                 int64_t rows, void* out);
  absl::StatusOr<bool> Grow(size_t bytes, std::unique_ptr<DeviceMemory>& memory);

  const DType dtype_;
  const StreamHandle stream_;
  Fp8Ladder ladder_;
  std::set<MatMulKey> padded_;             // sizes that only their rung's algorithm can do
  std::unique_ptr<DeviceMemory> codes_;    // e4m3 [rows, in]
  std::unique_ptr<DeviceMemory> scales_;   // [rows]
  std::unique_ptr<DeviceMemory> product_;  // compute dtype [rows, out]
};

}  // namespace baton::kernels::cuda
