#include "kernels/cuda/group/gpu_group.h"

#include <chrono>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/nccl/library.h"
#include "kernels/cuda/device/runtime.h"
#include "kernels/cuda/group/nccl_group.h"
#include "spdlog/spdlog.h"

namespace baton::kernels::cuda {
namespace {

constexpr auto kConnectPatience = std::chrono::minutes(2);  // NCCL takes seconds for eight GPUs

}  // namespace

absl::StatusOr<std::vector<std::unique_ptr<Collective>>> MakeGpuGroup(
    int ranks, const std::string& nccl_library) {
  BATON_ASSIGN_OR_RETURN(const int count, DeviceCount());
  if (count < ranks) {
    return absl::FailedPreconditionError(
        absl::StrCat("--tensor-parallel-size ", ranks, " takes as many GPUs, and ", count,
                     " can be seen: ask for at most that, or show more with CUDA_VISIBLE_DEVICES"));
  }
  std::vector<int> devices(static_cast<size_t>(ranks));
  std::iota(devices.begin(), devices.end(), 0);
  for (const int device : devices) BATON_RETURN_IF_ERROR(OpenDevice(device).status());
  BATON_ASSIGN_OR_RETURN(auto library, NcclLibrary::Load(nccl_library, "--tensor-parallel-size 1"));
  spdlog::info("tensor parallel over {} GPUs by NCCL {} ({})", ranks,
               NcclLibrary::VersionName(library->version()), library->path());
  return MakeNcclGroup(std::move(library), devices, kConnectPatience);
}

}  // namespace baton::kernels::cuda
