#include <csignal>
#include <cstdlib>
#include <filesystem>

#include "common/base/check.h"
#include "common/base/cores.h"
#include "common/base/log.h"
#include "common/config/exit_code.h"
#include "httplib.h"
#include "nlohmann/json.hpp"
#include "spdlog/spdlog.h"
#include "tools/commands.h"
#include "tools/serve/gpu_deal.h"
#include "tools/serve/serve_flags.h"
#include "tools/serve/supervisor.h"

namespace baton {
namespace {

// The folder of the other binaries: BATON_BIN_DIR, or else that of this one.
std::filesystem::path BinaryFolder() {
  if (const char* folder = std::getenv("BATON_BIN_DIR"); folder != nullptr && *folder != '\0') {
    return folder;
  }
  std::error_code ignored;
  return std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path();
}

int PortOf(const std::string& address) {
  return std::atoi(address.substr(address.rfind(':') + 1).c_str());
}

ServiceSpec WorkerSpec(const FlagSet& set, const ServeFlags& flags, const std::string& role,
                       int32_t index, int32_t threads, const GpuShare& gpus) {
  std::vector<std::string> environment;
  if (!gpus.visible.empty()) environment.push_back("CUDA_VISIBLE_DEVICES=" + gpus.visible);
  const WorkerShare share = {.threads = threads, .gpu_sharers = gpus.sharers};
  return {.role = role,
          .name = role + "-" + std::to_string(index),
          .program = BinaryFolder() / ("baton-" + role),
          .arguments =
              [&set, &flags, share](const std::optional<ReadyLine>& before) {
                const WorkerAddress address =
                    before ? WorkerAddress{PortOf(before->grpc), PortOf(before->admin)}
                           : WorkerAddress{};
                return WorkerArguments(set, flags, share, address);
              },
          .environment = std::move(environment)};
}

std::vector<ServiceSpec> WorkerSpecs(const FlagSet& set, const ServeFlags& flags) {
  const int32_t prefills = flags.unified ? 0 : flags.prefill;
  const int32_t workers = prefills + flags.decode;
  const std::vector<int32_t> threads =
      DivideThreads(base::UsableCores(base::CpusOfThisThread()), workers);
  std::vector<GpuShare> gpus(static_cast<size_t>(workers));
  if (flags.engine.device == DeviceFlag::kCuda) {
    gpus = DealGpus(VisibleGpus(std::getenv("CUDA_VISIBLE_DEVICES")), workers,
                    flags.engine.tensor_parallel_size);
  }
  std::vector<ServiceSpec> specs;
  for (int32_t i = 0; i < workers; ++i) {
    const bool prefill = i < prefills;
    const auto worker = static_cast<size_t>(i);
    specs.push_back(WorkerSpec(set, flags, prefill ? "prefill" : "decode",
                               prefill ? i : i - prefills, threads[worker], gpus[worker]));
    if (gpus[worker].visible.empty()) continue;
    spdlog::info("{} gets GPU {}, with {} of the workers on it", specs.back().name,
                 gpus[worker].visible, gpus[worker].sharers);
  }
  return specs;
}

ServiceSpec RouterSpec(const FlagSet& set, const ServeFlags& flags,
                       const std::vector<ReadyLine>& workers) {
  std::vector<std::string> prefill, decode;
  for (const ReadyLine& worker : workers) {
    (worker.role == "prefill" ? prefill : decode).push_back(worker.grpc);
  }
  return {.role = "router",
          .name = "router",
          .program = BinaryFolder() / "baton-router",
          .arguments = [&set, flags, prefill, decode](const std::optional<ReadyLine>& before) {
            ServeFlags now = flags;
            std::vector<std::string> arguments = RouterArguments(set, now, prefill, decode);
            if (before) {
              // The last one counts.
              arguments.push_back("--port=" + std::to_string(PortOf(before->grpc)));
              arguments.push_back("--admin-port=" + std::to_string(PortOf(before->admin)));
            }
            return arguments;
          }};
}

bool AnswersReady(const std::string& admin_address) {
  httplib::Client client("http://" + admin_address);
  client.set_connection_timeout(std::chrono::milliseconds(200));
  client.set_read_timeout(std::chrono::seconds(1));
  const auto response = client.Get("/readyz");
  return response && response->status == 200;
}

std::string ServeReadyLine(const std::string& grpc, const ReadyLine& router,
                           const std::vector<ReadyLine>& workers, const std::vector<pid_t>& pids) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (size_t i = 0; i < workers.size(); ++i) {
    list.push_back({{"role", workers[i].role},
                    {"pid", pids[i]},
                    {"grpc", workers[i].grpc},
                    {"admin", workers[i].admin}});
  }
  const nlohmann::ordered_json json = {
      {"ready", true}, {"grpc", grpc}, {"admin", router.admin}, {"workers", list}};
  return json.dump() + "\n";
}

// Starts everything and prints the ready line. The result is empty on success, and when a signal
// came first.
std::optional<Fatal> StartUp(Supervisor* supervisor, const FlagSet& set, const ServeFlags& flags) {
  constexpr auto kRouterReadyTimeout = std::chrono::seconds(60);
  if (auto failure = supervisor->StartAll(WorkerSpecs(set, flags))) return failure;
  if (supervisor->stop_requested()) return std::nullopt;
  const std::vector<ReadyLine> workers = supervisor->ready_lines();
  if (auto failure = supervisor->StartAll({RouterSpec(set, flags, workers)})) return failure;
  if (supervisor->stop_requested()) return std::nullopt;
  bool ready = false;
  supervisor->RunUntil([&] { return ready = AnswersReady(supervisor->ready_lines().back().admin); },
                       base::SteadyClock().Now() + kRouterReadyTimeout);
  if (ready) {
    // The router's own line says where it listens, which a restart of it needs.
    const ReadyLine router = supervisor->ready_lines().back();
    const std::string& grpc = Advertised(flags.router.server, router.grpc);
    Print(ServeReadyLine(grpc, router, workers, supervisor->pids()));
  } else if (!supervisor->stop_requested()) {
    return Fatal{.code = ExitCode::kResources,
                 .what = "the router did not find its workers",
                 .why = "/readyz did not say yes within 60 s",
                 .next = "what its log lines above say"};
  }
  return std::nullopt;
}

}  // namespace

int ServeCommand(const Invocation& call) {
  ServeFlags flags;
  FlagSet set("baton serve", "serve",
              "Starts router, prefill and decode workers for a model directory on this machine.");
  BindServe(&set, &flags);
  if (const auto exit = call.Read(&set)) return *exit;
  const ServerFlags& server = flags.router.server;
  const absl::Status logging = base::InitLog(server.log_format, server.log_level);
  BATON_CHECK(logging.ok()) << logging;
  // Whoever reads the logs may leave; the service goes on.
  std::signal(SIGPIPE, SIG_IGN);
  const base::SteadyClock clock;
  Supervisor supervisor({.prefix_logs = server.log_format == base::LogFormat::kText,
                         .drain_timeout = server.drain_timeout},
                        &clock);
  if (const auto failure = StartUp(&supervisor, set, flags)) {
    supervisor.Drain({"router"});
    supervisor.Drain({"prefill", "decode"});
    return ReportFatal(set.program(), *failure);
  }
  supervisor.RunUntil([] { return false; }, base::kNever);
  spdlog::info("stopping: the router first, then the workers");
  supervisor.Drain({"router"});
  supervisor.Drain({"prefill", "decode"});
  return ToInt(ExitCode::kOk);
}

}  // namespace baton
