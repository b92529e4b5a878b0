#pragma once

#include <memory>
#include <string>

#include "baton/worker/v1/decode.grpc.pb.h"
#include "baton/worker/v1/prefill.grpc.pb.h"
#include "baton/worker/v1/status.grpc.pb.h"
#include "router/workers/worker_view.h"

namespace baton {

// The one channel to an address.
struct WorkerLink {
  std::string address;
  WorkerKind kind = WorkerKind::kDecode;
  std::unique_ptr<worker::v1::DecodeService::Stub> decode;
  std::unique_ptr<worker::v1::PrefillService::Stub> prefill;
  std::unique_ptr<worker::v1::StatusService::Stub> status;
};

}  // namespace baton
