#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/cores.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/config/exit_code.h"
#include "common/config/http_url.h"
#include "common/rpc/own_certificate.h"
#include "httplib.h"
#include "nlohmann/json.hpp"
#include "spdlog/spdlog.h"
#include "tools/commands.h"
#include "tools/serve/binary_folder.h"
#include "tools/serve/default_load_cache.h"
#include "tools/serve/gpu_deal.h"
#include "tools/serve/log_output.h"
#include "tools/serve/reserved_port.h"
#include "tools/serve/serve_flags.h"
#include "tools/serve/supervisor.h"

namespace baton {
namespace {

// A worker that is to be started, and where it will be.
struct PlannedWorker {
  bool prefill = false;
  ReservedPort port;
  ReservedPort admin_port;
  ServiceSpec spec;

  std::string address() const { return absl::StrCat("127.0.0.1:", port.port()); }
};

struct PlannedRouter {
  std::vector<ReservedPort> ports;  // those that the user leaves to the system
  ServiceSpec spec;
};

ServiceSpec WorkerSpec(const FlagSet& set, const ServeFlags& flags, const std::string& role,
                       int32_t index, WorkerAddress address, const MachineShare& share,
                       const GpuShare& gpus) {
  std::vector<std::string> environment;
  if (!gpus.visible.empty()) environment.push_back("CUDA_VISIBLE_DEVICES=" + gpus.visible);
  return {.role = role,
          .name = role + "-" + std::to_string(index),
          .program = BinaryFolder() / ("baton-" + role),
          .arguments = WorkerArguments(set, flags, share, address),
          .environment = std::move(environment)};
}

absl::StatusOr<std::vector<PlannedWorker>> PlanWorkers(const FlagSet& set,
                                                       const ServeFlags& flags) {
  // Elastic workers are of one kind, which begins to decode.
  const bool elastic = flags.roles.elastic;
  const int32_t prefills = flags.unified || elastic ? 0 : flags.prefill;
  const int32_t workers = prefills + flags.decode + (elastic ? flags.prefill : 0);
  const std::vector<int32_t> threads =
      DivideThreads(base::UsableCores(base::CpusOfThisThread()), workers);
  std::vector<GpuShare> gpus(static_cast<size_t>(workers));
  if (flags.engine.device == DeviceFlag::kCuda) {
    gpus = DealGpus(VisibleGpus(std::getenv("CUDA_VISIBLE_DEVICES")), workers,
                    flags.engine.tensor_parallel_size);
  }
  // The workers of one machine need one set of weights. Those on GPUs have copies anyway.
  std::string load_cache;
  if (flags.engine.device == DeviceFlag::kCpu && !set.Given("load-cache")) {
    load_cache = DefaultLoadCache(std::getenv("XDG_CACHE_HOME"), std::getenv("HOME"));
  }
  std::vector<PlannedWorker> plan;
  for (int32_t i = 0; i < workers; ++i) {
    const bool prefill = i < prefills;
    const auto worker = static_cast<size_t>(i);
    BATON_ASSIGN_OR_RETURN(ReservedPort port, ReservedPort::Reserve());
    BATON_ASSIGN_OR_RETURN(ReservedPort admin_port, ReservedPort::Reserve());
    ServiceSpec spec = WorkerSpec(set, flags, prefill ? "prefill" : "decode",
                                  prefill ? i : i - prefills, {port.port(), admin_port.port()},
                                  {.threads = threads[worker],
                                   .gpu_sharers = gpus[worker].sharers,
                                   .learner = prefill ? -1 : i - prefills,
                                   .generates = !prefill,
                                   .load_cache = load_cache},
                                  gpus[worker]);
    if (!gpus[worker].visible.empty()) {
      spdlog::info("{} gets GPU {}, with {} of the workers on it", spec.name, gpus[worker].visible,
                   gpus[worker].sharers);
    }
    plan.push_back({.prefill = prefill,
                    .port = std::move(port),
                    .admin_port = std::move(admin_port),
                    .spec = std::move(spec)});
  }
  return plan;
}

absl::StatusOr<PlannedRouter> PlanRouter(const FlagSet& set, const ServeFlags& flags,
                                         const std::vector<PlannedWorker>& workers) {
  std::vector<std::string> prefill, decode;
  for (const PlannedWorker& worker : workers) {
    if (worker.prefill || flags.roles.elastic) prefill.push_back(worker.address());
    if (!worker.prefill) decode.push_back(worker.address());
  }
  PlannedRouter router{.ports = {},
                       .spec = {.role = "router",
                                .name = "router",
                                .program = BinaryFolder() / "baton-router",
                                .arguments = RouterArguments(set, flags, prefill, decode)}};
  // Clients know the ports of the first life, so they are chosen for all lives.
  for (std::string& argument : router.spec.arguments) {
    if (argument != "--port=0" && argument != "--admin-port=0" && argument != "--http-port=0") {
      continue;
    }
    BATON_ASSIGN_OR_RETURN(ReservedPort port, ReservedPort::Reserve());
    argument.pop_back();
    absl::StrAppend(&argument, port.port());
    router.ports.push_back(std::move(port));
  }
  return router;
}

bool AnswersReady(const std::string& admin_address) {
  const HttpAddress admin = AddressOf("http://" + admin_address);
  httplib::Client client(admin.host, admin.port);
  client.set_connection_timeout(std::chrono::milliseconds(200));
  client.set_read_timeout(std::chrono::seconds(1));
  const auto response = client.Get("/readyz");
  return response && response->status == 200;
}

// `services` and `pids` begin with the router's.
std::string ServeReadyLine(const std::string& grpc, const std::vector<ReadyLine>& services,
                           const std::vector<pid_t>& pids) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (size_t i = 1; i < services.size(); ++i) {
    list.push_back({{"role", services[i].role},
                    {"pid", pids[i]},
                    {"grpc", services[i].grpc},
                    {"admin", services[i].admin}});
  }
  nlohmann::ordered_json json = {{"ready", true}, {"grpc", grpc}, {"admin", services[0].admin}};
  if (!services[0].http.empty()) json["http"] = services[0].http;
  json["workers"] = list;
  return json.dump() + "\n";
}

// Starts everything and prints the ready line; `*ready` says whether it did. The result is empty on
// success, and when a signal came first. The router comes first: what it finds wrong with settings,
// files and ports is then told before any worker loads the model, and it has its port and its log
// from there on.
std::optional<Fatal> StartUp(Supervisor* supervisor, const ServeFlags& flags,
                             const PlannedRouter& router, const std::vector<PlannedWorker>& workers,
                             bool* ready) {
  constexpr auto kRouterReadyTimeout = std::chrono::seconds(60);
  if (auto failure = supervisor->StartAll({router.spec})) return failure;
  if (supervisor->stop_requested()) return std::nullopt;
  std::vector<ServiceSpec> specs;
  for (const PlannedWorker& worker : workers) specs.push_back(worker.spec);
  if (auto failure = supervisor->StartAll(specs)) return failure;
  if (supervisor->stop_requested()) return std::nullopt;
  supervisor->RunUntil(
      [&] { return *ready = AnswersReady(supervisor->ready_lines().front().admin); },
      base::SteadyClock().Now() + kRouterReadyTimeout);
  if (*ready) {
    const std::vector<ReadyLine> services = supervisor->ready_lines();
    const std::string& grpc = Advertised(flags.router.server, services.front().grpc);
    Print(ServeReadyLine(grpc, services, supervisor->pids()));
  } else if (!supervisor->stop_requested()) {
    return Fatal{.code = ExitCode::kResources,
                 .what = "the router did not find its workers",
                 .why = "/readyz did not say yes within 60 s",
                 .next = "fix what its log lines above say"};
  }
  return std::nullopt;
}

// Every process that is started shows the same certificate, and the others must believe it.
absl::Status CheckCertificate(const TlsFlags& flags, bool elastic,
                              const std::vector<PlannedWorker>& workers) {
  const TlsOptions tls{.cert_file = flags.cert, .key_file = flags.key, .ca_file = flags.ca};
  std::vector<std::string_view> roles = {"router"};
  const auto prefills = std::ranges::count_if(workers, &PlannedWorker::prefill);
  if (prefills > 0 || elastic) roles.push_back("prefill");
  if (prefills < std::ssize(workers)) roles.push_back("decode");
  BATON_RETURN_IF_ERROR(CheckOwnRoles(tls, roles));
  return CheckOwnAuthority(tls);
}

// As ReportFatal, behind what else is to be written there.
int Report(const FlagSet& set, const Fatal& fatal, LogOutput* log) {
  log->Add(FatalLine(set.program(), fatal) + "\n");
  return ToInt(fatal.code);
}

}  // namespace

