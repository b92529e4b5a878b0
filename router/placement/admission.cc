#include "router/placement/admission.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace baton {
namespace {

// How often a queue that cannot move is looked at again without being told: status grows old by
// itself.
constexpr base::Duration kLookAgain = std::chrono::milliseconds(50);

// An answer goes on where it began, and not at a model of another version.
std::string OfModel(const RoutingNeed& need) {
  if (need.fingerprint.empty()) return "";
  return absl::StrCat(" of the model ", need.fingerprint, ", with which this answer began,");
}

// The error of a request for which there has been no worker for so long.
absl::Status NoWorker(const RoutingNeed& need, base::Duration since) {
  return MakeError(
      absl::StatusCode::kUnavailable,
      {.reason = Reason::kNoWorker, .retry_after = std::chrono::milliseconds(5000)},
      absl::StrCat("no healthy decode worker", OfModel(need), " that takes ", need.peak_tokens,
                   " tokens of prompt and output for ", static_cast<int64_t>(base::Seconds(since)),
                   " s; start one, or look at --decode-workers and the workers' logs"));
}

// The error of a request that leaves a full queue to other tenants.
absl::Status Displaced(const std::string& tenant, int32_t limit) {
  return MakeError(
      absl::StatusCode::kResourceExhausted,
      {.reason = Reason::kQueueFull,
       .values = {{"tenant", tenant},
                  {"have", absl::StrCat(limit)},
                  {"limit", absl::StrCat(limit)}},
       .retry_after = std::chrono::milliseconds(1000)},
      absl::StrCat(limit,
                   " requests wait, which is the limit, and no tenant has more of them than '",
                   tenant, "'; this one made room for another tenant's; try again later"));
}

}  // namespace

Admission::Admission(const RouterOptions& options, Placer* placer, WorkerDirectory* directory,
                     const base::Clock* clock, std::function<bool()> paused)
    : placer_(placer),
      directory_(directory),
      clock_(clock),
      paused_(std::move(paused)),
      patience_(options.deadlines.no_worker),
      queue_bound_(options.max_num_queued_reqs),
      returns_(std::make_shared<TenantReturns>(
          [this](uint64_t id, const TokensServed& served) { TakeBack(id, served); })),
      queue_(options.max_num_queued_reqs, options.tenants),
      thread_([this] { Run(); }) {}

Admission::~Admission() {
  returns_->Close();
  {
    base::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  changed_.NotifyAll();
  thread_.join();
}

absl::Status Admission::Enqueue(Waiter waiter) {
  {
    base::MutexLock lock(&mutex_);
    const uint64_t id = waiter.waiting.id;
    while (const auto displaced = queue_.MakeRoomFor(waiter.waiting)) {
      Leave(displaced->id, Displaced(displaced->tenant, queue_bound_), &displaced_);
    }
    BATON_RETURN_IF_ERROR(queue_.Add(std::move(waiter.waiting)));
    done_.emplace(id, std::move(waiter.done));
    wake_ = true;
  }
  changed_.NotifyOne();
  return absl::OkStatus();
}

void Admission::Remove(uint64_t id) {
  std::function<void(absl::StatusOr<Placement>)> removed;  // destroyed without the lock
  base::MutexLock lock(&mutex_);
  if (!queue_.Remove(id)) return;
  const auto found = done_.find(id);
  removed = std::move(found->second);
  done_.erase(found);
}

void Admission::TakeBack(uint64_t id, const TokensServed& served) {
  {
    base::MutexLock lock(&mutex_);
    if (!queue_.Ended(id, served)) return;
  }
  Wake();
}

base::Duration Admission::OldestWait() const {
  const base::Instant now = clock_->Now();
  base::MutexLock lock(&mutex_);
  const auto oldest = queue_.oldest_new();
  return oldest ? std::max(base::Duration(), now - *oldest) : base::Duration();
}

void Admission::EachTenant(const std::function<void(const RequestQueue::TenantLoad&)>& see) const {
  base::MutexLock lock(&mutex_);
  queue_.EachTenant(see);
}

void Admission::Wake() {
  {
    base::MutexLock lock(&mutex_);
    wake_ = true;
    if (queue_.empty()) return;
  }
  changed_.NotifyOne();
}

void Admission::Run() {
  RequestQueue::Wanted told;  // to the workers; the queue may have changed meanwhile
  mutex_.Lock();
  while (!stopping_) {
    if (queue_.empty() && displaced_.empty() && told == queue_.wanted()) {
      changed_.Wait(&mutex_);
      continue;
    }
    if (!wake_) changed_.WaitUntil(&mutex_, clock_->Now() + kLookAgain);
    wake_ = false;
    std::vector<Answer> answers = Pump();
    told = queue_.wanted();
    mutex_.Unlock();
    directory_->TellDemand(told.requests, told.tokens);
    for (Answer& answer : answers) {
      if (answer.result.ok()) placer_->WarmUp(*answer.result);
      answer.done(std::move(answer.result));
    }
    answers.clear();
    mutex_.Lock();
  }
  mutex_.Unlock();
}

std::vector<Admission::Answer> Admission::Pump() {
  std::vector<Answer> answers = std::exchange(displaced_, {});
  if (paused_()) return answers;
  const std::optional<base::Instant> without_any = directory_->NoDecodeSince();
  directory_->Use([&](const WorkerDirectory::Tables& tables) {
    RequestQueue::Passage passage = placer_->PassageOf(tables);
    passage.place = [&](const RequestQueue::Waiting& waiting, const RequestQueue::Ahead& ahead) {
      Placement placement;
      const auto outcome = placer_->Place(tables, waiting.need, ahead, &placement);
      if (outcome == RequestQueue::Try::kPlaced) {
        placement.tenant = TenantHold(returns_, waiting.id);
        Leave(waiting.id, std::move(placement), &answers);
      }
      return outcome;
    };
    passage.hopeless = [&](const RequestQueue::Waiting& waiting, base::Instant since) {
      // Who needs no worker in particular has waited since the last one went.
      if (waiting.need.fingerprint.empty() && without_any) since = *without_any;
      if (tables.now - since < patience_) return false;
      Leave(waiting.id, NoWorker(waiting.need, tables.now - since), &answers);
      return true;
    };
    queue_.Pass(tables.now, passage);
  });
  return answers;
}

void Admission::Leave(uint64_t id, absl::StatusOr<Placement> result, std::vector<Answer>* answers) {
  const auto found = done_.find(id);
  answers->push_back({std::move(found->second), std::move(result)});
  done_.erase(found);
}

}  // namespace baton
