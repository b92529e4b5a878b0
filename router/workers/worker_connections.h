#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/base/timer_queue.h"
#include "common/rpc/tls.h"
#include "grpcpp/channel.h"
#include "router/workers/target_resolver.h"
#include "router/workers/worker_link.h"
#include "router/workers/worker_news.h"
#include "router/workers/worker_watch.h"

namespace baton {

struct ConnectionOptions {
  std::vector<std::string> prefill_targets;  // addresses and names
  std::vector<std::string> decode_targets;
  TlsOptions tls;
  base::Duration resolve_every{};
  base::Duration status_fresh{};  // statuses have to come more often than that
  bool cached = false;            // workers are asked what their prefix caches hold
  base::Duration worker_start{};  // where nobody ever listened, the log says so only then
  TargetResolver::Lookup lookup;
};

// The way to the workers behind the configured lists and names: it resolves names again and again,
// keeps one channel and one Watch to each worker, opens a Watch that ended anew, and tells each
// worker what this router could use. A process that is found at several addresses, as behind a name
// with an IPv4 and an IPv6 one, is one worker: the first stands for it, the others when that is
// lost. What workers say goes to `news`. Thread-safe.
class WorkerConnections final : public std::enable_shared_from_this<WorkerConnections> {
 public:
  using Peer = std::pair<WorkerKind, std::string>;  // and its address

  // `news` must call Stop before it goes.
  static std::shared_ptr<WorkerConnections> Create(ConnectionOptions options,
                                                   std::weak_ptr<WorkerNews> news,
                                                   const base::Clock* clock,
                                                   base::TimerQueue* timers);
  ~WorkerConnections();

  // Workers that are listed by IP address are known when it returns; names are looked up in the
  // background.
  void Start();
  // No news come after it, but for a Changed that is on its way.
  void Stop();

  // The demand of this router changed. Cheap when called often: each worker hears of it now and
  // then, if it changed.
  void TellAll();
  // Without further addresses of processes that have one.
  std::vector<Peer> Peers() const;

 private:
  struct Connection {
    std::shared_ptr<WorkerLink> link;
    std::shared_ptr<grpc::Channel> channel;  // of all that `link` calls
    std::shared_ptr<WorkerWatch> watch;      // null between two tries
    bool listed = true;                      // the list or the name still has it
    bool reported_unreached = false;         // the log says that it does not answer
    std::optional<WorkerKey> process;        // that the watch speaks to
    bool elastic = false;                    // that process serves both roles
    // The address by which this router speaks to the process that is here, too. Nothing new goes
    // here meanwhile.
    std::optional<std::string> same_as;
    bool failing = false;   // its last Watch ended without a word
    base::Instant since{};  // it is looked for
    base::Duration backoff{};
    WorkerWatch::Wish told;
    base::Instant told_at{};
    int32_t cached_restarts = 0;  // of this watch
  };

  WorkerConnections(ConnectionOptions options, std::weak_ptr<WorkerNews> news,
                    const base::Clock* clock, base::TimerQueue* timers);

  void ResolveAll(WorkerNews* news);
  void ResolveKind(WorkerNews* news, WorkerKind kind, const std::vector<std::string>& targets);
  void Relist(WorkerNews* news, WorkerKind kind, const std::set<std::string>& found)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ReportUnresolved(WorkerKind kind, const std::string& target, const absl::Status& why)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Connect(WorkerNews* news, const Peer& peer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OpenWatch(const Peer& peer, Connection* connection) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OnStatus(const Peer& peer, const worker::v1::WatchResponse& response);
  void OnWatchEnded(const Peer& peer, const grpc::Status& status);
  void Reopen(const Peer& peer);
  void OpenAnew(const Peer& peer, Connection* connection) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Introduce(WorkerNews* news, const Peer& peer, Connection* connection,
                 const worker::v1::WorkerIdentity& identity) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ForgetProcess(WorkerNews* news, const Peer& peer, Connection* connection)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Another address that leads to that process and is in the same list as `peer`.
  std::optional<std::string> OtherWay(const Peer& peer, uint64_t incarnation) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SetAside(const Peer& peer, Connection* connection, const std::string& same_as)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool MayLeadToWorker(const std::string& address) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Looks for processes at addresses that were set aside for this one.
  void TryOtherWays(WorkerNews* news, const std::string& failing)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Likewise, and those addresses count for themselves from now on.
  void FreeOtherWays(WorkerNews* news, const std::string& gone)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TellOne(WorkerNews* news, const Peer& peer, Connection* connection, base::Instant now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool WantsCached(const Peer& peer) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::optional<ClusterView> ClusterFor(WorkerNews* news, const Peer& peer,
                                        const Connection& connection) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // How far apart statuses of one worker should be now.
  base::Duration Interval() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const ConnectionOptions options_;
  const std::weak_ptr<WorkerNews> news_;
  const base::Clock* const clock_;
  base::TimerQueue* const timers_;

  mutable base::Mutex mutex_;
  std::map<Peer, Connection> connections_ ABSL_GUARDED_BY(mutex_);
  std::set<std::string> unresolved_ ABSL_GUARDED_BY(mutex_);  // targets that the log complained of
  base::Instant told_all_at_ ABSL_GUARDED_BY(mutex_){};
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;

  TargetResolver resolving_;
  std::thread resolver_;
};

}  // namespace baton
