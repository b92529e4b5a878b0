#include "kernels/cuda/gemm/fp8_products.h"

#include <string>

#include "common/base/status.h"
#include "kernels/cuda/gemm/fp8.h"
#include "kernels/cuda/graph/row_buckets.h"
#include "spdlog/spdlog.h"

namespace baton::kernels::cuda {

absl::StatusOr<bool> Fp8Products::Grow(size_t bytes, std::unique_ptr<DeviceMemory>& memory) {
  if (memory != nullptr && memory->size() >= bytes) return false;
  BATON_RETURN_IF_ERROR(WaitFor(stream_));  // for what uses the old one
  memory.reset();
  BATON_ASSIGN_OR_RETURN(memory, DeviceMemory::Allocate(bytes, "--max-num-batched-tokens"));
  return true;
}

absl::StatusOr<bool> Fp8Products::Reserve(int64_t rows, int64_t in, int64_t out) {
  const auto count = static_cast<size_t>(rows);
  BATON_ASSIGN_OR_RETURN(const bool codes, Grow(count * static_cast<size_t>(in), codes_));
  BATON_ASSIGN_OR_RETURN(const bool scales, Grow(count * sizeof(float), scales_));
  BATON_ASSIGN_OR_RETURN(const bool product,
                         Grow(count * static_cast<size_t>(out) * SizeOf(dtype_), product_));
  return codes || scales || product;
}

absl::StatusOr<void*> Fp8Products::Multiply(MatMul& matmul, const MatMulKey& rung,
                                            const DeviceWeight& weight, int64_t rows, void* out) {
  MatMulOperands operands = {.weight = weight.data(),
                             .in = codes_->data(),
                             .out = out != nullptr ? out : product_->data(),
                             .weight_scales = weight.scales(),
                             .in_scales = static_cast<const float*>(scales_->data())};
  MatMulKey exact = rung;
  exact.rows = rows;
  const bool own = rung.rows == RowBucket(rows);
  if (own && !padded_.contains(exact)) {
    const absl::Status ran = matmul.Run(rung, rows, operands);
    if (ran.ok()) return operands.out;
    if (rows == rung.rows) return ran;
    LastLaunchStatus("a product").IgnoreError();
    spdlog::warn("fp8 products of {} rows of {} by a weight of {} x {} are padded to {}: {}", rows,
                 rung.in, rung.out, rung.in, rung.rows, std::string(ran.message()));
    padded_.insert(exact);
  }
  // The rows behind those that are wanted are whatever an earlier product left there.
  operands.out = product_->data();
  BATON_RETURN_IF_ERROR(matmul.Run(rung, rung.rows, operands));
  return operands.out;
}

absl::Status Fp8Products::Run(MatMul& matmul, const DeviceWeight& weight, int64_t rung, Matrix in,
                              Matrix out, const float* bias, bool accumulate) {
  auto* const scales = static_cast<float*>(scales_->data());
  const int error =
      weight.input_scale() > 0
          ? LaunchQuantizeRowsBy(weight.input_scale(), in, codes_->data(), scales, stream_)
          : LaunchQuantizeRows(in, codes_->data(), scales, stream_);
  BATON_RETURN_IF_ERROR(ToStatus(error, "quantizing activations"));
  const bool direct = out.dtype == dtype_ && bias == nullptr && !accumulate;
  BATON_ASSIGN_OR_RETURN(void* const product, Multiply(matmul, KeyOf(weight, rung, dtype_), weight,
                                                       in.rows, direct ? out.data : nullptr));
  if (product == out.data) return absl::OkStatus();
  return ToStatus(LaunchAddProduct(Matrix::Dense(product, dtype_, out.rows, out.cols), bias,
                                   accumulate, out, stream_),
                  "adding a product");
}

}  // namespace baton::kernels::cuda
