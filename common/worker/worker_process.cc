#include "common/worker/worker_process.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "common/admin/admin_server.h"
#include "common/base/cores.h"
#include "common/base/status.h"
#include "common/base/stop_signals.h"
#include "common/base/stoppable_start.h"
#include "common/base/ticket.h"
#include "common/config/exit_code.h"
#include "common/config/ready_line.h"
#include "common/formats/eos_probe_file.h"
#include "common/metrics/process.h"
#include "common/metrics/registry.h"
#include "common/model/kv_arena.h"
#include "common/rpc/descriptors.h"
#include "common/rpc/held_port.h"
#include "common/rpc/library_log.h"
#include "common/rpc/server.h"
#include "common/transport/transport_factory.h"
#include "common/worker/kv_shape_of.h"
#include "common/worker/load_progress.h"
#include "common/worker/start_checks.h"
#include "common/worker/status_service.h"
#include "common/worker/survival_saver.h"
#include "common/worker/worker_model.h"
#include "common/worker/worker_options.h"
#include "common/worker/worker_predictor.h"
#include "grpcpp/impl/service_type.h"
#include "kernels/backend_factory.h"
#include "spdlog/spdlog.h"

namespace baton {
namespace {

constexpr auto kSignalPoll = std::chrono::milliseconds(50);
// How long the last statuses have to reach the routers after the drain timeout.
constexpr auto kLastWords = std::chrono::seconds(2);
// Watch streams are still open then; a router takes their end as the end of the worker.
constexpr auto kShutdownGrace = std::chrono::milliseconds(100);

// A worker between its start and its end. Members are destroyed in the order that their threads
// need: server, services, core (which stops the engine), engine, model.
class Worker final {
 public:
  Worker(const WorkerRoleSpec& spec, const WorkerFlags& flags)
      : spec_(spec),
        flags_(FlagsOfRole(flags, spec.role)),
        registry_(
            {.role = spec.role == WorkerRole::kPrefill ? MetricRole::kPrefill : MetricRole::kDecode,
             .also_prefill = flags.roles.elastic,
             .model_name = ServedModelName(flags)}),
        progress_(&clock_, [](const std::string& line) { spdlog::info("{}", line); }) {}

  // Scrapes end first, because they read the engine.
  ~Worker() { admin_.reset(); }

  // Begins to serve, which is the end of `start`. Empty when it does; else says why not.
  std::optional<Fatal> Start(base::StoppableStart* start);
  // Serves until a signal or a fault of the engine. Returns the exit code.
  int Run(const base::StopSignals& signals);

 private:
  std::optional<Fatal> StartAdmin();
  absl::Status Ready() const;
  absl::Status Healthy() const;
  std::optional<Fatal> StartEngine();
  WorkerIdentity NewIdentity() const;
  std::optional<Fatal> StartPredictor(ChosenPredictor chosen, const PredictionFlags& flags);
  void BeginRoles();
  std::optional<Fatal> StartServer(base::StoppableStart* start);
  RpcServerOptions ServerOptions() const;
  void PublishConfig(base::Duration load_time);
  void SetState(const char* state);
  int Drain(const base::StopSignals& signals);
  void OnFault();
  [[noreturn]] void Die();
  [[noreturn]] void ExitAfterFault();

