#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/config/options.h"
#include "common/rpc/tls.h"
#include "common/worker/worker_core.h"

namespace grpc {
class Service;
}  // namespace grpc

namespace baton {

// The gRPC services of a role and what they own. Destroyed after the server that runs them.
class RoleServices {
 public:
  virtual ~RoleServices() = default;
  virtual std::vector<grpc::Service*> services() = 0;
};

// What makes a worker a prefill or a decode worker.
struct WorkerRoleSpec {
  WorkerRole role = WorkerRole::kDecode;
  std::string program;                     // "baton-decode"
  std::vector<std::string> service_names;  // for grpc.health.v1
  // Makes the services; an error when the KV transport that was asked for cannot be had.
  std::function<absl::StatusOr<std::unique_ptr<RoleServices>>(WorkerCore*, const WorkerFlags&,
                                                              const TlsOptions&)>
      make_services;
};

// The life of a worker process: log, failpoints, everything that can be checked without the model,
// model, engine, server, ready line; then until SIGTERM or SIGINT, drain, exit 0. Returns the exit
// code; a fatal line says why it is not 0.
//
// Call before any thread was started: signals are blocked for all threads.
int RunWorker(const WorkerRoleSpec& spec, const WorkerFlags& flags);

}  // namespace baton
