#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "common/config/exit_code.h"
#include "common/config/options.h"
#include "common/rpc/held_port.h"
#include "common/rpc/tls.h"
#include "common/worker/worker_core.h"

namespace baton {

// What can be found out about a worker's settings without its model, and so before a load that may
// take minutes: that it can listen, that its certificates can serve, that a probe file is one, and
// that KV can travel as it is asked to. On success `*port` holds the gRPC port; otherwise the
// result says why not.
std::optional<Fatal> CheckBeforeLoad(const WorkerFlags& flags, WorkerRole role,
                                     std::optional<HeldPort>* port);

// What BATON_FAILPOINT asks for, where --enable-failpoints allows it.
std::optional<Fatal> ArmFailpointsFromEnvironment(const WorkerFlags& flags);

TlsOptions TlsOf(const TlsFlags& flags);
// The settings are named instead where these are at fault (OUT_OF_RANGE).
Fatal CannotServeModel(const absl::Status& why, const std::string& model_dir);
Fatal CannotServeGrpc(const absl::Status& why);
Fatal CannotMoveKv(const absl::Status& why);
Fatal CannotForesee(const absl::Status& why);

}  // namespace baton