  const WorkerRoleSpec& spec_;
  const WorkerFlags flags_;
  const base::SteadyClock clock_;
  MetricsRegistry registry_;
  LoadProgressLog progress_;
  std::atomic<const char*> state_{"starting"};
  std::atomic<bool> faulted_{false};
  std::atomic<bool> drained_{false};  // only ends of threads are waited for
  std::optional<HeldPort> port_;      // until gRPC has it
  std::unique_ptr<AdminServer> admin_;
  WorkerModel model_;
  std::unique_ptr<MetricsProbe> probe_;
  std::unique_ptr<BlockAccess> device_blocks_;  // null on a CPU
  std::unique_ptr<EndPredictor> predictor_;     // null when it is off
  std::unique_ptr<SurvivalSaver> saver_;        // null when nothing is kept
  std::unique_ptr<Tracer> tracer_;              // null: no traces
  std::unique_ptr<GuideCompiler> guides_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<WorkerCore> core_;
  std::unique_ptr<grpc::Service> status_;
  std::unique_ptr<RoleServices> services_;
  std::unique_ptr<RpcServer> server_;
};

void Worker::SetState(const char* state) {
  state_ = state;
  registry_.SetServerState(state);
}

absl::Status Worker::Ready() const {
  const std::string state = state_.load();
  if (state == "ready") return absl::OkStatus();
  const std::string doing = progress_.Doing();
  return absl::UnavailableError("the worker is " + state + (doing.empty() ? "" : ": " + doing));
}

absl::Status Worker::Healthy() const {
  return faulted_ ? absl::InternalError("the engine has stopped") : absl::OkStatus();
}

std::optional<Fatal> Worker::StartAdmin() {
  AddProcessMetrics(&registry_);
  // The share is of those that nobody has decided about; here the router has.
  tracer_ = MakeTracer(flags_.server, spec_.program, /*ratio=*/0, &clock_, &registry_);
  SetState("starting");
  auto admin = AdminServer::Start({.host = flags_.server.host,
                                   .port = flags_.server.admin_port,
                                   .metrics = [this] { return registry_.Expose(); },
                                   .ready = [this] { return Ready(); },
                                   .healthy = [this] { return Healthy(); }});
  if (!admin.ok()) {
    return FatalOf(admin.status(), ExitCode::kPortInUse, "cannot serve the admin page",
                   "--admin-port 0 takes any free port");
  }
  admin_ = *std::move(admin);
  return std::nullopt;
}

std::optional<Fatal> Worker::StartEngine() {
  const base::Instant begin = clock_.Now();
  const PredictionFlags prediction = FlagsOfRole(flags_.prediction, spec_.role);
  auto chosen = ChoosePredictor(prediction, flags_.model_dir);
  if (!chosen.ok()) return CannotForesee(chosen.status());
  absl::StatusOr<EosProbeFile> named;
  if (!flags_.engine.probe.empty()) named = LoadEosProbeFile(flags_.engine.probe);
  const EosProbe* const predictors_probe = ProbeFor(&*chosen, named.ok() ? &named->probe : nullptr);
  auto model = [&] {
    const LoadProgressTicks ticks(&progress_, &clock_);
    return LoadWorkerModel(flags_, clock_, predictors_probe, &progress_);
  }();
  if (!model.ok()) return CannotServeModel(model.status(), flags_.model_dir);
  model_ = *std::move(model);
  PublishConfig(clock_.Now() - begin);
  probe_ = std::make_unique<MetricsProbe>(&registry_, model_.work, &clock_);
  probe_->WatchStopSet(model_.special_tokens);
  // What its own probe was computed for means nothing, so nobody is told of the products.
  if (predictors_probe != nullptr && IsOfAnotherModel(*chosen, model_.loaded->fingerprint)) {
    model_.engine.tells_products = false;
    model_.probe_digest = 0;
  }
  if (auto fatal = StartPredictor(*std::move(chosen), prediction)) return fatal;
  model_.engine.stall_timeout = WorkerTimeouts().engine_stall;
  guides_ = std::make_unique<GuideCompiler>(
      std::move(model_.tokenizer),
      GuideCompilerOptions{
          .width = model_.engine.vocab_size,
          .eos_ids = model_.engine.eos_ids,
          .mask_threads = MaskThreads(base::UsableCores(base::CpusOfThisThread()))});
  auto engine = Engine::Start(model_.engine, model_.loaded->kv_cache(),
                              std::move(model_.loaded->runner), &clock_);
  if (!engine.ok()) {
    return FatalOf(engine.status(), ExitCode::kUsage, "cannot start the engine",
                   spec_.program + " --help all");
  }
  engine_ = *std::move(engine);
  probe_->Observe(engine_.get());
  if (flags_.engine.device == DeviceFlag::kCuda) {
    auto blocks = MakeDeviceBlocks();
    if (!blocks.ok()) {
      return FatalOf(blocks.status(), ExitCode::kUsage, "cannot reach the KV cache in the GPU",
                     "--device cpu");
    }
    device_blocks_ = *std::move(blocks);
  }
  core_ = std::make_unique<WorkerCore>(
      NewIdentity(), engine_.get(), &clock_, WorkerTimeouts(), probe_.get(),
      [this](const absl::Status&) { OnFault(); },
      device_blocks_ != nullptr ? device_blocks_.get() : &HostBlocks());
  core_->SetPredictor(predictor_.get());
  core_->SetTracer(tracer_.get());
  core_->SetGuides(guides_.get());
  BeginRoles();
  return std::nullopt;
}

void Worker::BeginRoles() {
  const RoleFlags& roles = flags_.roles;
  core_->SetStepTarget(base::Seconds(roles.step_target));
  if (roles.elastic) {
    core_->BeginRoles({.cool_down = roles.cool_down});
  } else if (spec_.role == WorkerRole::kDecode) {
    probe_->RoleTaken(spec_.role);
  }
}

WorkerIdentity Worker::NewIdentity() const {
  return {.role = spec_.role,
          .elastic = flags_.roles.elastic,
          .incarnation = RandomBits(),
          .model_fingerprint = model_.loaded->fingerprint,
          .text_fingerprint = model_.text_fingerprint,
          .shape = KvShapeOf(model_.loaded->kv().layout, kKvLayoutVersion,
                             model_.loaded->config.kv_heads, model_.loaded->ranks()),
          .numerics = model_.numerics,
          .compute_dtype = model_.compute_dtype,
          .max_model_len = model_.engine.max_model_len,
          .vocab_size = model_.engine.vocab_size,
          .probe_digest = model_.probe_digest,
          .push_address = flags_.server.advertise,
          .tls = flags_.server.tls.enabled()};
}

std::optional<Fatal> Worker::StartPredictor(ChosenPredictor chosen, const PredictionFlags& flags) {
  const absl::Status fits =
      CheckProbeOf(&chosen, model_.loaded->fingerprint, model_.loaded->config);
  if (!fits.ok()) return CannotForesee(fits);
  predictor_ = MakePredictor(std::move(chosen), flags, model_.loaded->fingerprint,
                             model_.engine.token_boundaries);
  model_.engine.predictor = predictor_.get();
  if (predictor_ == nullptr) return std::nullopt;
  probe_->PredictorChosen(predictor_->kind(), predictor_->version());
  if (!flags.state.empty()) {
    saver_ = std::make_unique<SurvivalSaver>(&predictor_->survival(), model_.loaded->fingerprint,
                                             flags.state);
  }
  return std::nullopt;
}

void Worker::PublishConfig(base::Duration load_time) {
  const EngineFlags& engine = flags_.engine;
  const kernels::PagedKv& kv = model_.loaded->kv();
  const LoadTimes& times = model_.loaded->times;
  for (const auto& [phase, time] :
       {std::pair("checkpoint", times.checkpoint), std::pair("weights", times.weights),
        std::pair("kv_cache", times.kv_cache), std::pair("kernels", times.kernels),
        std::pair("total", load_time)}) {
    registry_.gauge(Metric::kModelLoadDuration, {phase}).Set(base::Seconds(time));
  }
  registry_
      .gauge(Metric::kConfigInfo,
             {std::to_string(model_.engine.max_model_len), std::to_string(engine.max_num_seqs),
              std::to_string(engine.max_num_batched_tokens),
              std::to_string(engine.max_num_queued_reqs), model_.compute_dtype,
              model_.loaded->backend->info().isa, std::to_string(model_.loaded->threads()),
              WordOf(engine.policy)})
      .Set(1);
  registry_
      .gauge(Metric::kCacheConfigInfo,
             {std::to_string(kv.layout.block_size), std::to_string(kv.num_blocks),
              std::string(kernels::Name(kv.layout.dtype))})
      .Set(1);
}

RpcServerOptions Worker::ServerOptions() const {
  return {.host = flags_.server.host,
          .port = flags_.server.port,
          .tls = TlsOf(flags_.server.tls),
          .insecure = flags_.server.insecure,
          .max_connection_age = flags_.server.max_connection_age,
          .max_connection_age_grace = flags_.server.max_connection_age_grace};
}

std::optional<Fatal> Worker::StartServer(base::StoppableStart* start) {
  status_ = MakeStatusService(core_.get());
  auto services = spec_.make_services(core_.get(), flags_, TlsOf(flags_.server.tls));
  if (!services.ok()) return CannotMoveKv(services.status());
  services_ = *std::move(services);
  if (spec_.role == WorkerRole::kPrefill) {
    registry_.OnScrape([this] {
      registry_.gauge(Metric::kKvPairs).Set(static_cast<double>(core_->warm_pairs().size()));
    });
  }
  std::vector<grpc::Service*> all = services_->services();
  all.push_back(status_.get());
  start->Over();
  port_->LetGo();
  auto server = RpcServer::Start(ServerOptions(), all);
  if (!server.ok()) return CannotServeGrpc(server.status());
  server_ = *std::move(server);
  return std::nullopt;
}

std::optional<Fatal> Worker::Start(base::StoppableStart* start) {
  if (auto fatal = CheckBeforeLoad(flags_, spec_.role, &port_)) return fatal;
  if (auto fatal = StartAdmin()) return fatal;
  if (auto fatal = StartEngine()) return fatal;
  if (auto fatal = StartServer(start)) return fatal;
  server_->SetServing(spec_.service_names, true);
  SetState("ready");
  LogLoadEvery(flags_.server.log_stats_interval, &clock_, &core_->timers(),
               [engine = engine_.get()] { return LoadOf(engine->figures()); });
  const std::string role(WorkerRoleName(spec_.role));
  spdlog::info("{}{} worker serves gRPC on {}, admin on {}", flags_.roles.elastic ? "elastic " : "",
               role, server_->address(), admin_->address());
  PrintReadyLine({.role = role,
                  .grpc = Advertised(flags_.server, server_->address()),
                  .admin = admin_->address()});
  return std::nullopt;
}

int Worker::Run(const base::StopSignals& signals) {
  while (!signals.Arrived(kSignalPoll)) {
    if (faulted_) Die();
  }
  return Drain(signals);
}

int Worker::Drain(const base::StopSignals& signals) {
  SetState("draining");
  server_->SetServing(spec_.service_names, false);
  // Connections stay: pushes for granted tickets are still to come, and routers, the only ones to
  // open other streams here, read of the drain in Status.
  core_->BeginDrain();
  spdlog::info("draining {} streams, at most {} s", core_->streams(),
               base::Seconds(flags_.server.drain_timeout));
  const base::Instant begin = clock_.Now();
  const base::Instant deadline = begin + flags_.server.drain_timeout;
  core_->WaitUntilIdle(std::min(deadline, begin + base::StopSignals::kSentTwice));
  signals.Drop();
  while (!core_->WaitUntilIdle(std::min(deadline, clock_.Now() + kSignalPoll))) {
    if (faulted_) Die();
    // A second signal ends the waiting.
    if (clock_.Now() >= deadline || signals.Arrived(std::chrono::nanoseconds(0))) break;
  }
  core_->EndStreams();
  if (!core_->WaitUntilIdle(clock_.Now() + kLastWords)) {
    spdlog::warn("{} streams did not end in time and are cut; routers replay their requests",
                 core_->streams());
  }
  server_->Shutdown(kShutdownGrace);
  if (tracer_ != nullptr) tracer_->Stop(kLastSpans);
  spdlog::info("drained");
  drained_ = true;
  if (faulted_) ExitAfterFault();
  return ToInt(ExitCode::kOk);
}

// Whoever waits in Run or Drain ends the process. Behind those the engine's thread is joined, which
// would wait as long as the device does.
void Worker::OnFault() {
  faulted_ = true;
  if (drained_) ExitAfterFault();
}

// Its streams have ended already.
void Worker::Die() {
  SetState("unhealthy");
  server_->SetServing(spec_.service_names, false);
  core_->WaitUntilIdle(clock_.Now() + kLastWords);
  if (tracer_ != nullptr) tracer_->Stop(kLastSpans);
  ExitAfterFault();
}

// The engine may be stuck in the device, so nothing is joined.
void Worker::ExitAfterFault() {
  const int code = ReportFatal(spec_.program, {.code = ExitCode::kResources,
                                               .what = "the engine stopped",
                                               .why = "a step failed or did not finish",
                                               .next = "restart this worker; see its log above"});
  _exit(code);
}

}  // namespace

int RunWorker(const WorkerRoleSpec& spec, const WorkerFlags& flags) {
  const absl::Status log = base::InitLog(flags.server.log_format, flags.server.log_level);
  if (!log.ok()) {
    return ReportFatal(spec.program,
                       FatalOf(log, ExitCode::kUsage, "cannot log", "--log-level info"));
  }
  LogWhatLibrariesSay();
  RaiseDescriptorLimit();  // for connections
  if (flags.engine.tensor_parallel_size > 1) kernels::ConnectGroupsWhenMade();
  const base::StopSignals signals;
  if (auto fatal = ArmFailpointsFromEnvironment(flags)) return ReportFatal(spec.program, *fatal);
  base::StoppableStart start(&signals);
  Worker worker(spec, flags);
  if (auto fatal = worker.Start(&start)) return ReportFatal(spec.program, *fatal);
  return worker.Run(signals);
}

}  // namespace baton
