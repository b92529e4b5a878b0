#pragma once

#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "common/base/clock.h"

namespace baton::kernels {

// One rank's end of a tensor-parallel group: backends that compute one model side by side, each
// with its part of the heads, of the MLP and of the logits. A rank is driven by one thread, and all
// ranks make the same calls in the same order.
class Collective {
 public:
  virtual ~Collective() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  // Replaces `values`, which lie in the memory that the ranks compute in, by their sum over the
  // ranks: the same bits on every rank, whoever came last. On the host it waits for the others and
  // adds in the order of the ranks. On GPUs it only queues the sum on the rank's `stream`, and what
  // is queued behind it sees the sum. An error ends the group: the values are undefined then, and
  // every call of every rank fails from there on.
  virtual absl::Status AllReduceSum(std::span<float> values, void* stream = nullptr) = 0;

  // Exchanges parts: `values` has one of equal size for each rank, in the order of the ranks. This
  // rank has written its own, and gets those of the others. Where the values lie, who waits and
  // what an error does is as for a sum.
  virtual absl::Status AllGather(std::span<float> values, void* stream = nullptr) = 0;

  // AllReduceSum for values in the host's memory, whatever the ranks compute on. Waits for the
  // others.
  virtual absl::Status AllReduceSumOnHost(std::span<float> values) = 0;

  // OK while the group stands. A rank asks when what it queued should be over, because sums and
  // parts of a group that has ended are worth nothing.
  virtual absl::Status status() = 0;

  // Ends the group, unless it has ended: whoever waits or comes later gets `why`. Any thread may
  // call it.
  virtual void Abort(const absl::Status& why) = 0;
};

// Makes a group whose ranks are threads of this process that compute in its memory. Entry i is the
// end of rank i. When a rank is waited for longer than `patience`, the group ends.
std::vector<std::unique_ptr<Collective>> MakeHostGroup(int ranks, base::Duration patience);

}  // namespace baton::kernels
