#include "router/router_process.h"

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/admin/admin_server.h"
#include "common/base/log.h"
#include "common/base/stop_signals.h"
#include "common/base/stoppable_start.h"
#include "common/config/exit_code.h"
#include "common/config/ready_line.h"
#include "common/metrics/process.h"
#include "common/metrics/registry.h"
#include "common/rpc/descriptors.h"
#include "common/rpc/held_port.h"
#include "common/rpc/library_log.h"
#include "common/rpc/own_certificate.h"
#include "common/trace/tracer.h"
#include "google/protobuf/stubs/logging.h"
#include "router/edge/eos_meta.h"
#include "router/page/page_files.h"
#include "router/router.h"

namespace baton {
namespace {

constexpr char kProgram[] = "baton-router";

IgnoreEosRule RuleOf(IgnoreEosFlag flag) {
  if (flag == IgnoreEosFlag::kAllow) return IgnoreEosRule::kAllow;
  return flag == IgnoreEosFlag::kRefuse ? IgnoreEosRule::kRefuse : IgnoreEosRule::kWarn;
}

TenantRules TenantRulesOf(const RouterFlags& flags) {
  TenantRules rules{
      .others = {.max_running = flags.tenant_max_running, .max_queued = flags.tenant_max_queued},
      .named = {}};
  for (const auto& [name, tenant] : flags.tenants) {
    rules.named[name] = {.weight = tenant.weight,
                         .max_running = tenant.max_running.value_or(flags.tenant_max_running),
                         .max_queued = tenant.max_queued.value_or(flags.tenant_max_queued)};
  }
  return rules;
}

Routing RoutingOf(RoutingFlag flag) {
  switch (flag) {
    case RoutingFlag::kLoad:
      return Routing::kLoad;
    case RoutingFlag::kPrefix:
      return Routing::kPrefix;
    case RoutingFlag::kRemaining:
      return Routing::kRemaining;
    case RoutingFlag::kScore:
      return Routing::kScore;
  }
  return Routing::kLoad;
}

RouterOptions OptionsOf(const RouterFlags& flags) {
  RouterDeadlines deadlines;
  deadlines.worker_start = flags.worker_start_timeout;
  return {.served_model_name = ServedModelName(flags),
          .prefill_workers = flags.prefill_workers,
          .decode_workers = flags.decode_workers,
          .seed = flags.seed,
          .max_input_length = flags.max_input_length,
          .max_output_length = flags.max_output_length,
          .max_num_queued_reqs = flags.max_num_queued_reqs,
          .ignore_eos = RuleOf(flags.ignore_eos),
          .routing = RoutingOf(flags.routing),
          .local_prefill_below = flags.local_prefill_below,
          .max_inflight_bytes = flags.max_inflight_bytes,
          .client_buffer = flags.client_buffer,
          .tenants = TenantRulesOf(flags),
          .trust_tenant_header = flags.trust_tenant_header,
          .share_prefix_cache = flags.share_prefix_cache,
          .log_stats_interval = flags.server.log_stats_interval,
          .deadlines = deadlines};
}

RpcServerOptions ServerOptionsOf(const RouterFlags& router) {
  const ServerFlags& flags = router.server;
  return {.host = flags.host,
          .port = flags.port,
          .tls = {.cert_file = flags.tls.cert, .key_file = flags.tls.key, .ca_file = flags.tls.ca},
          .client_certificates = !router.client_certs_optional,
          .insecure = flags.insecure,
          .max_connection_age = flags.max_connection_age,
          .max_connection_age_grace = flags.max_connection_age_grace};
}

// Connections to the HTTP port are the most that this process has, so there are no more of them
// than files may be open.
std::optional<HttpServerOptions> HttpOptionsOf(const RouterFlags& flags) {
  if (!flags.http.port) return std::nullopt;
  const size_t files = DescriptorLimit();
  const auto wanted = static_cast<size_t>(flags.http.max_connections);
  const size_t connections = ConnectionsWithin(wanted, files);
  if (connections < wanted) {
    spdlog::warn(
        "at most {} HTTP connections, because this process may open {} files; for {} "
        "raise its limit (ulimit -n)",
        connections, files, wanted);
  }
  const RpcServerOptions rpc = ServerOptionsOf(flags);
  return HttpServerOptions{.host = rpc.host,
                           .port = *flags.http.port,
                           .tls = rpc.tls,
                           .client_certificates = rpc.client_certificates,
                           .insecure = rpc.insecure,
                           .limits = {.body_bytes = static_cast<size_t>(flags.http.max_body),
                                      .connections = connections,
                                      .connection_age = rpc.max_connection_age}};
}

// The life of a router process. Members are destroyed in the order that their threads need.
class RouterProcess final {
 public:
  explicit RouterProcess(const RouterFlags& flags) : flags_(flags) {}
  ~RouterProcess() { admin_.reset(); }