int ServeCommand(const Invocation& call) {
  ServeFlags flags;
  FlagSet set("baton serve", "serve",
              "Starts router, prefill and decode workers for a model directory on this machine.");
  BindServe(&set, &flags);
  if (const auto exit = call.Read(&set)) return *exit;
  const ServerFlags& server = flags.router.server;
  // Whoever reads the logs may leave, or read no more; the service goes on.
  std::signal(SIGPIPE, SIG_IGN);
  LogOutput log(STDERR_FILENO);
  const absl::Status logging = base::InitLog(server.log_format, server.log_level, log.Sink());
  BATON_CHECK(logging.ok()) << logging;
  const auto workers = PlanWorkers(set, flags);
  if (!workers.ok()) {
    return Report(set, FatalOf(workers.status(), ExitCode::kResources, "cannot start the workers"),
                  &log);
  }
  const auto router = PlanRouter(set, flags, *workers);
  if (!router.ok()) {
    return Report(set, FatalOf(router.status(), ExitCode::kResources, "cannot start the router"),
                  &log);
  }
  if (const absl::Status tls = CheckCertificate(server.tls, flags.roles.elastic, *workers);
      !tls.ok()) {
    return Report(set, FatalOf(tls, ExitCode::kUsage, "cannot serve with TLS"), &log);
  }
  const base::SteadyClock clock;
  Supervisor supervisor({.prefix_logs = server.log_format == base::LogFormat::kText,
                         .drain_timeout = server.drain_timeout},
                        &clock, &log);
  bool ready = false;
  const auto failure = StartUp(&supervisor, flags, *router, *workers, &ready);
  if (!ready) {
    // Nobody was told of this service, and what a client sent it nevertheless cannot be answered.
    constexpr auto kFailedStartDrain = std::chrono::seconds(2);
    supervisor.Drain({"router", "prefill", "decode"}, kFailedStartDrain);
    return failure ? Report(set, *failure, &log) : ToInt(ExitCode::kOk);
  }
  supervisor.RunUntil([] { return false; }, base::kNever);
  spdlog::info("stopping: the router first, then the workers");
  supervisor.Drain({"router"});
  supervisor.Drain({"prefill", "decode"});
  return ToInt(ExitCode::kOk);
}

}  // namespace baton
