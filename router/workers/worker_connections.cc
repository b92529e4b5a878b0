#include "router/workers/worker_connections.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "common/base/log.h"
#include "common/rpc/channel.h"
#include "common/rpc/prefix_report_proto.h"
#include "router/workers/status_interval.h"

namespace baton {
namespace {

constexpr base::Duration kFirstBackoff = std::chrono::milliseconds(100);
constexpr base::Duration kLastBackoff = std::chrono::seconds(2);
// Between attempts to reach one that is still expected to begin to listen: those who started it
// wait.
constexpr base::Duration kStartBackoff = std::chrono::milliseconds(200);
// How often a worker hears of this router's demand, at most.
constexpr base::Duration kTellEvery = std::chrono::milliseconds(50);

// Likewise where the router asked for statuses that far apart. A little less, so that each status
// is an occasion to tell.
base::Duration TellEvery(base::Duration interval) {
  return std::max(kTellEvery, interval - kTellEvery);
}

// Only gRPC's message tells this from a peer that is there and wrong. It decides when the log says
// that a worker does not answer, and how often one that may be starting is tried; nothing else.
bool NobodyListens(const grpc::Status& status) {
  return status.error_message().find(std::strerror(ECONNREFUSED)) != std::string::npos;
}

std::vector<std::string> AllTargets(const ConnectionOptions& options) {
  std::vector<std::string> targets = options.prefill_targets;
  targets.insert(targets.end(), options.decode_targets.begin(), options.decode_targets.end());
  return targets;
}

}  // namespace

std::shared_ptr<WorkerConnections> WorkerConnections::Create(ConnectionOptions options,
                                                             std::weak_ptr<WorkerNews> news,
                                                             const base::Clock* clock,
                                                             base::TimerQueue* timers) {
  return std::shared_ptr<WorkerConnections>(
      new WorkerConnections(std::move(options), std::move(news), clock, timers));
}

WorkerConnections::WorkerConnections(ConnectionOptions options, std::weak_ptr<WorkerNews> news,
                                     const base::Clock* clock, base::TimerQueue* timers)
    : options_(std::move(options)),
      news_(std::move(news)),
      clock_(clock),
      timers_(timers),
      resolving_(AllTargets(options_), options_.resolve_every, clock, options_.lookup) {}

WorkerConnections::~WorkerConnections() { Stop(); }

void WorkerConnections::Start() {
  // Whoever takes the news ends this thread before it goes.
  WorkerNews* const news = news_.lock().get();
  ResolveAll(news);
  resolver_ = std::thread([this, news] {
    while (resolving_.Wait()) ResolveAll(news);
  });
}

void WorkerConnections::Stop() {
  {
    base::MutexLock lock(&mutex_);
    stopping_ = true;
    for (auto& [peer, connection] : connections_) {
      if (connection.watch != nullptr) connection.watch->Cancel();
    }
  }
  resolving_.Stop();
  if (resolver_.joinable()) resolver_.join();
}

void WorkerConnections::ResolveAll(WorkerNews* news) {
  ResolveKind(news, WorkerKind::kPrefill, options_.prefill_targets);
  ResolveKind(news, WorkerKind::kDecode, options_.decode_targets);
}

void WorkerConnections::ResolveKind(WorkerNews* news, WorkerKind kind,
                                    const std::vector<std::string>& targets) {
  std::set<std::string> found;
  for (const std::string& target : targets) {
    const TargetResolver::Answer answer = resolving_.Latest(target);
    // What was known under this name stays until the resolver answers again.
    found.insert(answer.addresses.begin(), answer.addresses.end());
    base::MutexLock lock(&mutex_);
    if (!answer.status.ok()) {
      ReportUnresolved(kind, target, answer.status);
    } else {
      unresolved_.erase(target);
    }
  }
  base::MutexLock lock(&mutex_);
  if (stopping_) return;
  Relist(news, kind, found);
}

void WorkerConnections::Relist(WorkerNews* news, WorkerKind kind,
                               const std::set<std::string>& found) {
  for (const std::string& address : found) Connect(news, {kind, address});
  std::vector<std::string> unlisted;
  std::vector<Peer> relisted;
  for (auto& [peer, connection] : connections_) {
    if (peer.first != kind) continue;
    const bool was_listed = std::exchange(connection.listed, found.contains(peer.second));
    if (was_listed && !connection.listed) unlisted.push_back(peer.second);
    if (!was_listed && connection.listed) relisted.push_back(peer);
  }
  for (const std::string& address : unlisted) FreeOtherWays(news, address);
  for (const Peer& peer : relisted) {
    // Another address may have taken its place. What runs over this one goes on.
    Connection& connection = connections_.at(peer);
    if (connection.process) connection.same_as = OtherWay(peer, connection.process->incarnation);
  }
  for (auto it = connections_.begin(); it != connections_.end();) {
    const auto& [peer, connection] = *it;
    if (peer.first == kind) {
      news->Listed(kind, peer.second, connection.listed && !connection.same_as);
    }
    const bool gone = peer.first == kind && !connection.listed && connection.watch == nullptr;
    if (gone) news->Removed(kind, peer.second);
    it = gone ? connections_.erase(it) : std::next(it);
  }
}

// The log says so once, until the name resolves again.
void WorkerConnections::ReportUnresolved(WorkerKind kind, const std::string& target,
                                         const absl::Status& why) {
  if (!unresolved_.insert(target).second) return;
  spdlog::warn("{} workers: {}; trying again every {} s", WorkerKindName(kind),
               std::string(why.message()), base::Seconds(options_.resolve_every));
}

void WorkerConnections::Connect(WorkerNews* news, const Peer& peer) {
  const auto& [kind, address] = peer;
  if (connections_.contains(peer)) return;
  ChannelOptions channel_options{.tls = options_.tls,
                                 .peer_role = std::string(WorkerKindName(kind))};
  const auto channel = MakeChannel(address, channel_options);
  if (!channel.ok()) {
    spdlog::error("no channel to {}: {}", address, std::string(channel.status().message()));
    return;
  }
  auto link = std::make_shared<WorkerLink>();
  link->address = address;
  link->kind = kind;
  link->status = worker::v1::StatusService::NewStub(*channel);
  if (kind == WorkerKind::kDecode) link->decode = worker::v1::DecodeService::NewStub(*channel);
  if (kind == WorkerKind::kPrefill) link->prefill = worker::v1::PrefillService::NewStub(*channel);
  news->Added(kind, address, link);
  Connection& connection = connections_[peer];
  connection.link = std::move(link);
  connection.channel = *channel;
  connection.since = clock_->Now();
  connection.backoff = kFirstBackoff;
  OpenWatch(peer, &connection);
}

void WorkerConnections::OpenWatch(const Peer& peer, Connection* connection) {
  const std::weak_ptr<WorkerConnections> weak = weak_from_this();
  connection->cached_restarts = 0;
  connection->told = {.demand = {}, .interval = Interval(), .cached = WantsCached(peer)};
  connection->watch =
      WorkerWatch::Open(connection->link, connection->told,
                        {.message =
                             [weak, peer](const worker::v1::WatchResponse& response) {
                               if (const auto self = weak.lock()) self->OnStatus(peer, response);
                             },
                         .ended =
                             [weak, peer](const grpc::Status& status) {
                               if (const auto self = weak.lock()) self->OnWatchEnded(peer, status);
                             }});
}

// A worker that stands in both lists tells of its cache over one Watch.
bool WorkerConnections::WantsCached(const Peer& peer) const {
  const auto& [kind, address] = peer;
  return options_.cached &&
         (kind == WorkerKind::kDecode || !connections_.contains({WorkerKind::kDecode, address}));
}

// A worker hears of the others over one Watch.
std::optional<ClusterView> WorkerConnections::ClusterFor(WorkerNews* news, const Peer& peer,
                                                         const Connection& connection) const {
  const auto& [kind, address] = peer;
  if (kind != WorkerKind::kDecode || !connection.elastic) return std::nullopt;
  return news->ClusterFor(*connection.process);
}

base::Duration WorkerConnections::Interval() const {
  return StatusInterval(connections_.size(), options_.status_fresh);
}

void WorkerConnections::Introduce(WorkerNews* news, const Peer& peer, Connection* connection,
                                  const worker::v1::WorkerIdentity& identity) {
  ForgetProcess(news, peer, connection);
  const WorkerFacts facts = FactsFromProto(identity);
  connection->process = WorkerKey{peer.second, facts.incarnation};
  connection->elastic = facts.kinds.size() > 1;
  connection->backoff = kFirstBackoff;
  connection->reported_unreached = false;
  connection->failing = false;
  connection->same_as.reset();
  news->Listed(peer.first, peer.second, connection->listed);
  news->Introduced(peer.first, peer.second, facts);
}

void WorkerConnections::ForgetProcess(WorkerNews* news, const Peer& peer, Connection* connection) {
  if (connection->process) news->Lost(peer.first, *connection->process);
  connection->process.reset();
}

// Looks at both lists, so that an elastic worker, which is in both, has one address in both.
std::optional<std::string> WorkerConnections::OtherWay(const Peer& peer,
                                                       uint64_t incarnation) const {
  for (const auto& [other, connection] : connections_) {
    const bool same = connection.listed && !connection.same_as && connection.process &&
                      connection.process->incarnation == incarnation;
    if (!same || other.second == peer.second) continue;
    const auto in_list = connections_.find({peer.first, other.second});
    if (in_list != connections_.end() && in_list->second.listed) return other.second;
  }
  return std::nullopt;
}

void WorkerConnections::SetAside(const Peer& peer, Connection* connection,
                                 const std::string& same_as) {
  if (connection->same_as != same_as) {
    spdlog::info("{} worker {} is the same process as {}; requests go to {}",
                 WorkerKindName(peer.first), peer.second, same_as, same_as);
  }
  connection->same_as = same_as;
  connection->failing = false;
  connection->backoff = kFirstBackoff;
  connection->watch->Cancel();
}

// So it does while it has a worker, and while one that it lost may only have lost its connection:
// what runs there is known by that address, and goes on if it answers again.
bool WorkerConnections::MayLeadToWorker(const std::string& address) const {
  return std::ranges::any_of(kWorkerKinds, [&](WorkerKind kind) {
    const auto found = connections_.find({kind, address});
    return found != connections_.end() && found->second.listed && !found->second.same_as &&
           !found->second.failing;
  });
}

void WorkerConnections::TryOtherWays(WorkerNews* news, const std::string& failing) {
  for (auto& [peer, connection] : connections_) {
    if (connection.same_as != failing) continue;
    if (connection.process) {
      connection.same_as = OtherWay(peer, connection.process->incarnation);
      news->Listed(peer.first, peer.second, connection.listed && !connection.same_as);
    } else if (connection.listed && connection.watch == nullptr) {
      OpenAnew(peer, &connection);
    }
  }
}

void WorkerConnections::FreeOtherWays(WorkerNews* news, const std::string& gone) {
  TryOtherWays(news, gone);
  for (auto& [peer, connection] : connections_) {
    if (connection.same_as == gone) connection.same_as.reset();
  }
}

void WorkerConnections::OnStatus(const Peer& peer, const worker::v1::WatchResponse& response) {
  const auto news = news_.lock();
  if (news == nullptr) return;
  {
    base::MutexLock lock(&mutex_);
    const auto it = connections_.find(peer);
    if (it == connections_.end() || stopping_) return;
    if (response.has_identity()) {
      if (const auto other = OtherWay(peer, response.identity().incarnation())) {
        return SetAside(peer, &it->second, *other);
      }
      Introduce(news.get(), peer, &it->second, response.identity());
    }
    const base::Instant now = clock_->Now();
    news->Said(peer.first, peer.second, LoadFromProto(response));
    const auto& process = it->second.process;
    if (response.has_cached() && process &&
        !news->Cached(*process, PrefixReportFromProto(response.cached()))) {
      ++it->second.cached_restarts;
    }
    TellOne(news.get(), peer, &it->second, now);
  }
  news->Changed();
}

void WorkerConnections::OnWatchEnded(const Peer& peer, const grpc::Status& status) {
  const auto news = news_.lock();
  if (news == nullptr) return;
  {
    base::MutexLock lock(&mutex_);
    const auto it = connections_.find(peer);
    if (it == connections_.end() || stopping_) return;
    Connection& connection = it->second;
    const bool may_be_starting = !connection.process && NobodyListens(status) &&
                                 clock_->Now() - connection.since < options_.worker_start;
    if (connection.process && !connection.same_as) {
      spdlog::warn("{} worker {} is gone: {}", WorkerKindName(peer.first), peer.second,
                   status.error_message());
    } else if (!may_be_starting && !connection.same_as &&
               !std::exchange(connection.reported_unreached, true)) {
      spdlog::warn("{} worker {} does not answer: {}; trying again", WorkerKindName(peer.first),
                   peer.second, status.error_message());
    }
    connection.failing = !connection.process;
    ForgetProcess(news.get(), peer, &connection);
    connection.watch = nullptr;
    if (connection.failing) TryOtherWays(news.get(), peer.second);
    if (connection.listed && connection.same_as && MayLeadToWorker(*connection.same_as)) return;
    if (connection.listed) {
      timers_->At(clock_->Now() + connection.backoff, [weak = weak_from_this(), peer] {
        if (const auto self = weak.lock()) self->Reopen(peer);
      });
      connection.backoff =
          std::min(2 * connection.backoff, may_be_starting ? kStartBackoff : kLastBackoff);
    } else {
      news->Removed(peer.first, peer.second);
      connections_.erase(it);
    }
  }
  news->Changed();
}

void WorkerConnections::Reopen(const Peer& peer) {
  base::MutexLock lock(&mutex_);
  const auto it = connections_.find(peer);
  if (it == connections_.end() || stopping_ || it->second.watch != nullptr) return;
  OpenAnew(peer, &it->second);
}

void WorkerConnections::OpenAnew(const Peer& peer, Connection* connection) {
  // The channel waits between its tries to connect, too; when it is time is decided here.
  grpc::experimental::ChannelResetConnectionBackoff(connection->channel.get());
  OpenWatch(peer, connection);
}

void WorkerConnections::TellAll() {
  const auto news = news_.lock();
  if (news == nullptr) return;
  base::MutexLock lock(&mutex_);
  const base::Instant now = clock_->Now();
  if (now - told_all_at_ < TellEvery(Interval())) return;
  told_all_at_ = now;
  for (auto& [peer, connection] : connections_) TellOne(news.get(), peer, &connection, now);
}

void WorkerConnections::TellOne(WorkerNews* news, const Peer& peer, Connection* connection,
                                base::Instant now) {
  const base::Duration interval = Interval();
  if (!connection->process || now - connection->told_at < TellEvery(interval)) return;
  const WorkerWatch::Wish wish{.demand = news->DemandOf(peer.first, peer.second),
                               .interval = interval,
                               .cached = WantsCached(peer),
                               .cached_restarts = connection->cached_restarts,
                               .cluster = ClusterFor(news, peer, *connection)};
  if (wish == connection->told) return;
  // A message that is still on its way carries the old demand; the next status brings us here
  // again.
  if (!connection->watch->Tell(wish)) return;
  connection->told = wish;
  connection->told_at = now;
}

std::vector<WorkerConnections::Peer> WorkerConnections::Peers() const {
  base::MutexLock lock(&mutex_);
  std::vector<Peer> peers;
  for (const auto& [peer, connection] : connections_) {
    if (!connection.same_as) peers.push_back(peer);
  }
  return peers;
}

}  // namespace baton