  // Begins to serve, which is the end of `start`. Empty when it does; else says why not.
  std::optional<Fatal> Start(base::StoppableStart* start);
  void Drain(const base::StopSignals& signals);

 private:
  std::optional<Fatal> StartRouter(base::StoppableStart* start);
  // Puts the log into `parts` if there is to be one.
  std::optional<Fatal> OpenEosLog(Router::Parts* parts) const;
  std::optional<Fatal> StartAdmin();
  std::vector<AdminPage> Pages();
  // Where the page's playground sends its requests.
  std::optional<AskedPort> HttpPort() const;
  // As baton_server_state has it; "ready" is what /readyz calls so.
  const char* State() const;

  const RouterFlags& flags_;
  const base::SteadyClock clock_;
  std::unique_ptr<MetricsRegistry> registry_;
  std::unique_ptr<Tracer> tracer_;  // null: no traces
  std::unique_ptr<Router> router_;
  std::unique_ptr<AdminServer> admin_;
  std::atomic<bool> draining_{false};
};

const char* RouterProcess::State() const {
  if (draining_) return "draining";
  return router_->ready().ok() ? "ready" : "unhealthy";
}

std::optional<Fatal> RouterProcess::StartRouter(base::StoppableStart* start) {
  Router::Parts parts;
  parts.options = OptionsOf(flags_);
  parts.server = ServerOptionsOf(flags_);
  parts.clock = &clock_;
  parts.http = HttpOptionsOf(flags_);
  parts.http_origins = flags_.http.allow_origins;
  const absl::Status tls = CheckOwnRoles(parts.server.tls, {"router"});
  if (!tls.ok()) return FatalOf(tls, ExitCode::kUsage, "cannot serve with TLS");
  auto port = HeldPort::Take(parts.server.host, parts.server.port);
  if (!port.ok()) {
    return FatalOf(port.status(), ExitCode::kUsage, "cannot serve gRPC",
                   "--port 0 takes any free port");
  }
  const bool http = parts.http.has_value();
  auto http_port = HeldPort::Take(parts.server.host, http ? parts.http->port : 0, "--http-port");
  if (!http_port.ok()) {
    return FatalOf(http_port.status(), ExitCode::kUsage, "cannot serve HTTP",
                   "--http-port 0 takes any free port, --http-port off none");
  }
  if (!flags_.api_keys.empty()) {
    auto keys = ApiKeyFile::Open(flags_.api_keys);
    if (!keys.ok()) {
      return FatalOf(keys.status(), ExitCode::kUsage, "cannot tell callers apart",
                     "--api-keys FILE with a line NAME:KEY for each caller");
    }
    parts.keys = *std::move(keys);
  }
  auto model = LoadServedModel(flags_.model_dir, parts.options.served_model_name);
  if (!model.ok()) {
    return FatalOf(model.status(), ExitCode::kModel, "cannot serve the model " + flags_.model_dir,
                   "baton model inspect " + flags_.model_dir);
  }
  registry_ = std::make_unique<MetricsRegistry>(
      MetricsOptions{.role = MetricRole::kRouter,
                     .model_name = parts.options.served_model_name,
                     .max_model_len = (*model)->config.max_positions});
  AddProcessMetrics(registry_.get());
  registry_
      ->gauge(Metric::kConfigInfo,
              {"", "", "", std::to_string(flags_.max_num_queued_reqs), "", "", "", ""})
      .Set(1);
  registry_->SetServerState("starting");
  parts.metrics = registry_.get();
  tracer_ = MakeTracer(flags_.server, kProgram, flags_.trace_sample, &clock_, registry_.get());
  parts.tracer = tracer_.get();
  parts.model = std::move(model).value();
  if (auto fatal = OpenEosLog(&parts)) return fatal;
  start->Over();
  port->LetGo();
  http_port->LetGo();
  auto router = Router::Start(std::move(parts));
  if (!router.ok()) {
    return FatalOf(router.status(), ExitCode::kUsage, "cannot serve gRPC",
                   "--port 0 takes any free port");
  }
  router_ = std::move(router).value();
  registry_->OnScrape([this] { registry_->SetServerState(State()); });
  return std::nullopt;
}

std::optional<Fatal> RouterProcess::OpenEosLog(Router::Parts* parts) const {
  if (flags_.eos_log.empty()) return std::nullopt;
  auto log = EosLog::Open({.path = flags_.eos_log,
                           .meta_json = EosMetaJson(*parts->model, parts->options,
                                                    flags_.eos_log_sample, clock_.UnixNow()),
                           .max_bytes = flags_.eos_log_max_size,
                           .keep = flags_.eos_log_files,
                           .sample = flags_.eos_log_sample});
  if (log.ok()) {
    parts->eos_log = std::move(log).value();
    return std::nullopt;
  }
  if (!flags_.eos_log_optional) {
    return FatalOf(log.status(), ExitCode::kResources, "cannot write the EOS log",
                   "--eos-log with a file in a folder that can be written, or off");
  }
  spdlog::warn("there is no EOS log: {}; --eos-log FILE names another file, --eos-log off none",
               std::string(log.status().message()));
  return std::nullopt;
}

std::vector<AdminPage> RouterProcess::Pages() {
  std::vector<AdminPage> pages = {
      {"/api/status", "application/json", [this] { return router_->Status(State()); }}};
  for (const PageFile& file : PageFiles()) {
    pages.push_back({std::string(file.path), std::string(file.content_type),
                     [text = file.text] { return std::string(text); }});
  }
  return pages;
}

std::optional<AskedPort> RouterProcess::HttpPort() const {
  const auto http = router_->http();
  if (!http) return std::nullopt;
  return AskedPort{.scheme = http->tls ? "https" : "http", .port = http->port};
}

std::optional<Fatal> RouterProcess::StartAdmin() {
  auto admin = AdminServer::Start(
      {.host = flags_.server.host,
       .port = flags_.server.admin_port,
       .metrics = [this] { return registry_->Expose(); },
       .ready = [this] { return router_->ready(); },
       .serves_host = [this](const std::string& host) { return router_->Lists(host); },
       .pages = Pages(),
       .pages_ask = HttpPort()});
  if (!admin.ok()) {
    return FatalOf(admin.status(), ExitCode::kPortInUse, "cannot serve the admin page",
                   "--admin-port 0 takes any free port");
  }
  admin_ = std::move(admin).value();
  router_->SetPagePort(admin_->port());
  return std::nullopt;
}

std::optional<Fatal> RouterProcess::Start(base::StoppableStart* start) {
  if (auto fatal = StartRouter(start)) return fatal;
  if (auto fatal = StartAdmin()) return fatal;
  const std::string http = router_->http_address();
  spdlog::info("router serves gRPC on {}, admin on {}{}", router_->address(), admin_->address(),
               http.empty() ? "" : ", HTTP on " + http);
  PrintReadyLine({.ready = router_->ready().ok(),
                  .role = "router",
                  .grpc = Advertised(flags_.server, router_->address()),
                  .admin = admin_->address(),
                  .http = http});
  return std::nullopt;
}

void RouterProcess::Drain(const base::StopSignals& signals) {
  draining_ = true;
  spdlog::info("draining {} requests, at most {} s", router_->in_flight(),
               base::Seconds(flags_.server.drain_timeout));
  const base::Instant twice_until = clock_.Now() + base::StopSignals::kSentTwice;
  bool second_counts = false;
  router_->Drain(flags_.server.drain_timeout, [&] {
    if (second_counts) return signals.Arrived(std::chrono::nanoseconds(0));
    second_counts = clock_.Now() >= twice_until;
    if (second_counts) signals.Drop();
    return false;
  });
  if (tracer_ != nullptr) tracer_->Stop(kLastSpans);
  spdlog::info("drained");
}

}  // namespace

int RunRouter(const RouterFlags& flags) {
  const absl::Status log = base::InitLog(flags.server.log_format, flags.server.log_level);
  if (!log.ok()) {
    return ReportFatal(kProgram, FatalOf(log, ExitCode::kUsage, "cannot log", "--log-level info"));
  }
  LogWhatLibrariesSay();
  RaiseDescriptorLimit();  // for connections
  // What clients send wrong is told to them, with the field; not to our log.
  google::protobuf::SetLogHandler(nullptr);
  const base::StopSignals signals;
  base::StoppableStart start(&signals);
  RouterProcess process(flags);
  if (auto fatal = process.Start(&start)) return ReportFatal(kProgram, *fatal);
  signals.Wait();
  process.Drain(signals);
  return ToInt(ExitCode::kOk);
}

}  // namespace baton
