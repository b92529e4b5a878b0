#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "kernels/collective.h"
#include "kernels/machine_limits.h"

namespace baton::kernels {

struct BackendOptions {
  std::string device = "cpu";  // cpu | reference (the scalar oracle) | cuda, where built
  std::string isa = "auto";    // of the CPU: auto | avx512 | avx2
  DType compute_dtype = DType::kF32;
  // Of all ranks together, at least one each; 0 = all cores this process may use. BackendInfo says
  // how many came.
  int threads = 0;
  Collective* collective = nullptr;  // this rank's end of its group; outlives the backend
  int device_index = 0;              // which GPU, of those that CUDA_VISIBLE_DEVICES shows
};

// Whether buffers of such a device are apart from the host's memory.
bool HasOwnMemory(const std::string& device);

absl::StatusOr<std::unique_ptr<Backend>> MakeBackend(const BackendOptions& options);

// What the backend's device can do at best, measured now; not during a step. See MachineLimits.
// `threads` of the host's, where it computes.
absl::StatusOr<MachineLimits> MeasureLimits(Backend& backend, int threads);

}  // namespace baton::kernels
