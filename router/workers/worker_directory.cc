#include "router/workers/worker_directory.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/rpc/channel.h"
#include "router/workers/address_resolver.h"

namespace baton {
namespace {

constexpr base::Duration kFirstBackoff = std::chrono::milliseconds(100);
constexpr base::Duration kLastBackoff = std::chrono::seconds(2);

}  // namespace

WorkerHold::~WorkerHold() {
  const auto directory = directory_.lock();
  if (directory == nullptr) return;
  PrefillDone();
  directory->HoldEnded(key_, growth_tokens_);
}

void WorkerHold::PrefillDone() {
  if (!computing_) return;
  computing_ = false;
  if (const auto directory = directory_.lock()) directory->PlaceReturned(key_);
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
      no_decode_since_(clock->Now()) {}

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
    for (auto& [key, entry] : entries_) {
      if (entry.watch != nullptr) entry.watch->Cancel();
    }
  }
  stop_changed_.NotifyAll();
  if (resolver_.joinable()) resolver_.join();
}

void WorkerDirectory::ResolveLoop() {
  base::Instant next = clock_->Now() + options_.deadlines.resolve_every;
  while (true) {
    {
      base::MutexLock lock(&mutex_);
      while (!stopping_ && clock_->Now() < next) stop_changed_.WaitUntil(&mutex_, next);
      if (stopping_) return;
    }
    ResolveAll();
    next = clock_->Now() + options_.deadlines.resolve_every;
  }
}

void WorkerDirectory::ResolveAll() {
  ResolveKind(WorkerKind::kPrefill, options_.prefill_targets);
  ResolveKind(WorkerKind::kDecode, options_.decode_targets);
}

void WorkerDirectory::ResolveKind(WorkerKind kind, const std::vector<std::string>& targets) {
  std::set<std::string> found;
  bool complete = true;
  for (const std::string& target : targets) {
    const auto addresses = ResolveTarget(target);
    base::MutexLock lock(&mutex_);
    if (!addresses.ok()) {
      // What was known under this name stays until the resolver answers again.
      ReportUnresolved(kind, target, addresses.status());
      complete = false;
      continue;
    }
    unresolved_.erase(target);
    found.insert(addresses->begin(), addresses->end());
  }
  base::MutexLock lock(&mutex_);
  if (stopping_) return;
  for (const std::string& address : found) AddEntry(kind, address);
  for (auto it = entries_.begin(); it != entries_.end();) {
    Entry& entry = it->second;
    if (it->first.first == kind && complete) entry.listed = found.contains(it->first.second);
    const bool gone = it->first.first == kind && !entry.listed && entry.watch == nullptr;
    it = gone ? entries_.erase(it) : std::next(it);
  }
}

// The log says so once, until the name resolves again.
void WorkerDirectory::ReportUnresolved(WorkerKind kind, const std::string& target,
                                       const absl::Status& why) {
  if (!unresolved_.insert(target).second) return;
  spdlog::warn("{} workers: {}; trying again every {} s", WorkerKindName(kind),
               std::string(why.message()), base::Seconds(options_.deadlines.resolve_every));
}

void WorkerDirectory::AddEntry(WorkerKind kind, const std::string& address) {
  const EntryKey key(kind, address);
  if (entries_.contains(key)) return;
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
  Entry& entry = entries_[key];
  entry.link = std::move(link);
  entry.backoff = kFirstBackoff;
  OpenWatch(key, &entry);
}

void WorkerDirectory::OpenWatch(const EntryKey& key, Entry* entry) {
  const std::weak_ptr<WorkerDirectory> weak = weak_from_this();
  entry->watch =
      WorkerWatch::Open(entry->link, {.message =
                                          [weak, key](const worker::v1::WatchResponse& response) {
                                            if (const auto self = weak.lock())
                                              self->OnStatus(key, response);
                                          },
                                      .ended =
                                          [weak, key](const grpc::Status& status) {
                                            if (const auto self = weak.lock())
                                              self->OnWatchEnded(key, status);
                                          }});
}

void WorkerDirectory::Learn(Entry* entry, const worker::v1::WorkerIdentity& identity) {
  if (entry->facts) prefix_hints_.Drop({entry->link->address, entry->facts->incarnation});
  entry->facts = FactsFromProto(identity);
  entry->backoff = kFirstBackoff;
  entry->reported_unreached = false;
  const absl::Status accepted = options_.accept(entry->link->kind, *entry->facts);
  entry->accepted = accepted.ok();
  const std::string& address = entry->link->address;
  if (accepted.ok()) {
    spdlog::info("{} worker {} is up, model {}, {}", WorkerKindName(entry->link->kind), address,
                 entry->facts->fingerprint, entry->facts->numerics);
  } else {
    spdlog::error("{} worker {} gets no requests: {}", WorkerKindName(entry->link->kind), address,
                  std::string(accepted.message()));
  }
}

void WorkerDirectory::OnStatus(const EntryKey& key, const worker::v1::WatchResponse& response) {
  {
    base::MutexLock lock(&mutex_);
    const auto it = entries_.find(key);
    if (it == entries_.end() || stopping_) return;
    Entry& entry = it->second;
    if (response.has_identity()) Learn(&entry, response.identity());
    if (response.has_load()) entry.load = response.load();
    entry.status_at = clock_->Now();
    entry.suspect = false;
    entry.places_taken = 0;
    entry.tokens_added = 0;
    entry.tokens_placed = 0;
  }
  Changed();
}

void WorkerDirectory::OnWatchEnded(const EntryKey& key, const grpc::Status& status) {
  {
    base::MutexLock lock(&mutex_);
    const auto it = entries_.find(key);
    if (it == entries_.end() || stopping_) return;
    Entry& entry = it->second;
    if (entry.facts) {
      spdlog::warn("{} worker {} is gone: {}", WorkerKindName(key.first), key.second,
                   status.error_message());
    } else if (!std::exchange(entry.reported_unreached, true)) {
      spdlog::warn("{} worker {} does not answer: {}; trying again", WorkerKindName(key.first),
                   key.second, status.error_message());
    }
    if (entry.facts) prefix_hints_.Drop({entry.link->address, entry.facts->incarnation});
    entry.facts.reset();
    entry.watch = nullptr;
    entry.growth_tokens = 0;
    if (entry.listed) {
      timers_->At(clock_->Now() + entry.backoff, [weak = weak_from_this(), key] {
        if (const auto self = weak.lock()) self->Reopen(key);
      });
      entry.backoff = std::min(2 * entry.backoff, kLastBackoff);
    } else {
      entries_.erase(it);
    }
  }
  Changed();
}

void WorkerDirectory::Reopen(const EntryKey& key) {
  base::MutexLock lock(&mutex_);
  const auto it = entries_.find(key);
  if (it == entries_.end() || stopping_ || it->second.watch != nullptr) return;
  OpenWatch(key, &it->second);
}

void WorkerDirectory::Changed() {
  base::MutexLock lock(&callback_mutex_);
  if (on_change_) on_change_();
}

}  // namespace baton
