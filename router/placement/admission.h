#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "router/placement/placer.h"
#include "router/placement/request_queue.h"
#include "router/router_options.h"

namespace baton {

// The thread around the router's queue: it tries again whenever something changed. A request leaves
// with a placement, or with a refusal when no worker that could take it has been there for long.
// Thread-safe.
class Admission final {
 public:
  // One request in the queue. `done` is called once, from the placing thread, unless the waiter
  // was removed before.
  struct Waiter {
    RequestQueue::Waiting waiting;
    std::function<void(absl::StatusOr<Placement>)> done;
  };

  // While `paused` returns true no attempt is opened, for example because a log cannot keep up. All
  // arguments must outlive this.
  Admission(const RouterOptions& options, Placer* placer, WorkerDirectory* directory,
            const base::Clock* clock, std::function<bool()> paused);
  ~Admission();

  // Refuses a new request with RESOURCE_EXHAUSTED, QUEUE_FULL and RetryInfo when
  // max_num_queued_reqs wait already, or as many of its tenant as may. At the bound of all, one of
  // a tenant that has more there may have to leave for it, with the same error.
  absl::Status Enqueue(Waiter waiter);
  void Remove(uint64_t id);

  // Tries again, because something changed.
  void Wake();

  // How long the request that came first, of those without an attempt, has been waiting; zero when
  // there is none.
  base::Duration OldestWait() const;

  // Calls `see` for each tenant with requests that wait or run; it must not call back.
  void EachTenant(const std::function<void(const RequestQueue::TenantLoad&)>& see) const;

 private:
  struct Answer {
    std::function<void(absl::StatusOr<Placement>)> done;
    absl::StatusOr<Placement> result;
  };
  void Run();
  // Takes everybody who can leave out of the queue.
  std::vector<Answer> Pump() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The attempt of a request that was placed is over.
  void TakeBack(uint64_t id, const TokensServed& served);
  void Leave(uint64_t id, absl::StatusOr<Placement> result, std::vector<Answer>* answers)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Placer* const placer_;
  WorkerDirectory* const directory_;
  const base::Clock* const clock_;
  const std::function<bool()> paused_;
  const base::Duration patience_;  // without a worker
  const int32_t queue_bound_;

  const std::shared_ptr<TenantReturns> returns_;

  mutable base::Mutex mutex_;
  base::CondVar changed_;
  RequestQueue queue_ ABSL_GUARDED_BY(mutex_);
  std::unordered_map<uint64_t, std::function<void(absl::StatusOr<Placement>)>> done_
      ABSL_GUARDED_BY(mutex_);
  std::vector<Answer> displaced_ ABSL_GUARDED_BY(mutex_);  // not told yet
  bool wake_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace baton
