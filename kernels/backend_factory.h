#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
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

// As on the command line: "none", "fp8".
constexpr std::string_view Name(Quantization quantization) {
  return quantization == Quantization::kFp8 ? "fp8" : "none";
}

// The quantization of that Name; empty for any other text.
constexpr std::optional<Quantization> ParseQuantization(std::string_view name) {
  for (const Quantization quantization : {Quantization::kNone, Quantization::kFp8}) {
    if (name == Name(quantization)) return quantization;
  }
  return std::nullopt;
}

struct BackendOptions {
  Device device = Device::kCpu;
  std::string isa = "auto";  // of the CPU: auto | avx512 | avx2
  DType compute_dtype = DType::kF32;
  Quantization quantization = Quantization::kNone;
  // Of all ranks together, at least one each; 0 = all cores this process may use. BackendInfo says
  // how many came.
  int threads = 0;
  Collective* collective = nullptr;  // this rank's end of its group; outlives the backend
  int device_index = 0;              // which GPU, of those that CUDA_VISIBLE_DEVICES shows
};

absl::StatusOr<std::unique_ptr<Backend>> MakeBackend(const BackendOptions& options);

struct GroupOptions {
  Device device = Device::kCpu;
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
