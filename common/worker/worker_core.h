#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "baton/worker/v1/generation.pb.h"
#include "common/base/clock.h"
#include "common/base/kv_shape.h"
#include "common/base/mutex.h"
#include "common/base/timer_queue.h"
#include "common/engine/engine.h"
#include "common/guide/guide_compiler.h"
#include "common/roles/prompt_load.h"
#include "common/roles/role_view.h"
#include "common/sched/place_shares.h"
#include "common/trace/tracer.h"
#include "common/transport/block_access.h"
#include "common/worker/elastic_role.h"
#include "common/worker/event_router.h"
#include "common/worker/timeouts.h"
#include "common/worker/worker_probe.h"

namespace baton {

// What a worker tells its peers about itself.
struct WorkerIdentity {
  WorkerRole role = WorkerRole::kDecode;
  bool elastic = false;  // it serves the other role, too, and takes new requests in one at a time
  uint64_t incarnation = 0;  // random, drawn at process start
  std::string model_fingerprint;
  std::string text_fingerprint;
  KvShape shape;
  std::string numerics;
  std::string compute_dtype;
  int32_t max_model_len = 0;
  int32_t vocab_size = 0;
  uint64_t probe_digest = 0;  // EosProbeDigest of the probe whose products it tells; 0 = none
  // Where prefill workers reach a decode worker (--advertise); empty means where the router dials
  // it.
  std::string push_address;
  bool tls = false;  // the certificates of peers are checked for their role
};

// A running stream of a request, which drain can end.
class LiveStream {
 public:
  virtual ~LiveStream() = default;
  // Ends the stream with `status` and frees what it holds. Has no effect on one that is ending.
  virtual void End(const absl::Status& status) = 0;
};

// What the services of one worker share: its identity, engine, timers and running streams.
// Thread-safe. Destroyed after the server that runs the services.
class WorkerCore final {
 public:
  // `engine`, `clock`, `probe` and `blocks` outlive the core. `on_fault` is called when the engine
  // stopped by itself.
  WorkerCore(WorkerIdentity identity, Engine* engine, const base::Clock* clock,
             const WorkerTimeouts& timeouts, WorkerProbe* probe,
             std::function<void(const absl::Status&)> on_fault,
             const BlockAccess* blocks = &HostBlocks());
  // Stops the engine.
  ~WorkerCore();

  const WorkerIdentity& identity() const { return identity_; }
  const WorkerTimeouts& timeouts() const { return timeouts_; }
  const base::Clock& clock() const { return *clock_; }
  Engine& engine() { return *engine_; }
  EventRouter& events() { return router_; }
  base::TimerQueue& timers() { return timers_; }
  WorkerProbe& probe() { return *probe_; }

  // Refuses a request made for another model, or with a longer id than any that a router lets pass.
  absl::Status CheckGeneration(const worker::v1::Generation& generation) const;
  // Refuses another model or layout, with both sides printed.
  absl::Status CheckFingerprint(const std::string& fingerprint) const;
  absl::Status CheckShape(const KvShape& shape) const;
  // Refuses the layout of a worker that this worker's blocks cannot be handed to.
  absl::Status CheckPeerShape(const KvShape& shape) const;

  // Counts `stream` among those that drain waits for and ends; UNAVAILABLE DRAINING once drain
  // began.
  absl::Status Join(const std::shared_ptr<LiveStream>& stream);
  void Leave(LiveStream* stream);

  // What routers are told about the ways that KV travels beside messages. Called once, before the
  // server starts. `warm_pairs` lists the decode workers that pairs lead to; it may be null.
  void SetHandoff(std::vector<std::string> transports,
                  std::function<std::vector<uint64_t>()> warm_pairs) {
    kv_transports_ = std::move(transports);
    warm_pairs_ = std::move(warm_pairs);
  }
  const std::vector<std::string>& kv_transports() const { return kv_transports_; }
  std::vector<uint64_t> warm_pairs() const {
    return warm_pairs_ ? warm_pairs_() : std::vector<uint64_t>();
  }

