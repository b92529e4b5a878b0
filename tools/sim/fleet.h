#pragma once

#include <memory>
#include <string>
#include <vector>

#include "router/workers/worker_view.h"
#include "tools/sim/virtual_router.h"
#include "tools/sim/virtual_worker.h"

namespace baton::simulator {

// A worker as routers know it.
struct FleetWorker {
  WorkerKind kind = WorkerKind::kDecode;
  std::string address;
  std::shared_ptr<VirtualWorker> engine;  // in both lists where the worker is elastic
};

// All processes of a cluster. Their numbers are their positions.
struct Fleet {
  std::vector<std::unique_ptr<VirtualRouter>> routers;
  std::vector<FleetWorker> decode, prefill;
};

// Of all workers.
inline constexpr char kFleetModel[] = "model";

}  // namespace baton::simulator
