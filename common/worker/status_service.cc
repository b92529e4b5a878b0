#include "common/worker/status_service.h"

#include <string>
#include <utility>

#include "baton/worker/v1/status.grpc.pb.h"
#include "common/base/status.h"
#include "common/rpc/credentials.h"
#include "common/rpc/generation.h"
#include "common/rpc/protocol_version.h"
#include "common/rpc/status_map.h"

namespace baton {
namespace {

worker_pb::WorkerIdentity IdentityToProto(const WorkerCore& core) {
  const WorkerIdentity& identity = core.identity();
  worker_pb::WorkerIdentity proto;
  proto.set_role(identity.role == WorkerRole::kPrefill ? worker_pb::WORKER_ROLE_PREFILL
                                                       : worker_pb::WORKER_ROLE_DECODE);
  proto.add_roles(proto.role());
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

worker_pb::WorkerLoad LoadOf(WorkerCore* core) {
  const EngineFigures figures = core->engine().figures();
  worker_pb::WorkerLoad load;
  load.set_ready(figures.healthy && !core->draining());
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
  return load;
}

absl::Status CheckProtocol(const worker_pb::WatchRequest& request) {
  const int32_t major = request.protocol().major();
  if (major == kProtocolMajor) return absl::OkStatus();
  return absl::FailedPreconditionError("the router speaks protocol " + std::to_string(major) +
                                       ", this worker " + std::to_string(kProtocolMajor) +
                                       "; run the same major version of both");
}

// One router's Watch. A tick that finds the last write still on its way is skipped, so a slow
// router gets fewer messages, never a queue. Keeps itself alive until OnDone; ticks hold weak
// references.
class WatchReactor final : public grpc::ServerWriteReactor<worker_pb::WatchResponse>,
                           public std::enable_shared_from_this<WatchReactor> {
 public:
  explicit WatchReactor(WorkerCore* core) : core_(core) {}

  void Start(const absl::Status& allowed) {
    self_ = shared_from_this();
    if (!allowed.ok()) return End(allowed);
    {
      base::MutexLock lock(&mutex_);
      *response_.mutable_identity() = IdentityToProto(*core_);
      Write(LoadOf(core_));
    }
    Schedule();
  }

  void OnWriteDone(bool ok) override {
    if (!ok) return End(absl::CancelledError("the router is gone"));
    base::MutexLock lock(&mutex_);
    writing_ = false;
  }
  void OnCancel() override { End(absl::CancelledError("the router is gone")); }
  void OnDone() override { self_.reset(); }

 private:
  void Schedule() {
    core_->timers().After(core_->timeouts().status_min, [weak = weak_from_this()] {
      if (auto reactor = weak.lock()) reactor->Tick();
    });
  }

  void Tick() {
    {
      base::MutexLock lock(&mutex_);
      if (finished_) return;
      worker_pb::WorkerLoad load = LoadOf(core_);
      const bool due = core_->clock().Now() - sent_at_ >= core_->timeouts().status_max;
      if (!writing_ && (due || load.SerializeAsString() != sent_)) Write(std::move(load));
    }
    Schedule();
  }

  void Write(worker_pb::WorkerLoad load) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    sent_ = load.SerializeAsString();
    sent_at_ = core_->clock().Now();
    if (identity_sent_) response_.clear_identity();
    identity_sent_ = true;
    *response_.mutable_load() = std::move(load);
    writing_ = true;
    StartWrite(&response_);
  }

  void End(const absl::Status& status) {
    base::MutexLock lock(&mutex_);
    if (std::exchange(finished_, true)) return;
    Finish(ToGrpcStatus(status));
  }

  WorkerCore* const core_;
  std::shared_ptr<WatchReactor> self_;  // until OnDone
  base::Mutex mutex_;
  worker_pb::WatchResponse response_ ABSL_GUARDED_BY(mutex_);
  std::string sent_ ABSL_GUARDED_BY(mutex_);  // the last load, serialised
  base::Instant sent_at_ ABSL_GUARDED_BY(mutex_){};
  bool identity_sent_ ABSL_GUARDED_BY(mutex_) = false;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
};

class StatusServiceImpl final : public worker_pb::StatusService::CallbackService {
 public:
  explicit StatusServiceImpl(WorkerCore* core) : core_(core) {}

  grpc::ServerWriteReactor<worker_pb::WatchResponse>* Watch(
      grpc::CallbackServerContext* context, const worker_pb::WatchRequest* request) override {
    auto reactor = std::make_shared<WatchReactor>(core_);
    absl::Status allowed =
        CheckPeerRole(context->auth_context().get(), core_->identity().tls, "router");
    if (allowed.ok()) allowed = CheckProtocol(*request);
    reactor->Start(allowed);
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
