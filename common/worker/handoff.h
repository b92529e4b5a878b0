#pragma once

#include "common/config/options.h"
#include "common/transport/transport_factory.h"
#include "common/worker/worker_core.h"

namespace baton {

// How a worker's KV may travel, as far as its flags say.
TransportOptions TransportOptionsOf(const WorkerFlags& flags);
// How this worker's KV may travel, as its flags and its model say. `core` outlives what is made of
// the options.
TransportOptions TransportOptionsOf(const WorkerFlags& flags, const WorkerCore& core);

}  // namespace baton
