#include "kernels/cuda/gemm/fp8_products.h"

#include "common/base/status.h"
#include "kernels/cuda/gemm/fp8.h"
#include "kernels/cuda/graph/row_buckets.h"

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

absl::Status Fp8Products::Run(MatMul& matmul, const DeviceWeight& weight, Matrix in, Matrix out,
                              const float* bias, bool accumulate) {
  auto* const scales = static_cast<float*>(scales_->data());
  BATON_RETURN_IF_ERROR(
      ToStatus(LaunchQuantizeRows(in, codes_->data(), scales, stream_), "quantizing activations"));
  const bool direct = out.dtype == dtype_ && bias == nullptr && !accumulate;
  const Matrix product = direct ? out : Matrix::Dense(product_->data(), dtype_, out.rows, out.cols);
  BATON_RETURN_IF_ERROR(matmul.Run(KeyOf(weight, RowBucket(in.rows), dtype_), in.rows,
                                   {.weight = weight.data(),
                                    .in = codes_->data(),
                                    .out = product.data,
                                    .weight_scales = weight.scales(),
                                    .in_scales = scales}));
  if (direct) return absl::OkStatus();
  return ToStatus(LaunchAddProduct(product, bias, accumulate, out, stream_), "adding a product");
}

}  // namespace baton::kernels::cuda
