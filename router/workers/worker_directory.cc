#include "router/workers/worker_directory.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "common/base/log.h"

namespace baton {
namespace {

// How long what workers are told of all of them may stay as it is.
constexpr base::Duration kClusterEvery = std::chrono::milliseconds(50);

// Whoever asks for tokens of a pool counts in int32_t.
constexpr int64_t kMostPoolTokens = std::numeric_limits<int32_t>::max();

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
  ConnectionOptions connections{.prefill_targets = options.prefill_targets,
                                .decode_targets = options.decode_targets,
                                .tls = options.tls,
                                .resolve_every = options.deadlines.resolve_every,
                                .status_fresh = options.deadlines.status_fresh,
                                .cached = options.cached,
                                .worker_start = options.deadlines.worker_start,
                                .lookup = options.lookup};
  std::shared_ptr<WorkerDirectory> made(new WorkerDirectory(std::move(options), clock, timers));
  made->connections_ = WorkerConnections::Create(std::move(connections), made, clock, timers);
  return made;
}

WorkerDirectory::WorkerDirectory(DirectoryOptions options, const base::Clock* clock,
                                 base::TimerQueue* timers)
    : options_(std::move(options)),
      clock_(clock),
      timers_(timers),
      table_({.status_fresh = options_.deadlines.status_fresh,
              .full_backoff = options_.deadlines.full_backoff}),
      no_decode_since_(clock->Now()) {}

WorkerDirectory::~WorkerDirectory() { Stop(); }

void WorkerDirectory::Start(std::function<void()> on_change) {
  {
    base::MutexLock lock(&callback_mutex_);
    on_change_ = std::move(on_change);
  }
  connections_->Start();
}

void WorkerDirectory::Stop() {
  {
    base::MutexLock lock(&callback_mutex_);
    on_change_ = nullptr;
  }
  connections_->Stop();
}

void WorkerDirectory::Added(WorkerKind kind, const std::string& address,
                            std::shared_ptr<WorkerLink> link) {
  base::MutexLock lock(&mutex_);
  table_.Add(kind, address, std::move(link));
}

void WorkerDirectory::Removed(WorkerKind kind, const std::string& address) {
  base::MutexLock lock(&mutex_);
  table_.Remove(kind, address);
}

void WorkerDirectory::Listed(WorkerKind kind, const std::string& address, bool listed) {
  base::MutexLock lock(&mutex_);
  table_.SetListed(kind, address, listed);
}

void WorkerDirectory::Introduced(WorkerKind kind, const std::string& address,
                                 const WorkerFacts& facts) {
  const absl::Status accepted = options_.accept(kind, facts);
  if (accepted.ok()) {
    spdlog::info("{} worker {} is up, model {}, {}", WorkerKindName(kind), address,
                 facts.fingerprint, facts.numerics);
  } else {
    spdlog::error("{} worker {} gets no requests: {}", WorkerKindName(kind), address,
                  std::string(accepted.message()));
  }
  std::set<std::string> unpaired;
  {
    base::MutexLock lock(&mutex_);
    table_.Learn(kind, address, facts, accepted.ok());
    const std::string& model = facts.fingerprint;
    unpaired = unpaired_.Look(model, table_.ShapesOf(WorkerKind::kPrefill, model),
                              table_.ShapesOf(WorkerKind::kDecode, model));
  }
  for (const std::string& warning : unpaired) {
    spdlog::warn("model {}: {}", facts.fingerprint, warning);
  }
}

void WorkerDirectory::Said(WorkerKind kind, const std::string& address, WorkerLoad load) {
  base::MutexLock lock(&mutex_);
  table_.Update(kind, address, std::move(load), clock_->Now());
}

bool WorkerDirectory::Cached(const WorkerKey& process, const PrefixReport& report) {
  return prefix_hints_.Report(process, report, clock_->Now());
}

void WorkerDirectory::Lost(WorkerKind kind, const WorkerKey& process) {
  base::MutexLock lock(&mutex_);
  // Under the lock, so that nobody who still finds the process notes hints behind this.
  prefix_hints_.Drop(process);
  table_.Lose(kind, process.address);
}

WorkerDemand WorkerDirectory::DemandOf(WorkerKind kind, const std::string& address) {
  base::MutexLock lock(&mutex_);
  return table_.DemandOf(kind, address, waiting_requests_, waiting_tokens_);
}

std::optional<ClusterView> WorkerDirectory::ClusterFor(const WorkerKey& process) {
  base::MutexLock lock(&mutex_);
  const WorkerView* const worker = table_.Find(WorkerKind::kDecode, process);
  if (worker == nullptr || !table_.MayChangeRole(process.address)) return std::nullopt;
  const base::Instant now = clock_->Now();
  if (now - clusters_at_ >= kClusterEvery) {
    clusters_.clear();
    clusters_at_ = now;
  }
  const std::string& fingerprint = worker->facts.fingerprint;
  const auto [found, added] = clusters_.try_emplace(fingerprint);
  if (added) found->second = table_.ClusterOf(fingerprint, now);
  ClusterView cluster = found->second;
  cluster.waiting_prompt_tokens = waiting_tokens_;
  return cluster;
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
  {
    base::MutexLock lock(&mutex_);
    waiting_requests_ = requests;
    waiting_tokens_ = tokens;
  }
  connections_->TellAll();
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
  const std::vector<WorkerConnections::Peer> peers = connections_->Peers();
  base::MutexLock lock(&mutex_);
  const base::Instant now = clock_->Now();
  std::vector<WorkerReport> report;
  for (const auto& [kind, address] : peers) {
    const bool healthy = table_.IsHealthy(kind, address, now);
    report.push_back({.address = address,
                      .kind = kind,
                      .healthy = healthy,
                      .other_role = table_.TakesOtherRole(kind, address, now),
                      .load = table_.LoadOf(kind, address)});
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

int32_t WorkerDirectory::HealthyPool() {
  base::MutexLock lock(&mutex_);
  return static_cast<int32_t>(std::min(table_.HealthyPool(clock_->Now()), kMostPoolTokens));
}

int32_t WorkerDirectory::KnownPool() const {
  base::MutexLock lock(&mutex_);
  return static_cast<int32_t>(std::min(table_.KnownPool(), kMostPoolTokens));
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

void WorkerDirectory::WillHold(const WorkerKey& key, const PrefixChain& prefix) {
  prefix_hints_.Expect(key, prefix, clock_->Now());
}

void WorkerDirectory::MarkHandedOver(int64_t tokens, base::Duration took) {
  base::MutexLock lock(&mutex_);
  table_.NoteHandoff(tokens, took);
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
