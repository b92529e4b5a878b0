#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "kernels/backend.h"
#include "kernels/collective.h"
#include "kernels/machine_limits.h"

namespace baton::kernels {

// What projections of layers are stored and multiplied in, besides the compute dtype.
enum class Quantization : uint8_t {
  kNone,
  kFp8,  // e4m3, one scale per row; activations are quantized row by row. CUDA on Hopper only
};

struct BackendOptions {
  std::string device = "cpu";  // cpu | reference (the scalar oracle) | cuda, where built
  std::string isa = "auto";    // of the CPU: auto | avx512 | avx2
  DType compute_dtype = DType::kF32;
  Quantization quantization = Quantization::kNone;
  // Of all ranks together, at least one each; 0 = all cores this process may use. BackendInfo says
  // how many came.
  int threads = 0;
  Collective* collective = nullptr;  // this rank's end of its group; outlives the backend
  int device_index = 0;              // which GPU, of those that CUDA_VISIBLE_DEVICES shows
};

// Whether buffers of such a device are apart from the host's memory.
bool HasOwnMemory(const std::string& device);

absl::StatusOr<std::unique_ptr<Backend>> MakeBackend(const BackendOptions& options);

struct GroupOptions {
  std::string device = "cpu";
  int ranks = 2;
  std::string nccl_library;  // a file; "" = libnccl.so.2 by the loader's own search
  // What a rank of the host waits for another one inside a step: as long as the engine's watchdog.
  base::Duration patience = std::chrono::seconds(30);
};
// The ends of a new tensor-parallel group: [i] is rank i's, on GPU i where it is of GPUs.
// FAILED_PRECONDITION says which GPU or library is missing.
absl::StatusOr<std::vector<std::unique_ptr<Collective>>> MakeGroup(const GroupOptions& options);

// What the backend's device can do at best, measured now; not during a step. See MachineLimits.
// `threads` of the host's, where it computes.
absl::StatusOr<MachineLimits> MeasureLimits(Backend& backend, int threads);

}  // namespace baton::kernels
