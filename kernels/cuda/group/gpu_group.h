#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/collective.h"

namespace baton::kernels::cuda {

// A tensor-parallel group of the first `ranks` GPUs that are visible. FAILED_PRECONDITION where
// there are fewer, one cannot run this build, or `nccl_library` (a file; "" = libnccl.so.2 by the
// loader's own search) is none.
absl::StatusOr<std::vector<std::unique_ptr<Collective>>> MakeGpuGroup(
    int ranks, const std::string& nccl_library);

}  // namespace baton::kernels::cuda
