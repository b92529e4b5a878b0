#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/collective.h"

namespace baton::kernels::cuda {

// Makes a tensor-parallel group of the first `ranks` visible GPUs. `nccl_library` is a file, or
// empty for libnccl.so.2 where the dynamic linker finds it. FAILED_PRECONDITION where there are
// fewer GPUs, one of them cannot run this build, or the library cannot be loaded.
absl::StatusOr<std::vector<std::unique_ptr<Collective>>> MakeGpuGroup(
    int ranks, const std::string& nccl_library);

}  // namespace baton::kernels::cuda
