#pragma once

#include "absl/status/statusor.h"
#include "kernels/cuda/device/runtime.h"
#include "kernels/machine_limits.h"

namespace baton::kernels::cuda {

// Measures the rate of a copy of 256 MiB on the device, counting bytes read and written, and that
// of a product of 8192 x 8192 x 8192 random numbers in `dtype` (with `fp8`, in e4m3 to `dtype`).
// Each is the median of a few runs, timed by the device's own events. No group takes part, so that
// a rank can measure while the others do something else.
absl::StatusOr<MachineLimits> MeasureDeviceLimits(DType dtype, bool fp8, StreamHandle stream);

}  // namespace baton::kernels::cuda
