#pragma once

#include <memory>

#include "common/worker/worker_core.h"

namespace grpc {
class Service;
}  // namespace grpc

namespace baton {

// Makes StatusService, which tells routers what this worker is and how busy it is. `core` outlives
// the service.
std::unique_ptr<grpc::Service> MakeStatusService(WorkerCore* core);

}  // namespace baton
