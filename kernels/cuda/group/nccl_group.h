#pragma once

#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/nccl/library.h"
#include "kernels/collective.h"

namespace baton::kernels::cuda {

// Makes a tensor-parallel group of GPUs of this process. Rank i computes on devices[i]; no device
// is named twice. Sums are NCCL's and may be captured in a graph, which must be destroyed before
// its rank, and soon after the group has ended: NCCL ends a communicator only then. Abort does not
// wait for that. The last rank to be destroyed waits for it, for a bounded time.
//
// NCCL has `patience` to connect the devices; after that the call fails with DEADLINE_EXCEEDED, and
// NCCL's threads are left behind until the process ends. A rank waits as long for the others in a
// sum on the host.
absl::StatusOr<std::vector<std::unique_ptr<Collective>>> MakeNcclGroup(
    std::shared_ptr<const NcclLibrary> library, std::span<const int> devices,
    base::Duration patience);

}  // namespace baton::kernels::cuda
