#pragma once

#include "common/config/options.h"
#include "common/transport/transport_factory.h"
#include "common/worker/worker_core.h"

namespace baton {

// How this worker's KV may travel, from its flags and what it is. `core` outlives what is made of
// them.
TransportOptions TransportOptionsOf(const WorkerFlags& flags, const WorkerCore& core);

}  // namespace baton
