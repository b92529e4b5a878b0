#pragma once

#include <memory>

#include "common/transport/kv_transport.h"
#include "common/transport/pair/pair_transport.h"
#include "common/worker/worker_core.h"

namespace grpc {
class Service;
}  // namespace grpc

namespace baton {

// PrefillService for a server; only routers may call it. `warmer` may be null: then WarmPair has no
// effect. All outlive the service.
std::unique_ptr<grpc::Service> MakePrefillService(WorkerCore* core, KvTransport* transport,
                                                  PairWarmer* warmer = nullptr);

}  // namespace baton
