#include "router/placement/admission.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace baton {
namespace {

// How often a queue that cannot move is looked at again without being told: status grows old by
// itself.
constexpr base::Duration kLookAgain = std::chrono::milliseconds(50);
constexpr std::chrono::milliseconds kRetryAfter{1000};

}  // namespace

Admission::Admission(const RouterOptions& options, Placer* placer, WorkerDirectory* directory,
                     const base::Clock* clock, std::function<bool()> paused)
    : options_(options),
      placer_(placer),
      directory_(directory),
      clock_(clock),
      paused_(std::move(paused)),
      thread_([this] { Run(); }) {}

Admission::~Admission() {
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
    if (new_waiting_ >= static_cast<size_t>(options_.max_num_queued_reqs)) {
      return MakeError(absl::StatusCode::kResourceExhausted,
                       {.reason = Reason::kQueueFull,
                        .values = {{"have", absl::StrCat(new_waiting_)},
                                   {"limit", absl::StrCat(options_.max_num_queued_reqs)}},
                        .retry_after = kRetryAfter},
                       absl::StrCat(new_waiting_, " requests wait already and the limit is ",
                                    options_.max_num_queued_reqs, "; try again later"));
    }
    ++new_waiting_;
    queue_.push_back({.waiter = std::move(waiter)});
    wake_ = true;
  }
  changed_.NotifyOne();
  return absl::OkStatus();
}

void Admission::EnqueueReplay(Waiter waiter) {
  {
    base::MutexLock lock(&mutex_);
    // A replay stands behind those that came before it and ahead of everything new.
    const auto first_new = std::find_if(queue_.begin(), queue_.end(),
                                        [](const Queued& queued) { return !queued.replay; });
    queue_.insert(first_new, {.waiter = std::move(waiter), .replay = true});
    wake_ = true;
  }
  changed_.NotifyOne();
}

void Admission::Remove(uint64_t id) {
  std::list<Queued> removed;  // destroyed without the lock
  base::MutexLock lock(&mutex_);
  const auto it = std::find_if(queue_.begin(), queue_.end(),
                               [&](const Queued& queued) { return queued.waiter.id == id; });
  if (it == queue_.end()) return;
  if (!it->replay) --new_waiting_;
  removed.splice(removed.begin(), queue_, it);
}

void Admission::Wake() {
  {
    base::MutexLock lock(&mutex_);
    wake_ = true;
    if (queue_.empty()) return;
  }
  changed_.NotifyOne();
}

absl::Status Admission::NoWorker(base::Duration since) {
  return MakeError(
      absl::StatusCode::kUnavailable,
      {.reason = Reason::kNoWorker, .retry_after = std::chrono::milliseconds(5000)},
      absl::StrCat("no healthy decode worker for ", static_cast<int64_t>(base::Seconds(since)),
                   " s; start one, or look at --decode-workers and the workers' logs"));
}

void Admission::Run() {
  mutex_.Lock();
  while (!stopping_) {
    if (queue_.empty()) {
      changed_.Wait(&mutex_);
      continue;
    }
    if (!wake_) changed_.WaitUntil(&mutex_, clock_->Now() + kLookAgain);
    wake_ = false;
    std::vector<Answer> answers = Pump();
    if (answers.empty()) continue;
    mutex_.Unlock();
    for (Answer& answer : answers) answer.waiter.done(std::move(answer.result));
    answers.clear();
    mutex_.Lock();
  }
  mutex_.Unlock();
}

std::vector<Admission::Answer> Admission::Pump() {
  std::vector<Answer> answers;
  const bool paused = paused_();
  bool busy = paused;
  for (auto it = queue_.begin(); it != queue_.end();) {
    const auto current = it++;
    std::optional<absl::StatusOr<Placement>> result;  // empty: it waits on
    if (!busy) {
      auto outcome = placer_->Place(current->waiter.need);
      if (auto* const placement = std::get_if<Placement>(&outcome)) {
        result = std::move(*placement);
      } else if (std::get<Placer::Obstacle>(outcome) == Placer::Obstacle::kBusy) {
        // Those behind wait too, or short requests would starve long ones.
        current->absent_since.reset();
        busy = true;
      } else if (auto refusal = Hopeless(&*current)) {
        result = *std::move(refusal);
      }
    }
    if (!result) {
      if (busy) break;
      continue;
    }
    if (!current->replay) --new_waiting_;
    answers.push_back({std::move(current->waiter), *std::move(result)});
    queue_.erase(current);
  }
  return answers;
}

std::optional<absl::Status> Admission::Hopeless(Queued* queued) {
  const base::Instant now = clock_->Now();
  if (!queued->absent_since) {
    // Who needs no worker in particular has waited since the last decode worker went.
    const auto without_any = directory_->NoDecodeSince();
    const bool any = queued->waiter.need.fingerprint.empty();
    queued->absent_since = any && without_any ? *without_any : now;
  }
  const base::Duration since = now - *queued->absent_since;
  if (since < options_.deadlines.no_worker) return std::nullopt;
  return NoWorker(since);
}

}  // namespace baton
