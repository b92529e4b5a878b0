#include "kernels/cuda/gemm/quantized_products.h"

#include "common/base/status.h"
#include "kernels/cuda/graph/row_buckets.h"

namespace baton::kernels::cuda {

absl::StatusOr<bool> QuantizedProducts::Reserve(int64_t out, int64_t in) {
  const size_t bytes = static_cast<size_t>(out * in) * SizeOf(dtype_);
  if (workspace_bytes() >= bytes) return false;
  BATON_RETURN_IF_ERROR(WaitFor(stream_));  // for what uses the old one
  workspace_.reset();
  BATON_ASSIGN_OR_RETURN(
      workspace_, DeviceMemory::Allocate(
                      bytes, "the size of the model, or use more ranks or a GPU with more memory"));
  return true;
}

absl::Status QuantizedProducts::Run(MatMul& matmul, const IntegerWeight& weight, Matrix in,
                                    Matrix out, const DeviceVector* bias, bool accumulate) {
  if (!Widens(in.rows)) {
    return ToStatus(LaunchFewRows(weight.view(), in, Floats(bias), accumulate, out, stream_),
                    "a product by integers");
  }
  const Matrix wide = Matrix::Dense(workspace_->data(), dtype_, weight.out(), weight.in());
  BATON_RETURN_IF_ERROR(
      ToStatus(LaunchWiden(weight.view(), wide, stream_), "widening a weight of integers"));
  const MatMulKey key = {.rows = RowBucket(in.rows),
                         .out = weight.out(),
                         .in = weight.in(),
                         .out_dtype = out.dtype,
                         .bias = bias != nullptr,
                         .accumulate = accumulate};
  return matmul.Run(key, in.rows,
                    {.weight = wide.data,
                     .in = in.data,
                     .out = out.data,
                     .bias = bias != nullptr ? bias->in(out.dtype) : nullptr});
}

}  // namespace baton::kernels::cuda
