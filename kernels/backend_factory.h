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

// What the projections of layers are stored and multiplied in, where not in the compute dtype.
enum class Quantization : uint8_t {
  kNone,
  kFp8,  // e4m3 with a scale per row, activations likewise; on GPUs of the Hopper generation only
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

// What MakeBackend makes.
struct BackendOptions {
  Device device = Device::kCpu;
  // Of the CPU: auto | amx | avx512_bf16 | avx512 | avx2. Of the reference "exact" has products by
  // small integers take their inputs as they are, and "avx512_bf16" rounds weights of attention.
  std::string isa = "auto";
  DType compute_dtype = DType::kF32;
  Quantization quantization = Quantization::kNone;
  // Threads of all ranks together, at least one each; 0 = one for each physical core that this
  // process may use. BackendInfo::threads says how many this rank got.
  int threads = 0;
  Collective* collective = nullptr;  // this rank's end of its group, if any; outlives the backend
  int device_index = 0;              // which GPU of those that CUDA_VISIBLE_DEVICES shows
};

// OUT_OF_RANGE for settings that this build, the device or the processor cannot serve,
// FAILED_PRECONDITION for a machine without the device; the message names the flag that helps.
absl::StatusOr<std::unique_ptr<Backend>> MakeBackend(const BackendOptions& options);

// What MakeGroup makes.
struct GroupOptions {
  Device device = Device::kCpu;
  int ranks = 2;
  std::string nccl_library;  // a file; "" = libnccl.so.2 where the dynamic linker finds it
  // How long a rank on the host waits for another one inside a step: as long as the engine's
  // watchdog waits for a step.
  base::Duration patience = std::chrono::seconds(30);
};
// Has NCCL connect the GPUs of a group when it is made. By itself it connects them in their first
// sums, whose calls then wait on the host for the other ranks, where no deadline and no Abort
// reaches them. A value of NCCL_RUNTIME_CONNECT that the user set stays. Writes to the environment,
// so call it before any thread was started.
void ConnectGroupsWhenMade();
// Makes a tensor-parallel group and returns its ends: entry i is rank i's, which computes on GPU i
// in a group of GPUs. FAILED_PRECONDITION says which GPU or library is missing.
absl::StatusOr<std::vector<std::unique_ptr<Collective>>> MakeGroup(const GroupOptions& options);

// Measures what the backend's device can do at best; not to be called during a step. A backend of
// the host is measured with `threads` threads, and as one that multiplies by weights of integers
// with `integers`.
absl::StatusOr<MachineLimits> MeasureLimits(Backend& backend, int threads, bool integers);

}  // namespace baton::kernels
