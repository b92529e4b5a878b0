#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/base/timer_queue.h"
#include "common/rpc/tls.h"
#include "router/router_options.h"
#include "router/workers/prefix_hints.h"
#include "router/workers/routing_policy.h"
#include "router/workers/worker_view.h"
#include "router/workers/worker_watch.h"

namespace baton {

class WorkerDirectory;

// What this router put on a worker and the worker's last status does not show yet. It ends with
// this object.
class WorkerHold final {
 public:
  WorkerHold(std::weak_ptr<WorkerDirectory> directory, WorkerKey key, int64_t growth_tokens,
             bool computes)
      : directory_(std::move(directory)),
        key_(std::move(key)),
        growth_tokens_(growth_tokens),
        computing_(computes) {}
  ~WorkerHold();
  WorkerHold(const WorkerHold&) = delete;
  WorkerHold& operator=(const WorkerHold&) = delete;

  // Frees the place of the prompt, which is computed.
  void PrefillDone();

 private:
  const std::weak_ptr<WorkerDirectory> directory_;
  const WorkerKey key_;
  const int64_t growth_tokens_;  // that it may still generate
  bool computing_;
};

struct DirectoryOptions {
  std::vector<std::string> prefill_targets;
  std::vector<std::string> decode_targets;
  TlsOptions tls;
  RouterDeadlines deadlines;
  // Refuses a worker that does not serve this router's model, or not as what its list says; the
  // message says what was found.
  std::function<absl::Status(WorkerKind, const WorkerFacts&)> accept;
};

// What the router tells about its workers, for metrics and logs.
struct WorkerReport {
  std::string address;
  WorkerKind kind = WorkerKind::kDecode;
  bool healthy = false;
};

// The workers behind the configured lists and names, with one channel and one Watch each. It knows
// what they said last, how long ago that was, and what this router placed since. Thread-safe.
class WorkerDirectory final : public std::enable_shared_from_this<WorkerDirectory> {
 public:
  static std::shared_ptr<WorkerDirectory> Create(DirectoryOptions options, const base::Clock* clock,
                                                 base::TimerQueue* timers);
  ~WorkerDirectory();

  // Resolves once before it returns, then in the background. `on_change` is called from gRPC and
  // timer threads whenever a placement that failed might succeed, or health changed.
  void Start(std::function<void()> on_change);
  // No callback runs after it.
  void Stop();

  // The workers that a new attempt may go to.
  std::vector<WorkerView> Healthy(WorkerKind kind) const;
  // The fingerprint of the model that new requests get. It is that of a decode worker, is kept
  // until no worker of it is left, and is "" when there is none.
  std::string ServingFingerprint();
  PairSet FailedPairs() const;
  // When the last decode worker ceased to be healthy; empty while one is.
  std::optional<base::Instant> NoDecodeSince();
  // Whether that very process still answers its Watch.
  bool IsAlive(const WorkerKey& key) const;
  std::vector<WorkerReport> Report() const;
  // How many tokens of prompt and output the largest healthy decode worker takes; 0 when none is
  // known.
  int32_t ContextLimit() const;
  // All blocks of the healthy decode workers, free and cached ones too.
  int64_t TotalBlocks() const;
  // How many tokens a block of the healthy decode workers holds.
  int32_t BlockTokens() const;
  const PrefixHints& prefix_hints() const { return prefix_hints_; }

  // Notes what is put on a worker. With `computes` the prompt is computed there and takes a place
  // until PrefillDone.
  std::unique_ptr<WorkerHold> Hold(const WorkerView& view, int64_t tokens, int64_t peak_tokens,
                                   bool computes);
  // The worker answered FULL, and gets nothing new for a moment.
  void MarkFull(const WorkerKey& key);
  // A stream to the worker broke, and it gets nothing new until it speaks again.
  void MarkSuspect(const WorkerKey& key);
  void MarkFailedPair(const std::string& prefill, const std::string& decode);
  // The worker has the KV cache of `prefix`; forgotten when that process goes.
  void MarkHeld(const WorkerKey& key, const PrefixChain& prefix);
  // The worker did not have what it was believed to have.
  void MarkNotHeld(const WorkerKey& key);

 private:
  friend class WorkerHold;
  struct Entry {
    std::shared_ptr<WorkerLink> link;
    std::shared_ptr<WorkerWatch> watch;  // null between two tries
    bool listed = true;                  // the list or the name still has it
    bool accepted = false;
    bool suspect = false;              // a stream to it broke since its last status
    bool reported_unreached = false;   // the log says that it does not answer
    std::optional<WorkerFacts> facts;  // of the process that the watch speaks to
    worker::v1::WorkerLoad load;
    base::Instant status_at{};
    base::Duration backoff{};
    base::Instant full_until{};
    // What this router did since `status_at`, and, in the last two, in all.
    int32_t places_taken = 0;
    int64_t tokens_added = 0;
    int64_t tokens_placed = 0;
    int64_t growth_tokens = 0;
  };
  using EntryKey = std::pair<WorkerKind, std::string>;

  WorkerDirectory(DirectoryOptions options, const base::Clock* clock, base::TimerQueue* timers);

  void ResolveLoop();
  void ResolveAll();
  void ResolveKind(WorkerKind kind, const std::vector<std::string>& targets);
  void ReportUnresolved(WorkerKind kind, const std::string& target, const absl::Status& why)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AddEntry(WorkerKind kind, const std::string& address) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OpenWatch(const EntryKey& key, Entry* entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OnStatus(const EntryKey& key, const worker::v1::WatchResponse& response);
  void OnWatchEnded(const EntryKey& key, const grpc::Status& status);
  void Reopen(const EntryKey& key);
  void Learn(Entry* entry, const worker::v1::WorkerIdentity& identity)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsHealthy(const Entry& entry) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  WorkerView ViewOf(const Entry& entry) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::vector<const Entry*> HealthyLocked(WorkerKind kind) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Entry* FindLocked(const WorkerKey& key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Changed();
  void PlaceReturned(const WorkerKey& key);
  void HoldEnded(const WorkerKey& key, int64_t growth_tokens);

  const DirectoryOptions options_;
  const base::Clock* const clock_;
  base::TimerQueue* const timers_;

  mutable base::Mutex mutex_;
  base::CondVar stop_changed_;
  std::map<EntryKey, Entry> entries_ ABSL_GUARDED_BY(mutex_);
  std::set<std::string> unresolved_ ABSL_GUARDED_BY(mutex_);  // targets that the log complained of
  std::map<std::pair<std::string, std::string>, base::Instant> failed_pairs_
      ABSL_GUARDED_BY(mutex_);
  PrefixHints prefix_hints_;  // of processes in `entries_` only
  std::string serving_fingerprint_ ABSL_GUARDED_BY(mutex_);
  std::optional<base::Instant> no_decode_since_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;

  base::Mutex callback_mutex_;  // held while on_change_ runs
  std::function<void()> on_change_ ABSL_GUARDED_BY(callback_mutex_);
  std::thread resolver_;
};

}  // namespace baton
