#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "common/worker/worker_process.h"

namespace baton {

// What makes a worker a prefill worker: RoleServices for WorkerRoleSpec::make_services.
absl::StatusOr<std::unique_ptr<RoleServices>> MakePrefillRole(WorkerCore* core,
                                                              const WorkerFlags& flags,
                                                              const TlsOptions& tls);

}  // namespace baton
