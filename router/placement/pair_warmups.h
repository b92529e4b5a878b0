#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "router/workers/worker_view.h"

namespace baton {

class RouterProbe;

// Asks prefill workers to build a pair of devices to the decode workers that requests are about to
// be handed to. It is only a hint: it waits for nothing, and what fails is counted. Thread-safe.
class PairWarmups final {
 public:
  // Both outlive this.
  PairWarmups(RouterProbe* probe, const base::Clock* clock) : probe_(probe), clock_(clock) {}
  // Ends the questions that are under way.
  ~PairWarmups();

  // Both workers were chosen for an attempt. Asks unless one of them cannot, the pair is warm, or
  // it was asked a moment ago.
  void Ask(const WorkerView& prefill, const WorkerView& decode);

 private:
  struct Call;
  bool Due(const WorkerView& prefill, const WorkerView& decode);
  void Ended(Call* call, bool ok);

  RouterProbe* const probe_;
  const base::Clock* const clock_;
  base::Mutex mutex_;
  base::CondVar ended_;
  // When each pair of processes was asked last; bounded.
  std::map<std::pair<uint64_t, uint64_t>, base::Instant> asked_ ABSL_GUARDED_BY(mutex_);
  std::set<Call*> calls_ ABSL_GUARDED_BY(mutex_);  // each owns itself until it ends
};

}  // namespace baton
