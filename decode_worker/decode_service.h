#pragma once

#include <memory>

#include "common/worker/worker_core.h"
#include "decode_worker/kv_receiver.h"

namespace grpc {
class Service;
}  // namespace grpc

namespace baton {

// Makes DecodeService, which only routers may call. `core` and `receiver` outlive the service.
std::unique_ptr<grpc::Service> MakeDecodeService(WorkerCore* core, KvReceiver* receiver);

}  // namespace baton