  // A router that watches this worker for a role, what it could use, and what it may have now of
  // what requests of the other role leave.
  RouterSeat JoinRouter(WorkerRole role);
  void SetDemand(const RouterSeat& router, const PlaceShares::Demand& demand);
  void LeaveRouter(const RouterSeat& router);
  PlaceShares::Share ShareOf(const RouterSeat& router, const EngineFigures& figures);

  // Lets an elastic worker change its role from now on. Called once, before the server starts.
  void BeginRoles(const RoleRuleOptions& options);
  // Null where the worker has one role.
  ElasticRole* elastic() const { return elastic_.get(); }
  // Whether its role lets it take new requests of `role` now.
  bool Takes(WorkerRole role) const { return elastic_ == nullptr || role == elastic_->role(); }
  // As WorkerLoad::prompt_load of the protocol says; 0 of a worker that only decodes.
  double PromptLoadOf(const EngineFigures& figures);
  // What a step may take, in seconds, where somebody asked for it; 0: nobody did. Set before the
  // server starts.
  void SetStepTarget(double seconds) { step_target_s_ = seconds; }
  double step_target_s() const { return step_target_s_; }

  // What is known of the ends of a class of requests behind `step`, before the engine sees its
  // token; nothing without a predictor, which is set before the server starts and outlives the
  // core.
  void SetPredictor(const EndPredictor* predictor) { predictor_ = predictor; }
  std::optional<EndEstimate> Foresee(std::string_view length_class, int32_t step,
                                     int32_t min_tokens) const {
    return predictor_ == nullptr ? std::nullopt
                                 : predictor_->Learnt(length_class, step, min_tokens);
  }

  // What makes masks of the guides of requests; null: such requests are refused. Set before the
  // server starts; outlives the engine.
  void SetGuides(GuideCompiler* guides) { guides_ = guides; }
  GuideCompiler* guides() const { return guides_; }

  // Null: no traces. Set before the server starts; outlives the core.
  void SetTracer(Tracer* tracer) { tracer_ = tracer; }
  Tracer* tracer() const { return tracer_; }

  // How the host reaches this worker's blocks.
  const BlockAccess& blocks() const { return *blocks_; }

  bool draining() const { return draining_; }
  // Refuses new streams and sequences from now on.
  void BeginDrain();
  // False when streams are left at `deadline`.
  bool WaitUntilIdle(base::Instant deadline);
  // Ends every stream with UNAVAILABLE DRAINED.
  void EndStreams();
  size_t streams() const;

 private:
  PlaceShares& SharesOf(WorkerRole role) ABSL_EXCLUSIVE_LOCKS_REQUIRED(shares_mutex_) {
    return role == WorkerRole::kPrefill ? prefill_shares_ : decode_shares_;
  }

  const WorkerIdentity identity_;
  Engine* const engine_;
  const base::Clock* const clock_;
  const WorkerTimeouts timeouts_;
  WorkerProbe* const probe_;
  base::TimerQueue timers_;
  base::Mutex shares_mutex_;
  PlaceShares prefill_shares_ ABSL_GUARDED_BY(shares_mutex_){LoanTurns::kSlow};
  PlaceShares decode_shares_ ABSL_GUARDED_BY(shares_mutex_){LoanTurns::kQuick};
  PromptLoad prompt_load_ ABSL_GUARDED_BY(shares_mutex_);
  std::shared_ptr<ElasticRole> elastic_;  // shared with its timer
  double step_target_s_ = 0;
  const BlockAccess* const blocks_;
  const EndPredictor* predictor_ = nullptr;
  GuideCompiler* guides_ = nullptr;
  Tracer* tracer_ = nullptr;
  std::vector<std::string> kv_transports_;
  std::function<std::vector<uint64_t>()> warm_pairs_;
  std::atomic<bool> draining_{false};
  mutable base::Mutex mutex_;
  base::CondVar left_;
  absl::flat_hash_map<LiveStream*, std::weak_ptr<LiveStream>> streams_ ABSL_GUARDED_BY(mutex_);
  EventRouter router_;  // last: its thread uses the others
};

}  // namespace baton
