#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "common/base/clock.h"
#include "router/workers/worker_view.h"
#include "tools/sim/cluster.h"
#include "tools/sim/fleet.h"
#include "tools/sim/timeline.h"

namespace baton::simulator {

// Which role each worker of an elastic cluster has. Every worker decides for itself, now and then,
// from what is waiting and running in the cluster, as routers could tell it: decode workers begin
// to prefill while prompts wait too long and the others can hold what decodes, and the other way
// round while places run out and the others can compute what comes. What it has, it finishes in
// any role; only new work is of the new one. One worker of each role remains.
class ElasticRoles final {
 public:
  // In a cluster that is not elastic every worker serves what it is listed for.
  ElasticRoles(const ClusterSetup& setup, Timeline* timeline, const Fleet* fleet);
  ElasticRoles(const ElasticRoles&) = delete;
  ElasticRoles& operator=(const ElasticRoles&) = delete;

  // Decides until `over`.
  void Begin(std::function<bool()> over);
  // Whether that worker gets new work of that kind.
  bool Serves(WorkerKind kind, size_t worker) const;
  uint64_t changes() const { return changes_; }

 private:
  struct Machine {
    WorkerKind role = WorkerKind::kDecode;
    base::Instant since{};
  };
  // Of all workers of a role together.
  struct Signals {
    int32_t prefill_workers = 0, decode_workers = 0;
    double prefill_wait_s = 0;  // until a prompt that comes now is computed
    double prefill_load = 0;    // share of prefill workers' time that prompts took lately
    double decode_fill = 0;     // of seats or blocks, whichever is fuller
  };
  Signals Look() const;
  double FillOf(size_t machine) const;
  void Tick(size_t machine);
  void NoteLoad();

  const ClusterSetup& setup_;
  Timeline* const timeline_;
  const Fleet* const fleet_;
  std::function<bool()> over_;
  std::vector<Machine> machines_;
  base::Instant changed_{};  // any of them
  uint64_t changes_ = 0;
  uint64_t prompt_tokens_ = 0;      // computed until the last note
  double prompt_tokens_per_s_ = 0;  // over the late seconds
};

}  // namespace baton::simulator
