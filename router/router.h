#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/base/timer_queue.h"
#include "common/eos/eos_log.h"
#include "common/guide/guide_compiler.h"
#include "common/http/http_server.h"
#include "common/metrics/registry.h"
#include "common/rpc/server.h"
#include "router/edge/api_keys.h"
#include "router/edge/byte_budget.h"
#include "router/edge/origin_rules.h"
#include "router/edge/served_model.h"
#include "router/edge/work_pool.h"
#include "router/model_service.h"
#include "router/openai/openai_front.h"
#include "router/page/status_json.h"
#include "router/placement/admission.h"
#include "router/placement/placer.h"
#include "router/request/flow_context.h"
#include "router/request/request_intake.h"
#include "router/router_options.h"
#include "router/router_probe.h"
#include "router/router_service.h"
#include "router/workers/worker_directory.h"

namespace baton {

// A router in one object, with its services, its queue and its directory of workers. main.cc and
// the tests start it.
//
// Threads: gRPC's callbacks and HTTP's two (run the flows), one that places, one for timers, one
// that resolves names, the tokenizing pool, and the EOS log's writer.
class Router final {
 public:
  struct Parts {
    RouterOptions options;
    RpcServerOptions server;
    std::unique_ptr<ServedModel> model;
    std::unique_ptr<EosLog> eos_log;   // null: off
    std::unique_ptr<ApiKeyFile> keys;  // null: callers need none
    Tracer* tracer = nullptr;          // null: no traces; outlives the router
    // How HTTP is served; empty: not at all. Its functions are the router's to set.
    std::optional<HttpServerOptions> http;
    std::vector<std::string> http_origins;  // whose pages may ask over HTTP
    MetricsRegistry* metrics = nullptr;     // outlives the router
    const base::Clock* clock = nullptr;     // likewise
  };
  // Listens and looks for workers. ALREADY_EXISTS when the port is in use.
  static absl::StatusOr<std::unique_ptr<Router>> Start(Parts parts);
  ~Router();

  std::string address() const { return server_->address(); }
  // Where HTTP is served; empty where it is not.
  std::string http_address() const { return http_ != nullptr ? http_->address() : ""; }
  std::optional<HttpFacts> http() const;
  // The admin port, whose page may ask over HTTP.
  void SetPagePort(int port) { origins_.SetPagePort(port); }
  // Whether the pages of a listed origin have that name; the header Host.
  bool Lists(std::string_view host) const { return origins_.Lists(host); }
  // OK while a healthy decode worker is known and no drain has begun, otherwise the reason.
  absl::Status ready() const;
  // The JSON of the page, with `state` as /readyz has it.
  std::string Status(const std::string& state);
  size_t in_flight() const { return registry_.size(); }
  // Texts that wait to be tokenized.
  size_t texts_waiting() const { return pool_.figures().waiting; }

  // Refuses new requests and sends clients away, lets requests in flight end until `timeout`, or
  // until `hurry`, which is asked ten times a second, says not to wait any longer; ends the rest
  // with DRAINED.
  void Drain(
      base::Duration timeout, const std::function<bool()>& hurry = [] { return false; });

 private:
  explicit Router(Parts parts);
  absl::Status StartHttp(HttpServerOptions options);
  absl::Status AcceptWorker(WorkerKind kind, const WorkerFacts& facts) const;
  void UpdateHealth();
  void WatchHealth();
  void TickFigures();

  const RouterOptions options_;
  const RpcServerOptions server_options_;
  const std::unique_ptr<ServedModel> model_;
  const std::unique_ptr<EosLog> eos_log_;
  const std::unique_ptr<ApiKeyFile> keys_;
  OriginRules origins_;
  const base::Clock* const clock_;
  const base::Instant started_ = clock_->Now();

  RouterProbe probe_;
  ByteBudget budget_;
  FlowRegistry registry_;
  base::TimerQueue timers_;
  std::shared_ptr<WorkerDirectory> directory_;
  Placer placer_;
  Admission admission_;
  GuideCompiler guides_;
  FlowContext context_;
  RequestIntake intake_;
  WorkPool pool_;  // its last work may still read the context, and arrive at the intake
  RouterService inference_;
  ModelServiceImpl models_;
  OpenAiFront openai_;
  std::unique_ptr<RpcServer> server_;
  std::unique_ptr<HttpServer> http_;  // null: off

  std::atomic<bool> draining_{false};
  std::atomic<bool> has_worker_{false};
  base::Mutex health_mutex_;
  bool serving_ ABSL_GUARDED_BY(health_mutex_) = false;
};

}  // namespace baton
