#include "router/router.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/http/local_host.h"
#include "common/rpc/protocol_version.h"
#include "common/rpc/server.h"
#include "router/openai/http_caller.h"
#include "router/openai/openai_error.h"

namespace baton {
namespace {

// A worker's status grows old without an event, so health is looked at again this often.
constexpr base::Duration kHealthEvery = std::chrono::milliseconds(250);
// The time for streams whose end the client has not taken yet.
constexpr std::chrono::milliseconds kShutdownGrace{1000};
// How often a drain asks whether it should end now.
constexpr base::Duration kHurryPoll = std::chrono::milliseconds(100);

const std::vector<std::string>& ServiceNames() {
  static const auto& names = *new std::vector<std::string>{
      "", v1::InferenceService::service_full_name(), v1::ModelService::service_full_name()};
  return names;
}

DirectoryOptions DirectoryOptionsOf(const RouterOptions& options, const RpcServerOptions& server) {
  return {.prefill_targets = options.prefill_workers,
          .decode_targets = options.decode_workers,
          .tls = server.tls,
          .deadlines = options.deadlines,
          .cached = options.looks_at_caches(),
          .accept = nullptr};
}

CallerRules CallersOf(const RouterOptions& options, const RpcServerOptions& server,
                      const ApiKeyFile* keys) {
  return {.tls = server.tls.enabled(),
          .certificates = server.client_certificates,
          .trust_header = options.trust_tenant_header,
          .keys = keys};
}

// Messages are counted once they are there, so gRPC has room for as many more on their way. The
// budget refuses one request with its reason; gRPC, at its own bound, resets any of them.
RpcServerOptions WithRoomForBytes(RpcServerOptions server, int64_t max_inflight_bytes) {
  server.receive_bytes = 2 * max_inflight_bytes + (int64_t{64} << 20);
  return server;
}

}  // namespace

Router::Router(Parts parts)
    : options_(std::move(parts.options)),
      server_options_(WithRoomForBytes(std::move(parts.server), options_.max_inflight_bytes)),
      model_(std::move(parts.model)),
      eos_log_(std::move(parts.eos_log)),
      keys_(std::move(parts.keys)),
      origins_(std::move(parts.http_origins)),
      clock_(parts.clock),
      probe_(parts.metrics),
      budget_(static_cast<size_t>(options_.max_inflight_bytes)),
      timers_(clock_),
      directory_([this] {
        DirectoryOptions directory = DirectoryOptionsOf(options_, server_options_);
        directory.accept = [this](WorkerKind kind, const WorkerFacts& facts) {
          return AcceptWorker(kind, facts);
        };
        return WorkerDirectory::Create(std::move(directory), clock_, &timers_);
      }()),
      placer_(options_, directory_.get(), &probe_, clock_),
      admission_(options_, &placer_, directory_.get(), clock_,
                 [this] { return eos_log_ != nullptr && eos_log_->Congested(); }),
      guides_(std::shared_ptr<const Tokenizer>(std::shared_ptr<void>(), model_->tokenizer.get()),
              {.width = model_->config.vocab,
               .eos_ids = model_->eos_ids(),
               .compile_threads = 0,
               .mask_threads = 0}),
      context_{.options = options_,
               .model = *model_,
               .clock = clock_,
               .directory = directory_.get(),
               .placer = &placer_,
               .admission = &admission_,
               .timers = &timers_,
               .pool = &pool_,
               .budget = &budget_,
               .probe = &probe_,
               .registry = &registry_,
               .eos_log = eos_log_.get(),
               .tracer = parts.tracer,
               .guides = &guides_},
      intake_(&context_),
      pool_(options_.text_threads > 0 ? options_.text_threads : WorkPool::DefaultThreads(),
            {.pieces = static_cast<size_t>(options_.max_num_queued_reqs),
             .bytes = static_cast<size_t>(options_.text_queue_bytes)}),
      inference_(&context_, CallersOf(options_, server_options_, keys_.get()), &intake_),
      models_(*model_, directory_.get(), CallersOf(options_, server_options_, keys_.get())),
      openai_(&context_, CallersOf(options_, server_options_, keys_.get()), &intake_,
              [this] { return ready(); }) {
  probe_.WatchWorkers(directory_.get());
  probe_.WatchBytes(&budget_);
  probe_.WatchTexts(&pool_);
  probe_.WatchQueue([this] { return admission_.OldestWait(); });
  probe_.WatchTenants(options_.tenants, [this](const auto& see) { admission_.EachTenant(see); });
  if (eos_log_ != nullptr) probe_.WatchEosLog(eos_log_.get());
  if (keys_ != nullptr) probe_.WatchKeys(keys_.get());
}

absl::StatusOr<std::unique_ptr<Router>> Router::Start(Parts parts) {
  if (parts.options.decode_workers.empty()) {
    return absl::InvalidArgumentError(
        "no decode workers; name them with --decode-workers host:port,…");
  }
  std::optional<HttpServerOptions> http = std::move(parts.http);
  std::unique_ptr<Router> router(new Router(std::move(parts)));
  BATON_ASSIGN_OR_RETURN(
      router->server_,
      RpcServer::Start(router->server_options_, {&router->inference_, &router->models_}));
  router->server_->SetServing(ServiceNames(), false);
  if (http) BATON_RETURN_IF_ERROR(router->StartHttp(*std::move(http)));
  router->directory_->Start([router = router.get()] {
    router->admission_.Wake();
    router->UpdateHealth();
  });
  router->WatchHealth();
  router->TickFigures();
  LogLoadEvery(router->options_.log_stats_interval, router->clock_, &router->timers_,
               [probe = &router->probe_] { return probe->Load(); });
  return router;
}

absl::Status Router::StartHttp(HttpServerOptions options) {
  options.clock = clock_;
  options.limits.slow_client = options_.deadlines.slow_client;
  options.limits.write_buffer_bytes = static_cast<size_t>(options_.client_buffer);
  options.limits.receiving_bytes = static_cast<size_t>(options_.max_inflight_bytes);
  options.allow_origin = [this](const std::string& origin, const std::string& host) {
    return origins_.Allows(origin, host);
  };
  // There a stranger can only be a page whose name was made to mean this machine.
  if (!options.tls.enabled() && keys_ == nullptr && IsLoopback(options.host)) {
    options.refuse_host = [this](const std::string& host) -> std::optional<std::string> {
      if (IsLocalHostName(host) || Lists(host)) return std::nullopt;
      return HostRefusal(host,
                         ", list http://NAME in --http-allow-origins, or demand keys (--api-keys)");
    };
  }
  options.admit = [this](const HttpRequest& head, std::optional<size_t> body_bytes) {
    return openai_.Admit(head, body_bytes);
  };
  options.client_of =
      [callers = CallersOf(options_, server_options_, keys_.get())](const HttpRequest& head) {
        const absl::StatusOr<Caller> caller = CallerOf(head, callers);
        return caller.ok() ? caller->client : std::string();  // whom `admit` has refused
      };
  options.error_reply = [](int status, std::string_view message) {
    return OpenAiErrorReply(status, message);
  };
  BATON_ASSIGN_OR_RETURN(
      http_, HttpServer::Start(std::move(options), [this](std::shared_ptr<HttpExchange> exchange) {
        openai_.Handle(std::move(exchange));
      }));
  probe_.WatchHttp(http_.get());
  return absl::OkStatus();
}

Router::~Router() {
  Drain(base::Duration::zero());
  directory_->Stop();
  if (http_ != nullptr) http_->Shutdown(kShutdownGrace);
  if (server_ != nullptr) server_->Shutdown(kShutdownGrace);
  timers_.Stop();
}

absl::Status Router::AcceptWorker(WorkerKind kind, const WorkerFacts& facts) const {
  if (facts.protocol_major != kProtocolMajor) {
    return absl::FailedPreconditionError(absl::StrCat("it speaks protocol ", facts.protocol_major,
                                                      ", this router ", kProtocolMajor,
                                                      "; run the same release"));
  }
  const ModelConfig& config = model_->config;
  const KvShape& layout = facts.layout;
  if (layout.layers != config.layers || layout.head_dim != config.head_dim ||
      layout.kv_heads != config.kv_heads) {
    return absl::FailedPreconditionError(absl::StrCat(
        "it serves another model: ", layout.Describe(), "; expected layers ", config.layers,
        " kv_heads ", config.kv_heads, " head_dim ", config.head_dim, " of ", model_->name));
  }
  if (!facts.kinds.contains(kind)) {
    const std::string wanted(WorkerKindName(kind));
    const std::string found(kind == WorkerKind::kDecode ? "prefill" : "decode");
    return absl::FailedPreconditionError(
        absl::StrCat("it serves ", facts.kinds.empty() ? "nothing known here" : found, ", not ",
                     wanted, "; correct --", wanted, "-workers"));
  }
  if (!facts.text_fingerprint.empty() && facts.text_fingerprint != model_->text_fingerprint) {
    return absl::FailedPreconditionError(absl::StrCat(
        "its tokenizer, vocabulary or EOS ids differ: text fingerprint ", facts.text_fingerprint,
        ", this router has ", model_->text_fingerprint, "; give both the same model directory"));
  }
  return absl::OkStatus();
}

absl::Status Router::ready() const {
  if (draining_) return absl::UnavailableError("draining");
  if (!has_worker_) return absl::UnavailableError("no healthy decode worker");
  return absl::OkStatus();
}

void Router::UpdateHealth() {
  has_worker_ = !directory_->NoDecodeSince().has_value();
  base::MutexLock lock(&health_mutex_);
  const bool serving = has_worker_ && !draining_;
  if (serving == serving_) return;
  serving_ = serving;
  server_->SetServing(ServiceNames(), serving);
}

void Router::WatchHealth() {
  timers_.At(clock_->Now() + kHealthEvery, [this] {
    UpdateHealth();
    WatchHealth();
  });
}

void Router::TickFigures() {
  timers_.At(clock_->Now() + RecentFigures::kEvery, [this] {
    probe_.recent().Tick();
    TickFigures();
  });
}

std::optional<HttpFacts> Router::http() const {
  if (http_ == nullptr) return std::nullopt;
  return HttpFacts{
      .port = http_->port(), .tls = server_options_.tls.enabled(), .keys = keys_ != nullptr};
}

std::string Router::Status(const std::string& state) {
  const LoadTotals load = probe_.Load();
  return StatusJson({.model = model_->name,
                     .state = state,
                     .uptime_s = base::Seconds(clock_->Now() - started_),
                     .http = http(),
                     .workers = directory_->Report(),
                     .requests = registry_.Reports(),
                     .eos = probe_.eos().Get(),
                     .answered = load.requests->answered,
                     .failed = load.requests->failed,
                     .recent = probe_.recent().Points()});
}

void Router::Drain(base::Duration timeout, const std::function<bool()>& hurry) {
  draining_ = true;
  intake_.Drain();
  if (server_ != nullptr) {
    // Who watches health or readiness hears of it before connections are told to go.
    UpdateHealth();
    server_->BeginShutdown();
    if (http_ != nullptr) http_->BeginShutdown();
  }
  const base::Instant deadline = clock_->Now() + timeout;
  while (!registry_.WaitEmpty(std::min(deadline, clock_->Now() + kHurryPoll))) {
    if (clock_->Now() >= deadline || hurry()) break;
  }
  if (registry_.size() == 0) return;
  for (const auto& request : registry_.All()) request->EndByDrain();
  // Each ends in its next event, which is this one.
  registry_.WaitEmpty(clock_->Now() + std::chrono::seconds(5));
}

}  // namespace baton
