#pragma once

#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/nccl/library.h"
#include "kernels/collective.h"

namespace baton::kernels::cuda {

// A tensor-parallel group of GPUs of this process: rank i computes on devices[i], which are all
// different. Sums are NCCL's, and may be captured in a graph. NCCL has `patience` to connect them;
// DEADLINE_EXCEEDED after that, and its threads are left behind for the process to end with. As
// long a rank waits for the others in a sum on the host.
// Graphs that hold sums go before their rank.
absl::StatusOr<std::vector<std::unique_ptr<Collective>>> MakeNcclGroup(
    std::shared_ptr<const NcclLibrary> library, std::span<const int> devices,
    base::Duration patience);

}  // namespace baton::kernels::cuda
