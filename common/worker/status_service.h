#pragma once

#include <memory>

#include "common/worker/worker_core.h"

namespace grpc {
class Service;
}  // namespace grpc

namespace baton {

// StatusService.Watch: identity first, then load whenever it changed. `core` outlives the service.
std::unique_ptr<grpc::Service> MakeStatusService(WorkerCore* core);

}  // namespace baton
