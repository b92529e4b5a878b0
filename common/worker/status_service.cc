#include "common/worker/status_service.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include "baton/worker/v1/status.grpc.pb.h"
#include "common/base/status.h"
#include "common/rpc/credentials.h"
#include "common/rpc/generation.h"
#include "common/rpc/prefix_report_proto.h"
#include "common/rpc/protocol_version.h"
#include "common/rpc/status_map.h"
#include "common/worker/watch_request.h"

namespace baton {
namespace {

worker_pb::WorkerRole RoleToProto(WorkerRole role) {
  return role == WorkerRole::kPrefill ? worker_pb::WORKER_ROLE_PREFILL
                                      : worker_pb::WORKER_ROLE_DECODE;
}

std::optional<WorkerRole> RoleFromProto(worker_pb::WorkerRole role) {
  if (role == worker_pb::WORKER_ROLE_PREFILL) return WorkerRole::kPrefill;
  if (role == worker_pb::WORKER_ROLE_DECODE) return WorkerRole::kDecode;
  return std::nullopt;
}

worker_pb::WorkerIdentity IdentityToProto(const WorkerCore& core) {
  const WorkerIdentity& identity = core.identity();
  worker_pb::WorkerIdentity proto;
  proto.set_role(RoleToProto(identity.role));
  proto.add_roles(proto.role());
  if (identity.elastic) proto.add_roles(RoleToProto(OtherRole(identity.role)));
  proto.set_incarnation(identity.incarnation);
  proto.mutable_protocol()->set_major(kProtocolMajor);
  proto.mutable_protocol()->set_minor(kProtocolMinor);
  proto.set_model_fingerprint(identity.model_fingerprint);
  proto.set_text_fingerprint(identity.text_fingerprint);
  KvShapeToProto(identity.shape, proto.mutable_layout());
  proto.set_numerics(identity.numerics);
  proto.set_max_model_len(identity.max_model_len);
  proto.set_push_address(identity.push_address);
  proto.set_compute_dtype(identity.compute_dtype);
  for (const std::string& way : core.kv_transports()) proto.add_kv_transports(way);
  return proto;
}

double FillOfWorker(const WorkerCore& core, const EngineFigures& figures) {
  // In thousandths, so that it comes to rest.
  return std::round(1000 * FillOf(DecodeWork{
                               .sequences = figures.seats_asked,
                               .seats = figures.seats,
                               .blocks_used = figures.blocks_used + figures.blocks_quarantined,
                               .blocks_total = figures.blocks_total,
                               .block_size = core.identity().shape.block_size,
                               .expected_tokens = figures.expected_tokens,
                               .step_s = figures.step_s,
                               .target_s = core.step_target_s()})) /
         1000;
}

// Whether the worker takes new requests, and if not, whether only because its role is the other
// one. Whoever does not say for which role he watches is told of both as one.
struct Readiness {
  bool ready = false, other_role = false;
  friend bool operator==(const Readiness&, const Readiness&) = default;
};
Readiness ReadinessOf(const WorkerCore& core, std::optional<WorkerRole> watched, bool healthy) {
  const bool up = healthy && !core.draining();
  const bool takes = !watched || core.Takes(*watched);
  return {.ready = up && takes, .other_role = up && !takes};
}

worker_pb::WorkerLoad LoadOf(WorkerCore* core, std::optional<WorkerRole> watched,
                             const EngineFigures& figures) {
  worker_pb::WorkerLoad load;
  const Readiness readiness = ReadinessOf(*core, watched, figures.healthy);
  load.set_ready(readiness.ready);
  load.set_other_role(readiness.other_role);
  load.set_draining(core->draining());
  load.set_running(figures.running);
  load.set_waiting(figures.waiting);
  load.set_reserved(figures.reserved);
  load.set_queued_prompt_tokens(figures.queued_prompt_tokens);
  load.set_prefill_places_free(figures.prefill_places_free);
  load.set_blocks_total(figures.blocks_total);
  load.set_blocks_free(figures.blocks_free);
  load.set_blocks_cached(figures.blocks_cached);
  load.set_blocks_used(figures.blocks_used);
  load.set_blocks_quarantined(figures.blocks_quarantined);
  for (const uint64_t incarnation : core->warm_pairs()) load.add_warm_pairs(incarnation);
  load.set_foreseen(figures.foreseen);
  load.set_expected_tokens(figures.expected_tokens);
  load.set_expected_kv_tokens(figures.expected_kv_tokens);
  load.set_expected_ends(figures.expected_ends);
  load.set_step_seconds(figures.step_s);
  load.set_prompt_token_seconds(figures.prompt_token_s);
  load.set_step_prompt_tokens(figures.step_prompt_tokens);
  load.set_fill(FillOfWorker(*core, figures));
  load.set_prompt_load(core->PromptLoadOf(figures));
  return load;
}

absl::Status CheckProtocol(const worker_pb::WatchRequest& request) {
  const int32_t major = request.protocol().major();
  if (major == kProtocolMajor) return absl::OkStatus();
  return absl::FailedPreconditionError("the router speaks protocol " + std::to_string(major) +
                                       ", this worker " + std::to_string(kProtocolMajor) +
                                       "; run the same major version of both");
}

// How long a router may take to say who it is.
constexpr base::Duration kIntroduction = std::chrono::seconds(10);

// One router's Watch. A tick that finds the last write still on its way is skipped, so a slow
// router gets fewer messages, never a queue; so is one within the interval that the router asked
// for, unless it is to hear that the worker takes new requests or no longer does. Keeps itself
// alive until OnDone; ticks hold weak references.
class WatchReactor final
    : public grpc::ServerBidiReactor<worker_pb::WatchRequest, worker_pb::WatchResponse>,
      public std::enable_shared_from_this<WatchReactor> {
 public:
  explicit WatchReactor(WorkerCore* core) : core_(core), opened_at_(core->clock().Now()) {}

  void Start(const absl::Status& allowed) {
    self_ = shared_from_this();
    if (!allowed.ok()) return End(allowed);
    StartRead(&request_);
    Schedule();
  }

  void OnReadDone(bool ok) override {
    if (!ok) {
      // A router that says nothing more still listens; one that vanished is a cancel.
      if (!introduced_) End(absl::InvalidArgumentError("the stream ended before `protocol`"));
      return;
    }
    SetInterval(std::chrono::milliseconds(request_.min_interval_ms()));
    SetWantCached(request_.want_cached(), request_.cached_restarts());
    if (!std::exchange(introduced_, true)) {
      const absl::Status allowed = CheckProtocol(request_);
      if (!allowed.ok()) return End(allowed);
      if (!Introduce()) return;
    }
    if (request_.has_demand()) core_->SetDemand(router_, DemandFromProto(request_.demand()));
    base::MutexLock lock(&mutex_);
    if (finished_) return;
    // Under the lock, so that nothing is heard behind the end, which makes it forgotten.
    if (core_->elastic() != nullptr) HearOfOthers(core_->elastic());
    if (request_.has_demand()) WriteIfDue();
    StartRead(&request_);
  }
  void OnWriteDone(bool ok) override {
    if (!ok) return End(absl::CancelledError("the router is gone"));
    base::MutexLock lock(&mutex_);
    writing_ = false;
  }
  void OnCancel() override { End(absl::CancelledError("the router is gone")); }
  void OnDone() override { self_.reset(); }

 private:
  // The router said who it is. False where the stream has ended meanwhile.
  bool Introduce() {
    base::MutexLock lock(&mutex_);
    if (finished_) return false;
    if (core_->elastic() != nullptr) watched_ = RoleFromProto(request_.watched_role());
    router_ = core_->JoinRouter(watched_.value_or(core_->identity().role));
    *response_.mutable_identity() = IdentityToProto(*core_);
    Write(Say());
    return true;
  }

  // A router that no longer says what it sees is left out, as if it never had.
  void HearOfOthers(ElasticRole* elastic) {
    if (!request_.has_cluster()) return elastic->Forget(router_);
    elastic->Hear(router_, ClusterFromProto(request_.cluster()));
  }

  void Schedule() {
    core_->timers().After(core_->timeouts().status_min, [weak = weak_from_this()] {
      if (auto reactor = weak.lock()) reactor->Tick();
    });
  }

  void Tick() {
    bool silent = false;
    {
      base::MutexLock lock(&mutex_);
      if (finished_) return;
      silent = !identity_sent_ && core_->clock().Now() - opened_at_ > kIntroduction;
      WriteIfDue();
    }
    if (silent) return End(absl::DeadlineExceededError("no `protocol` came on this stream"));
    Schedule();
  }

  void SetInterval(base::Duration least) {
    base::MutexLock lock(&mutex_);
    min_interval_ = std::clamp(least, base::Duration(), core_->timeouts().status_max);
  }

  void SetWantCached(bool want, int32_t restarts) {
    base::MutexLock lock(&mutex_);
    want_cached_ = want;
    if (!want || std::exchange(cached_restarts_, restarts) != restarts) cached_told_ = 0;
  }

  // What the router is told now, without the identity.
  worker_pb::WatchResponse Say() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const EngineFigures figures = core_->engine().figures();
    const PlaceShares::Share share = core_->ShareOf(router_, figures);
    worker_pb::WatchResponse response;
    *response.mutable_load() = LoadOf(core_, watched_, figures);
    response.mutable_share()->set_places(static_cast<int32_t>(share.places));
    response.mutable_share()->set_prompt_tokens(share.prompt_tokens);
    if (!want_cached_) return response;
    const PrefixReport cached = core_->engine().CachedSince(cached_told_);
    if (!cached.empty()) PrefixReportToProto(cached, response.mutable_cached());
    return response;
  }

