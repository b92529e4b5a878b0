#include "kernels/backend_factory.h"

#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "kernels/cpu/cpu_backend.h"
#if BATON_HAS_CUDA
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/group/gpu_group.h"
#endif
#include "kernels/reference/reference_backend.h"

namespace baton::kernels {

absl::StatusOr<std::unique_ptr<Backend>> MakeBackend(const BackendOptions& options) {
  if (options.device == Device::kCuda) {
#if BATON_HAS_CUDA
    return CudaBackend::Create(options);
#else
    return absl::OutOfRangeError(
        "--device cuda: this build has no CUDA; build with preset cuda, or use --device cpu");
#endif
  }
  const std::string device(Name(options.device));
  if (options.compute_dtype == DType::kF16) {
    return absl::OutOfRangeError(
        absl::StrCat("--dtype float16 with --device ", device,
                     ": float16 computes on cuda only; use --dtype bfloat16 or float32 (float16 "
                     "checkpoints are converted at load)"));
  }
  if (options.quantization != Quantization::kNone) {
    return absl::OutOfRangeError(
        absl::StrCat("--quantization fp8 with --device ", device,
                     ": fp8 products need a Hopper GPU; use --quantization none"));
  }
  if (options.device == Device::kCpu) return CpuBackend::Create(options);
  return std::make_unique<ReferenceBackend>(options.compute_dtype, options.collective,
                                            /*exact_inputs=*/options.isa == "exact",
                                            /*in_pairs=*/options.isa == "avx512_bf16");
}

void ConnectGroupsWhenMade() { setenv("NCCL_RUNTIME_CONNECT", "0", /*overwrite=*/0); }

absl::StatusOr<std::vector<std::unique_ptr<Collective>>> MakeGroup(const GroupOptions& options) {
#if BATON_HAS_CUDA
  if (options.device == Device::kCuda)
    return cuda::MakeGpuGroup(options.ranks, options.nccl_library);
#endif
  return MakeHostGroup(options.ranks, options.patience);
}

absl::StatusOr<MachineLimits> MeasureLimits(Backend& backend, int threads, bool integers) {
#if BATON_HAS_CUDA
  if (backend.info().device == Device::kCuda)
    return static_cast<CudaBackend&>(backend).MeasureLimits();
#endif
  BackendInfo info = backend.info();
  info.threads = threads;
  return MeasureMachineLimits(info, integers);
}

}  // namespace baton::kernels
