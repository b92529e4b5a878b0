#pragma once

#include <memory>
#include <optional>
#include <string>

#include "common/base/prefix_report.h"
#include "router/workers/worker_table.h"
#include "router/workers/worker_view.h"

namespace baton {

// Takes what the connections to workers bring, each worker known by its kind and address. All but
// Changed is called while the connections are locked and must not call back into them.
class WorkerNews {
 public:
  virtual ~WorkerNews() = default;

  // An address came or went, or the configured lists have it no longer or again.
  virtual void Added(WorkerKind kind, const std::string& address,
                     std::shared_ptr<WorkerLink> link) = 0;
  virtual void Removed(WorkerKind kind, const std::string& address) = 0;
  virtual void Listed(WorkerKind kind, const std::string& address, bool listed) = 0;
  // A process introduced itself, said how it is, or is gone.
  virtual void Introduced(WorkerKind kind, const std::string& address,
                          const WorkerFacts& facts) = 0;
  virtual void Said(WorkerKind kind, const std::string& address, WorkerLoad load) = 0;
  // What a process says of its prefix cache. False when it must begin anew, because something it
  // said before is missing.
  virtual bool Cached(const WorkerKey& process, const PrefixReport& report) = 0;
  virtual void Lost(WorkerKind kind, const WorkerKey& process) = 0;

  // What a worker should hear of this router's wishes.
  virtual WorkerDemand DemandOf(WorkerKind kind, const std::string& address) = 0;

  // What an elastic worker should hear of all workers, to decide on its role by. Nothing where this
  // router does not have it in both roles, or refuses it.
  virtual std::optional<ClusterView> ClusterFor(const WorkerKey& process) = 0;

  // Something of the above happened. Called without locks.
  virtual void Changed() = 0;
};

}  // namespace baton
