#pragma once

#include <memory>

#include "common/transport/kv_transport.h"
#include "common/transport/pair/pair_transport.h"
#include "common/worker/worker_core.h"

namespace grpc {
class Service;
}  // namespace grpc

namespace baton {

// Makes PrefillService, which only routers may call. Without a `warmer` WarmPair has no effect. All
// arguments outlive the service.
std::unique_ptr<grpc::Service> MakePrefillService(WorkerCore* core, KvTransport* transport,
                                                  PairWarmer* warmer = nullptr);

}  // namespace baton
