#pragma once

#include "absl/status/statusor.h"
#include "kernels/cuda/device/runtime.h"
#include "kernels/cuda/gemm/matmul.h"
#include "kernels/machine_limits.h"

namespace baton::kernels::cuda {

// The rate of a copy of 256 MiB on the device, bytes read and written, and of a product of
// 8192 x 8192 x 8192 random numbers in `dtype`, or in e4m3 to `dtype`: medians of a few, timed by
// events.
absl::StatusOr<MachineLimits> MeasureDeviceLimits(MatMul& matmul, DType dtype, bool fp8,
                                                  StreamHandle stream);

}  // namespace baton::kernels::cuda
