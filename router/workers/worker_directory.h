#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/base/timer_queue.h"
#include "common/rpc/tls.h"
#include "router/router_options.h"
#include "router/workers/address_resolver.h"
#include "router/workers/failed_pairs.h"
#include "router/workers/prefix_hints.h"
#include "router/workers/target_resolver.h"
#include "router/workers/unpaired_shapes.h"
#include "router/workers/worker_connections.h"
#include "router/workers/worker_news.h"
#include "router/workers/worker_table.h"

namespace baton {

class WorkerDirectory;

// What an attempt of this router has at a worker. It is given back with this object.
class WorkerHold final {
 public:
  WorkerHold(std::weak_ptr<WorkerDirectory> directory, WorkerKind kind, WorkerKey key,
             const WorkerClaim& claim)
      : directory_(std::move(directory)), kind_(kind), key_(std::move(key)), claim_(claim) {}
  ~WorkerHold();
  WorkerHold(const WorkerHold&) = delete;
  WorkerHold& operator=(const WorkerHold&) = delete;

  // The prompt is computed.
  void PrefillDone();

 private:
  const std::weak_ptr<WorkerDirectory> directory_;
  const WorkerKind kind_;
  const WorkerKey key_;
  const WorkerClaim claim_;
  bool prompt_done_ = false;
};

struct DirectoryOptions {
  std::vector<std::string> prefill_targets;
  std::vector<std::string> decode_targets;
  TlsOptions tls;
  RouterDeadlines deadlines;
  bool cached = false;  // workers are asked what their prefix caches hold
  // Refuses a worker that does not serve this router's model, or not as what its list says; the
  // message says what was found.
  std::function<absl::Status(WorkerKind, const WorkerFacts&)> accept;
  TargetResolver::Lookup lookup = ResolveTarget;  // of names
};

// What the router tells about its workers, for metrics and logs.
struct WorkerReport {
  std::string address;
  WorkerKind kind = WorkerKind::kDecode;
  bool healthy = false;
  bool other_role = false;  // it would be healthy, but takes requests of its other role now
  WorkerLoad load = {};     // as it said last
};

// What this router knows of its workers, behind one lock: who they are and how they are and what it
// has there (WorkerTable), which pairs failed, and what their prefix caches may hold. Its news come
// from the WorkerConnections, which it starts and stops. Thread-safe.
class WorkerDirectory final : public WorkerNews,
                              public std::enable_shared_from_this<WorkerDirectory> {
 public:
  static std::shared_ptr<WorkerDirectory> Create(DirectoryOptions options, const base::Clock* clock,
                                                 base::TimerQueue* timers);
  ~WorkerDirectory() override;

  // Workers that are listed by IP address are known when it returns; names are looked up in the
  // background. `on_change` is called from gRPC and timer threads whenever a placement that failed
  // might succeed, or health changed.
  void Start(std::function<void()> on_change);
  // No callback runs after it.
  void Stop();

  // What a placement looks at and changes, under the directory's lock, which statuses of workers
  // and ends of attempts wait for: `use` should be short, and must not call back.
  struct Tables {
    WorkerTable& workers;
    const PairSet& failed_pairs;
    base::Instant now;
  };
  void Use(const std::function<void(const Tables&)>& use);
  // Notes in `tables` what an attempt takes of a worker, until the hold ends.
  std::unique_ptr<WorkerHold> Hold(const Tables& tables, WorkerKind kind, const WorkerView& view,
                                   const WorkerClaim& claim);
  // Tells workers what this router could use while `requests` with `tokens` in all wait. Cheap when
  // called often: each worker hears of it now and then, if it changed.
  void TellDemand(int64_t requests, int64_t tokens);

  // When the last decode worker ceased to be healthy; empty while one is.
  std::optional<base::Instant> NoDecodeSince();
  // Whether that very process still answers its Watch; and whether it said something lately.
  bool IsAlive(const WorkerKey& key) const;
  bool IsFresh(const WorkerKey& key) const;
  std::vector<WorkerReport> Report() const;
  // How many tokens of prompt and output the largest decode worker takes: of the healthy ones, and
  // of all that are listed and were seen. 0 when there is none.
  int32_t HealthyContext();
  int32_t KnownContext() const;
  // Likewise, the tokens of the largest pool of KV blocks.
  int32_t HealthyPool();
  int32_t KnownPool() const;
  // How many tokens a block of the healthy decode workers holds, where they differ the smallest.
  int32_t BlockTokens();
  const PrefixHints& prefix_hints() const { return prefix_hints_; }

  // The worker answered FULL, and gets nothing new for a moment.
  void MarkFull(const WorkerKey& key);
  // A stream to the worker broke, and it gets nothing new until it speaks again.
  void MarkSuspect(const WorkerKey& key);
  void MarkFailedPair(const std::string& prefill, const std::string& decode);
  // The worker has the KV cache of `prefix`; forgotten when that process goes.
  void MarkHeld(const WorkerKey& key, const PrefixChain& prefix);
  // The worker was chosen to compute `prefix`, or to be given it.
  void WillHold(const WorkerKey& key, const PrefixChain& prefix);
  // So many tokens of a KV cache came to a decode worker so long after the prompt was computed.
  void MarkHandedOver(int64_t tokens, base::Duration took);
  // The worker did not have what it was believed to have.
  void MarkNotHeld(const WorkerKey& key);

 private:
  friend class WorkerHold;

  WorkerDirectory(DirectoryOptions options, const base::Clock* clock, base::TimerQueue* timers);

  // WorkerNews
  void Added(WorkerKind kind, const std::string& address,
             std::shared_ptr<WorkerLink> link) override;
  void Removed(WorkerKind kind, const std::string& address) override;
  void Listed(WorkerKind kind, const std::string& address, bool listed) override;
  void Introduced(WorkerKind kind, const std::string& address, const WorkerFacts& facts) override;
  void Said(WorkerKind kind, const std::string& address, WorkerLoad load) override;
  bool Cached(const WorkerKey& process, const PrefixReport& report) override;
  void Lost(WorkerKind kind, const WorkerKey& process) override;
  WorkerDemand DemandOf(WorkerKind kind, const std::string& address) override;
  std::optional<ClusterView> ClusterFor(const WorkerKey& process) override;
  void Changed() override;

  const DirectoryOptions options_;
  const base::Clock* const clock_;
  base::TimerQueue* const timers_;

  mutable base::Mutex mutex_;
  WorkerTable table_ ABSL_GUARDED_BY(mutex_);
  FailedPairs failed_pairs_ ABSL_GUARDED_BY(mutex_);
  PrefixHints prefix_hints_;  // of processes that speak to us only
  std::optional<base::Instant> no_decode_since_ ABSL_GUARDED_BY(mutex_);
  int64_t waiting_requests_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t waiting_tokens_ ABSL_GUARDED_BY(mutex_) = 0;
  // What workers of a model are told of all of them: made anew now and then, not for each of them.
  std::map<std::string, ClusterView> clusters_ ABSL_GUARDED_BY(mutex_);
  base::Instant clusters_at_ ABSL_GUARDED_BY(mutex_){};
  UnpairedShapes unpaired_ ABSL_GUARDED_BY(mutex_);

  base::Mutex callback_mutex_;  // held while on_change_ runs
  std::function<void()> on_change_ ABSL_GUARDED_BY(callback_mutex_);
  std::shared_ptr<WorkerConnections> connections_;  // never called while mutex_ is held
};

}  // namespace baton
