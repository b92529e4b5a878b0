#pragma once

#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "common/base/clock.h"

namespace baton::kernels {

// One rank's end of a tensor-parallel group: backends that compute one model side by side, each
// with its part of the heads and of the MLP. A rank is driven by one thread, and all ranks make the
// same calls in the same order.
class Collective {
 public:
  virtual ~Collective() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  // values = their sum over the ranks, in the memory that the ranks compute in: the same bits on
  // every rank, whoever came last. On the host it waits for the others and adds in the order of the
  // ranks; on devices it only queues the sum on `stream`, that of the rank, and what is queued
  // behind it sees the sum. An error ends the group: the values are undefined and every call of
  // every rank fails from then on.
  virtual absl::Status AllReduceSum(std::span<float> values, void* stream = nullptr) = 0;

  // The same of values in host memory, whatever the ranks compute on. Waits for the others.
  virtual absl::Status AllReduceSumOnHost(std::span<float> values) = 0;

  // OK while the group stands. A rank asks when sums that it queued are over: those of a group that
  // has ended are worth nothing.
  virtual absl::Status status() = 0;

  // Ends the group for `why`, unless it has ended: who waits and who comes gets it. Any thread.
  virtual void Abort(const absl::Status& why) = 0;
};

// Of ranks that are threads of this process: rank 0, 1, … A rank that is waited for longer than
// `patience` ends the group.
std::vector<std::unique_ptr<Collective>> MakeHostGroup(int ranks, base::Duration patience);

}  // namespace baton::kernels
