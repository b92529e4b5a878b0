#include "router/workers/worker_directory.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/rpc/channel.h"
#include "router/workers/status_interval.h"

namespace baton {
namespace {

constexpr base::Duration kFirstBackoff = std::chrono::milliseconds(100);
constexpr base::Duration kLastBackoff = std::chrono::seconds(2);
// How often a worker hears of this router's demand, at most; seldomer where the router asks for
// seldom statuses.
constexpr base::Duration kTellEvery = std::chrono::milliseconds(50);

std::vector<std::string> AllTargets(const DirectoryOptions& options) {
  std::vector<std::string> targets = options.prefill_targets;
  targets.insert(targets.end(), options.decode_targets.begin(), options.decode_targets.end());
  return targets;
}

}  // namespace

WorkerHold::~WorkerHold() {
  PrefillDone();
  const auto directory = directory_.lock();
  if (directory == nullptr) return;
  {
    base::MutexLock lock(&directory->mutex_);
    directory->table_.Return(kind_, key_, claim_);
  }
  directory->Changed();
}

void WorkerHold::PrefillDone() {
  if (!claim_.computes || std::exchange(prompt_done_, true)) return;
  const auto directory = directory_.lock();
  if (directory == nullptr) return;
  {
    base::MutexLock lock(&directory->mutex_);
    directory->table_.PromptDone(kind_, key_, claim_);
  }
  directory->Changed();
}

std::shared_ptr<WorkerDirectory> WorkerDirectory::Create(DirectoryOptions options,
                                                         const base::Clock* clock,
                                                         base::TimerQueue* timers) {
  return std::shared_ptr<WorkerDirectory>(new WorkerDirectory(std::move(options), clock, timers));
}

WorkerDirectory::WorkerDirectory(DirectoryOptions options, const base::Clock* clock,
                                 base::TimerQueue* timers)
    : options_(std::move(options)),
      clock_(clock),
      timers_(timers),
      table_({.status_fresh = options_.deadlines.status_fresh,
              .full_backoff = options_.deadlines.full_backoff}),
      no_decode_since_(clock->Now()),
      resolving_(AllTargets(options_), options_.deadlines.resolve_every, clock, options_.lookup) {}

WorkerDirectory::~WorkerDirectory() { Stop(); }

void WorkerDirectory::Start(std::function<void()> on_change) {
  {
    base::MutexLock lock(&callback_mutex_);
    on_change_ = std::move(on_change);
  }
  ResolveAll();
  resolver_ = std::thread([this] { ResolveLoop(); });
}

void WorkerDirectory::Stop() {
  {
    base::MutexLock lock(&callback_mutex_);
    on_change_ = nullptr;
  }
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

void WorkerDirectory::ResolveLoop() {
  while (resolving_.Wait()) ResolveAll();
}

void WorkerDirectory::ResolveAll() {
  ResolveKind(WorkerKind::kPrefill, options_.prefill_targets);
  ResolveKind(WorkerKind::kDecode, options_.decode_targets);
}

void WorkerDirectory::ResolveKind(WorkerKind kind, const std::vector<std::string>& targets) {
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
  for (const std::string& address : found) Connect(kind, address);
  for (auto it = connections_.begin(); it != connections_.end();) {
    const Peer& peer = it->first;
    Connection& connection = it->second;
    if (peer.first == kind) {
      connection.listed = found.contains(peer.second);
      table_.SetListed(kind, peer.second, connection.listed);
    }
    const bool gone = peer.first == kind && !connection.listed && connection.watch == nullptr;
    if (gone) table_.Remove(kind, peer.second);
    it = gone ? connections_.erase(it) : std::next(it);
  }
}

// The log says so once, until the name resolves again.
void WorkerDirectory::ReportUnresolved(WorkerKind kind, const std::string& target,
                                       const absl::Status& why) {
  if (!unresolved_.insert(target).second) return;
  spdlog::warn("{} workers: {}; trying again every {} s", WorkerKindName(kind),
               std::string(why.message()), base::Seconds(options_.deadlines.resolve_every));
}

void WorkerDirectory::Connect(WorkerKind kind, const std::string& address) {
  const Peer peer(kind, address);
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
  table_.Add(kind, address, link);
  Connection& connection = connections_[peer];
  connection.link = std::move(link);
  connection.backoff = kFirstBackoff;
  OpenWatch(peer, &connection);
}

void WorkerDirectory::OpenWatch(const Peer& peer, Connection* connection) {
  const std::weak_ptr<WorkerDirectory> weak = weak_from_this();
  connection->told = {.demand = {}, .interval = Interval()};
  connection->watch =
      WorkerWatch::Open(connection->link, connection->told.interval,
                        {.message =
                             [weak, peer](const worker::v1::WatchResponse& response) {
                               if (const auto self = weak.lock()) self->OnStatus(peer, response);
                             },
                         .ended =
                             [weak, peer](const grpc::Status& status) {
                               if (const auto self = weak.lock()) self->OnWatchEnded(peer, status);
                             }});
}

base::Duration WorkerDirectory::Interval() const {
  return StatusInterval(connections_.size(), options_.deadlines.status_fresh);
}

void WorkerDirectory::Learn(const Peer& peer, Connection* connection,
                            const worker::v1::WorkerIdentity& identity) {
  const auto& [kind, address] = peer;
  ForgetProcess(peer, connection);
  const WorkerFacts facts = FactsFromProto(identity);
  connection->process = WorkerKey{address, facts.incarnation};
  connection->backoff = kFirstBackoff;
  connection->reported_unreached = false;
  const absl::Status accepted = options_.accept(kind, facts);
  table_.Learn(kind, address, facts, accepted.ok());
  if (accepted.ok()) {
    spdlog::info("{} worker {} is up, model {}, {}", WorkerKindName(kind), address,
                 facts.fingerprint, facts.numerics);
  } else {
    spdlog::error("{} worker {} gets no requests: {}", WorkerKindName(kind), address,
                  std::string(accepted.message()));
  }
}

void WorkerDirectory::ForgetProcess(const Peer& peer, Connection* connection) {
  if (connection->process) prefix_hints_.Drop(*connection->process);
  connection->process.reset();
  table_.Lose(peer.first, peer.second);
}

void WorkerDirectory::OnStatus(const Peer& peer, const worker::v1::WatchResponse& response) {
  {
    base::MutexLock lock(&mutex_);
    const auto it = connections_.find(peer);
    if (it == connections_.end() || stopping_) return;
    if (response.has_identity()) Learn(peer, &it->second, response.identity());
    const base::Instant now = clock_->Now();
    table_.Update(peer.first, peer.second, LoadFromProto(response), now);
    TellOne(peer, &it->second, now);
  }
  Changed();
}

void WorkerDirectory::OnWatchEnded(const Peer& peer, const grpc::Status& status) {
  {
    base::MutexLock lock(&mutex_);
    const auto it = connections_.find(peer);
    if (it == connections_.end() || stopping_) return;
    Connection& connection = it->second;
    if (connection.process) {
      spdlog::warn("{} worker {} is gone: {}", WorkerKindName(peer.first), peer.second,
                   status.error_message());
    } else if (!std::exchange(connection.reported_unreached, true)) {
      spdlog::warn("{} worker {} does not answer: {}; trying again", WorkerKindName(peer.first),
                   peer.second, status.error_message());
    }
    ForgetProcess(peer, &connection);
    connection.watch = nullptr;
    if (connection.listed) {
      timers_->At(clock_->Now() + connection.backoff, [weak = weak_from_this(), peer] {
        if (const auto self = weak.lock()) self->Reopen(peer);
      });
      connection.backoff = std::min(2 * connection.backoff, kLastBackoff);
    } else {
      table_.Remove(peer.first, peer.second);
      connections_.erase(it);
    }
  }
  Changed();
}

void WorkerDirectory::Reopen(const Peer& peer) {
  base::MutexLock lock(&mutex_);
  const auto it = connections_.find(peer);
  if (it == connections_.end() || stopping_ || it->second.watch != nullptr) return;
  OpenWatch(peer, &it->second);
}

void WorkerDirectory::Changed() {
  base::MutexLock lock(&callback_mutex_);
  if (on_change_) on_change_();
}

void WorkerDirectory::Use(const std::function<void(const Tables&)>& use) {
  base::MutexLock lock(&mutex_);
  const base::Instant now = clock_->Now();
  table_.Advance(now);
  use({.workers = table_, .failed_pairs = failed_pairs_.At(now), .now = now});
}

std::unique_ptr<WorkerHold> WorkerDirectory::Hold(const Tables& tables, WorkerKind kind,
                                                  const WorkerView& view,
                                                  const WorkerClaim& claim) {
  auto hold = std::make_unique<WorkerHold>(weak_from_this(), kind, view.key(), claim);
  tables.workers.Take(kind, view.key(), claim);
  return hold;
}

void WorkerDirectory::TellDemand(int64_t requests, int64_t tokens) {
  base::MutexLock lock(&mutex_);
  waiting_requests_ = requests;
  waiting_tokens_ = tokens;
  const base::Instant now = clock_->Now();
  if (now - told_all_at_ < std::max(kTellEvery, Interval())) return;
  told_all_at_ = now;
  for (auto& [peer, connection] : connections_) TellOne(peer, &connection, now);
}

void WorkerDirectory::TellOne(const Peer& peer, Connection* connection, base::Instant now) {
  const base::Duration interval = Interval();
  if (!connection->process || now - connection->told_at < std::max(kTellEvery, interval)) return;
  const WorkerWatch::Wish wish{
      .demand = table_.DemandOf(peer.first, peer.second, waiting_requests_, waiting_tokens_),
      .interval = interval};
  if (wish == connection->told) return;
  // A message that is still on its way carries the old demand; the next status brings us here
  // again.
  if (!connection->watch->Tell(wish)) return;
  connection->told = wish;
  connection->told_at = now;
}

std::optional<base::Instant> WorkerDirectory::NoDecodeSince() {
  base::MutexLock lock(&mutex_);
  const base::Instant now = clock_->Now();
  if (table_.AnyHealthy(WorkerKind::kDecode, now)) {
    no_decode_since_.reset();
  } else if (!no_decode_since_) {
    no_decode_since_ = now;
  }
  return no_decode_since_;
}

bool WorkerDirectory::IsAlive(const WorkerKey& key) const {
  base::MutexLock lock(&mutex_);
  return table_.IsAlive(key);
}

bool WorkerDirectory::IsFresh(const WorkerKey& key) const {
  base::MutexLock lock(&mutex_);
  return table_.IsFresh(key, clock_->Now());
}

std::vector<WorkerReport> WorkerDirectory::Report() const {
  base::MutexLock lock(&mutex_);
  const base::Instant now = clock_->Now();
  std::vector<WorkerReport> report;
  for (const auto& [peer, connection] : connections_) {
    report.push_back({.address = peer.second,
                      .kind = peer.first,
                      .healthy = table_.IsHealthy(peer.first, peer.second, now)});
  }
  return report;
}

int32_t WorkerDirectory::HealthyContext() {
  base::MutexLock lock(&mutex_);
  return static_cast<int32_t>(table_.HealthyContext(clock_->Now()));
}

int32_t WorkerDirectory::KnownContext() const {
  base::MutexLock lock(&mutex_);
  return static_cast<int32_t>(table_.KnownContext());
}

int32_t WorkerDirectory::BlockTokens() {
  base::MutexLock lock(&mutex_);
  const auto tokens = static_cast<int32_t>(table_.BlockTokens(clock_->Now()));
  return tokens == 0 ? PrefixChain{}.block_tokens : tokens;
}

void WorkerDirectory::MarkFull(const WorkerKey& key) {
  base::Instant until;
  {
    base::MutexLock lock(&mutex_);
    if (!table_.IsAlive(key)) return;
    until = table_.MarkFull(key, clock_->Now());
  }
  timers_->At(until, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->Changed();
  });
}

void WorkerDirectory::MarkSuspect(const WorkerKey& key) {
  base::MutexLock lock(&mutex_);
  table_.MarkSuspect(key);
}

void WorkerDirectory::MarkHeld(const WorkerKey& key, const PrefixChain& prefix) {
  base::MutexLock lock(&mutex_);
  const WorkerView* const view = table_.Find(WorkerKind::kDecode, key);
  if (view == nullptr) return;
  prefix_hints_.Note(key, prefix, view->blocks_total, clock_->Now());
}

void WorkerDirectory::MarkNotHeld(const WorkerKey& key) {
  base::MutexLock lock(&mutex_);
  if (table_.Find(WorkerKind::kDecode, key) == nullptr) return;
  prefix_hints_.Distrust(key, clock_->Now() + options_.deadlines.avoid);
}

void WorkerDirectory::MarkFailedPair(const std::string& prefill, const std::string& decode) {
  base::MutexLock lock(&mutex_);
  failed_pairs_.Mark(prefill, decode, clock_->Now() + options_.deadlines.avoid);
}

}  // namespace baton