  void WriteIfDue() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (writing_ || finished_ || !identity_sent_) return;
    const base::Duration silent = core_->clock().Now() - sent_at_;
    if (silent < min_interval_ && !TurnedOver()) return;
    worker_pb::WatchResponse response = Say();
    const bool due = silent >= core_->timeouts().status_max;
    if (due || response.SerializeAsString() != sent_) Write(std::move(response));
  }

  // Whether the worker began or ceased to take new requests since the last message.
  bool TurnedOver() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const worker_pb::WorkerLoad& told = response_.load();
    const Readiness now = ReadinessOf(*core_, watched_, core_->engine().figures().healthy);
    return now != Readiness{told.ready(), told.other_role()} ||
           core_->draining() != told.draining();
  }

  void Write(worker_pb::WatchResponse response) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (finished_) return;
    if (response.has_cached()) cached_told_ = response.cached().version();
    sent_ = response.SerializeAsString();
    sent_at_ = core_->clock().Now();
    if (!std::exchange(identity_sent_, true))
      response.mutable_identity()->Swap(response_.mutable_identity());
    response_ = std::move(response);
    writing_ = true;
    StartWrite(&response_);
  }

  void End(const absl::Status& status) {
    RouterSeat left;
    {
      base::MutexLock lock(&mutex_);
      if (std::exchange(finished_, true)) return;
      left = router_;
      Finish(ToGrpcStatus(status));
    }
    core_->LeaveRouter(left);
  }

  WorkerCore* const core_;
  const base::Instant opened_at_;
  std::shared_ptr<WatchReactor> self_;  // until OnDone
  // Set by the reader when the router introduces itself, under the lock; then constant.
  RouterSeat router_;
  // Of an elastic worker; empty: the router did not say.
  std::optional<WorkerRole> watched_;
  // These two belong to the reader.
  worker_pb::WatchRequest request_;
  bool introduced_ = false;
  base::Mutex mutex_;
  worker_pb::WatchResponse response_ ABSL_GUARDED_BY(mutex_);
  std::string sent_ ABSL_GUARDED_BY(mutex_);  // the last message, serialised
  base::Instant sent_at_ ABSL_GUARDED_BY(mutex_){};
  base::Duration min_interval_ ABSL_GUARDED_BY(mutex_){};
  bool want_cached_ ABSL_GUARDED_BY(mutex_) = false;
  int32_t cached_restarts_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t cached_told_ ABSL_GUARDED_BY(mutex_) = 0;  // the version that the router knows
  bool identity_sent_ ABSL_GUARDED_BY(mutex_) = false;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
};

class StatusServiceImpl final : public worker_pb::StatusService::CallbackService {
 public:
  explicit StatusServiceImpl(WorkerCore* core) : core_(core) {}

  grpc::ServerBidiReactor<worker_pb::WatchRequest, worker_pb::WatchResponse>* Watch(
      grpc::CallbackServerContext* context) override {
    auto reactor = std::make_shared<WatchReactor>(core_);
    reactor->Start(CheckPeerRole(context->auth_context().get(), core_->identity().tls, "router"));
    return reactor.get();
  }

 private:
  WorkerCore* const core_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeStatusService(WorkerCore* core) {
  return std::make_unique<StatusServiceImpl>(core);
}

}  // namespace baton
