#pragma once

#include <memory>

#include "common/nccl/library.h"
#include "common/transport/pair/communicator.h"

namespace baton {

// Two-rank NCCL communicators, non-blocking. Their calls go to the device that the calling thread
// has selected.
std::unique_ptr<Communicators> MakeNcclCommunicators(std::shared_ptr<const NcclLibrary> library);

}  // namespace baton
