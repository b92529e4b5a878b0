#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <optional>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "router/placement/placer.h"
#include "router/router_options.h"

namespace baton {

// The router's queue. Who comes first is served first, but replays stand before new requests and
// outside the bound. A request leaves it with a placement, or with a refusal when there has been no
// healthy worker for long. One thread places. Thread-safe.
class Admission final {
 public:
  // One request in the queue. `done` is called once, from the placing thread, unless the waiter
  // was removed before.
  struct Waiter {
    uint64_t id = 0;
    RoutingNeed need;
    std::function<void(absl::StatusOr<Placement>)> done;
  };

  // While `paused` returns true no attempt is opened, for example because a log cannot keep up. All
  // arguments must outlive this.
  Admission(const RouterOptions& options, Placer* placer, WorkerDirectory* directory,
            const base::Clock* clock, std::function<bool()> paused);
  ~Admission();

  // Refuses with RESOURCE_EXHAUSTED, QUEUE_FULL and RetryInfo when max_num_queued_reqs wait
  // already.
  absl::Status Enqueue(Waiter waiter);
  void EnqueueReplay(Waiter waiter);
  void Remove(uint64_t id);

  // Tries again, because something changed.
  void Wake();

  // The error of a request for which there has been no worker since then.
  static absl::Status NoWorker(base::Duration since);

 private:
  struct Queued {
    Waiter waiter;
    bool replay = false;
    std::optional<base::Instant> absent_since;
  };
  struct Answer {
    Waiter waiter;
    absl::StatusOr<Placement> result;
  };
  void Run();
  // Takes everybody who can leave out of the queue.
  std::vector<Answer> Pump() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The refusal of a request that has waited too long for a worker; empty while there is hope.
  std::optional<absl::Status> Hopeless(Queued* queued) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const RouterOptions& options_;
  Placer* const placer_;
  WorkerDirectory* const directory_;
  const base::Clock* const clock_;
  const std::function<bool()> paused_;

  base::Mutex mutex_;
  base::CondVar changed_;
  std::list<Queued> queue_ ABSL_GUARDED_BY(mutex_);  // replays first
  size_t new_waiting_ ABSL_GUARDED_BY(mutex_) = 0;   // those under the bound
  bool wake_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace baton
