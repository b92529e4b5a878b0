#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/base/timer_queue.h"
#include "common/eos/eos_log.h"
#include "common/guide/guide_compiler.h"
#include "common/trace/tracer.h"
#include "router/edge/byte_budget.h"
#include "router/edge/request_spec.h"
#include "router/edge/served_model.h"
#include "router/edge/work_pool.h"
#include "router/page/request_report.h"
#include "router/placement/admission.h"
#include "router/placement/placer.h"
#include "router/router_options.h"
#include "router/router_probe.h"
#include "router/workers/worker_directory.h"

namespace baton {

// A request in flight. Thread-safe.
class LiveRequest {
 public:
  virtual ~LiveRequest() = default;
  // Call once, when it is in the registry.
  virtual void Begin() = 0;
  // Ends it with DRAINED, because the time of the drain is over.
  virtual void EndByDrain() = 0;
  // Adds how it stands now: a report for each answer.
  virtual void AddReports(std::vector<RequestReport>* reports) const = 0;
};

// Owns the requests in flight and knows their ids, which are unique among those of a tenant: what
// another one asks must not be seen, nor stand in the way. Thread-safe.
class FlowRegistry final {
 public:
  // False when the tenant has a request of this id in flight already.
  bool Add(const std::string& tenant, const std::string& id, std::shared_ptr<LiveRequest> request);
  void Remove(const std::string& tenant, const std::string& id);
  std::vector<std::shared_ptr<LiveRequest>> All() const;
  // How each of them stands.
  std::vector<RequestReport> Reports() const;
  size_t size() const;
  // Waits until none is left. False when some were there at `deadline`.
  bool WaitEmpty(base::Instant deadline);

 private:
  using Key = std::pair<std::string, std::string>;  // tenant and id

  mutable base::Mutex mutex_;
  base::CondVar removed_;
  std::map<Key, std::shared_ptr<LiveRequest>> requests_ ABSL_GUARDED_BY(mutex_);
};

// What all requests of a router share. Outlives them.
struct FlowContext {
  const RouterOptions& options;
  const ServedModel& model;
  const base::Clock* clock;
  WorkerDirectory* directory;
  Placer* placer;
  Admission* admission;
  base::TimerQueue* timers;
  WorkPool* pool;
  ByteBudget* budget;
  RouterProbe* probe;
  FlowRegistry* registry;
  EosLog* eos_log;                   // null: off
  Tracer* tracer = nullptr;          // null: off
  GuideCompiler* guides = nullptr;   // null: guides are refused
  std::atomic<uint64_t> next_id{1};  // of queue entries and streams

  // How long a request may be as far as is known now. Thread-safe.
  LengthLimits Limits() const;
};

}  // namespace baton
