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

  // values = their sum over the ranks, in host memory, added in the order of the ranks: the same
  // bits on every rank, whoever came last. Waits for the others. An error ends the group: the
  // values are undefined and every call of every rank fails from then on.
  virtual absl::Status AllReduceSum(std::span<float> values) = 0;

  // Ends the group for `why`, unless it has ended: who waits and who comes gets it. Any thread.
  virtual void Abort(const absl::Status& why) = 0;
};

// Of ranks that are threads of this process: rank 0, 1, … A rank that is waited for longer than
// `patience` ends the group.
std::vector<std::unique_ptr<Collective>> MakeHostGroup(int ranks, base::Duration patience);

}  // namespace baton::kernels
