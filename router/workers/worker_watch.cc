#include "router/workers/worker_watch.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/rpc/generation.h"
#include "common/rpc/protocol_version.h"

namespace baton {
namespace {

// Sums of two of them, and one more or less, stay within their types.
constexpr int32_t kMostCounted = (1 << 30) - 1;
constexpr int64_t kMostTokens = int64_t{1} << 48;

int32_t Counted(int32_t told) { return std::clamp(told, 0, kMostCounted); }

double Expected(double told) { return std::isfinite(told) ? std::max(0.0, told) : 0; }

// A step that takes longer is no step any more.
constexpr double kMostStepSeconds = 3600;
double StepSeconds(double told) { return std::min(Expected(told), kMostStepSeconds); }

void RoleToProto(const RoleView& role, worker::v1::RoleView* proto) {
  proto->set_workers(role.workers);
  proto->set_fixed(role.fixed);
  proto->set_lowest(role.lowest);
  proto->set_highest(role.highest);
  proto->set_queued_prompt_tokens(role.queued_prompt_tokens);
  proto->set_fill(role.fill);
}

void ClusterToProto(const ClusterView& cluster, worker::v1::Cluster* proto) {
  RoleToProto(cluster.prefill, proto->mutable_prefill());
  RoleToProto(cluster.decode, proto->mutable_decode());
  proto->set_waiting_prompt_tokens(cluster.waiting_prompt_tokens);
  proto->set_prompt_token_seconds(cluster.prompt_token_s);
  proto->set_prompt_load(cluster.prompt_load);
}

int32_t WholeMilliseconds(base::Duration duration) {
  return static_cast<int32_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(duration).count());
}

}  // namespace

std::shared_ptr<WorkerWatch> WorkerWatch::Open(std::shared_ptr<WorkerLink> link, const Wish& wish,
                                               Listener listener) {
  std::shared_ptr<WorkerWatch> watch(new WorkerWatch(std::move(link), std::move(listener)));
  watch->self_ = watch;
  watch->link_->status->async()->Watch(&watch->context_, watch.get());
  {
    base::MutexLock lock(&watch->mutex_);
    watch->request_.mutable_protocol()->set_major(kProtocolMajor);
    watch->request_.mutable_protocol()->set_minor(kProtocolMinor);
    watch->request_.set_min_interval_ms(WholeMilliseconds(wish.interval));
    watch->request_.set_want_cached(wish.cached);
    watch->request_.set_watched_role(watch->link_->kind == WorkerKind::kPrefill
                                         ? worker::v1::WORKER_ROLE_PREFILL
                                         : worker::v1::WORKER_ROLE_DECODE);
    watch->reading_ = watch->writing_ = true;
    watch->StartWrite(&watch->request_);
  }
  watch->StartRead(&watch->response_);
  watch->StartCall();
  return watch;
}

bool WorkerWatch::Tell(const Wish& wish) {
  base::MutexLock lock(&mutex_);
  if (writing_ || !reading_) return false;
  request_.Clear();
  worker::v1::Demand* const proto = request_.mutable_demand();
  proto->set_places_held(wish.demand.places_held);
  proto->set_places_wanted(wish.demand.places_wanted);
  proto->set_prompt_tokens_held(wish.demand.prompt_tokens_held);
  proto->set_prompt_tokens_wanted(wish.demand.prompt_tokens_wanted);
  request_.set_min_interval_ms(WholeMilliseconds(wish.interval));
  request_.set_want_cached(wish.cached);
  request_.set_cached_restarts(wish.cached_restarts);
  if (wish.cluster) ClusterToProto(*wish.cluster, request_.mutable_cluster());
  writing_ = true;
  StartWrite(&request_);
  return true;
}

void WorkerWatch::OnReadDone(bool ok) {
  if (!ok) {
    base::MutexLock lock(&mutex_);
    reading_ = false;
    return;
  }
  listener_.message(response_);
  StartRead(&response_);
}

void WorkerWatch::OnWriteDone(bool /*ok*/) {
  // A broken stream ends its read too.
  base::MutexLock lock(&mutex_);
  writing_ = false;
}

void WorkerWatch::OnDone(const grpc::Status& status) {
  const auto keep = std::move(self_);
  listener_.ended(status);
  listener_ = {};
}

WorkerFacts FactsFromProto(const worker::v1::WorkerIdentity& identity) {
  WorkerFacts facts{
      .incarnation = identity.incarnation(),
      .kinds = {},
      .fingerprint = identity.model_fingerprint(),
      .text_fingerprint = identity.text_fingerprint(),
      .layout = KvShapeFromProto(identity.layout()),
      .numerics = identity.numerics(),
      .compute_dtype = identity.compute_dtype(),
      .push_address = identity.push_address(),
      .protocol_major = identity.protocol().major(),
      .protocol_minor = identity.protocol().minor(),
      .max_model_len = std::max(0, identity.max_model_len()),
      .kv_transports = {identity.kv_transports().begin(), identity.kv_transports().end()}};
  std::vector<int> roles(identity.roles().begin(), identity.roles().end());
  if (roles.empty()) roles.push_back(identity.role());
  for (const int role : roles) {
    if (role == worker::v1::WORKER_ROLE_PREFILL) facts.kinds.insert(WorkerKind::kPrefill);
    if (role == worker::v1::WORKER_ROLE_DECODE) facts.kinds.insert(WorkerKind::kDecode);
  }
  return facts;
}

WorkerLoad LoadFromProto(const worker::v1::WatchResponse& response) {
  const worker::v1::WorkerLoad& load = response.load();
  WorkerLoad result{
      .takes_new = load.ready() && !load.draining(),
      .other_role = load.other_role() && !load.draining(),
      .prefill_places_free = Counted(load.prefill_places_free()),
      .queued_prompt_tokens = std::clamp<int64_t>(load.queued_prompt_tokens(), 0, kMostTokens),
      .blocks_total = Counted(load.blocks_total()),
      .blocks_in_use = Counted(load.blocks_used()) + Counted(load.blocks_quarantined()),
      .warm_pairs = {load.warm_pairs().begin(), load.warm_pairs().end()},
      .share = {},
      .draining = load.draining(),
      .running = Counted(load.running()),
      .waiting = Counted(load.waiting()),
      .foreseen = Counted(load.foreseen()),
      .expected_tokens = Expected(load.expected_tokens()),
      .expected_kv_tokens = Expected(load.expected_kv_tokens()),
      .prompt_times = {.step_s = StepSeconds(load.step_seconds()),
                       .token_s = StepSeconds(load.prompt_token_seconds()),
                       .step_tokens = Counted(load.step_prompt_tokens())},
      .fill = Expected(load.fill()),
      .prompt_load = Expected(load.prompt_load())};
  if (response.has_share()) {
    const int64_t tokens = response.share().prompt_tokens();
    result.share = WorkerShare{.places = Counted(response.share().places()),
                               .prompt_tokens = std::clamp<int64_t>(tokens, 0, kMostTokens)};
  }
  return result;
}

}  // namespace baton
