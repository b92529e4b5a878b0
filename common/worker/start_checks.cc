#include "common/worker/start_checks.h"

#include <cstdlib>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/failpoint.h"
#include "common/base/log.h"
#include "common/formats/eos_probe_file.h"
#include "common/rpc/credentials.h"
#include "common/rpc/own_certificate.h"
#include "common/worker/handoff.h"

namespace baton {

std::optional<Fatal> ArmFailpointsFromEnvironment(const WorkerFlags& flags) {
  const char* failpoint = std::getenv("BATON_FAILPOINT");
  if (failpoint == nullptr) return std::nullopt;
  if (!flags.server.enable_failpoints) {
    spdlog::warn("BATON_FAILPOINT is set and ignored: --enable-failpoints was not given");
    return std::nullopt;
  }
  const absl::Status armed = base::ArmFailpoints(failpoint);
  if (armed.ok()) return std::nullopt;
  return FatalOf(armed, ExitCode::kUsage, "cannot arm failpoints", "BATON_FAILPOINT=decoding:exit");
}

TlsOptions TlsOf(const TlsFlags& flags) {
  return {.cert_file = flags.cert, .key_file = flags.key, .ca_file = flags.ca};
}

Fatal CannotServeModel(const absl::Status& why, const std::string& model_dir) {
  const std::string what = absl::IsOutOfRange(why) ? "cannot serve with these settings"
                                                   : "cannot serve the model " + model_dir;
  return FatalOf(why, ExitCode::kModel, what, "baton model inspect " + model_dir);
}

Fatal CannotServeGrpc(const absl::Status& why) {
  return FatalOf(why, ExitCode::kUsage, "cannot serve gRPC", "--port 0 takes any free port");
}

Fatal CannotForesee(const absl::Status& why) {
  return FatalOf(why, ExitCode::kUsage, "cannot predict ends", "--predictor auto");
}

Fatal CannotMoveKv(const absl::Status& why) {
  return FatalOf(why, ExitCode::kUsage, "cannot move KV caches",
                 "--kv-transport grpc works everywhere");
}

std::optional<Fatal> CheckBeforeLoad(const WorkerFlags& flags, WorkerRole role,
                                     std::optional<HeldPort>* port) {
  std::vector<std::string_view> roles = {WorkerRoleName(role)};
  if (flags.roles.elastic) roles.push_back(WorkerRoleName(OtherRole(role)));
  const absl::Status tls = CheckOwnRoles(TlsOf(flags.server.tls), roles);
  if (!tls.ok()) return FatalOf(tls, ExitCode::kUsage, "cannot serve with TLS");
  auto held = HeldPort::Take(flags.server.host, flags.server.port);
  if (!held.ok()) return CannotServeGrpc(held.status());
  const auto credentials = MakeServerCredentials(TlsOf(flags.server.tls));
  if (!credentials.ok()) return CannotServeGrpc(credentials.status());
  if (!flags.engine.probe.empty()) {
    const absl::Status probe = LoadEosProbeFile(flags.engine.probe).status();
    if (!probe.ok()) return FatalOf(probe, ExitCode::kUsage, "cannot use --probe");
  }
  const absl::Status transport = CheckTransport(TransportOptionsOf(flags));
  if (!transport.ok()) return CannotMoveKv(transport);
  port->emplace(*std::move(held));
  return std::nullopt;
}

}  // namespace baton
