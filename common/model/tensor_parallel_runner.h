#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "common/base/mutex.h"
#include "common/model/model_runner.h"
#include "kernels/collective.h"

namespace baton {

// Makes one runner out of those of the ranks of a tensor-parallel group. Every rank runs every
// step, rank 0 on the caller's thread and each other one on a thread of its own. All ranks draw the
// step's tokens from equal bits, so that no token has to be sent to another rank; rank 0's are the
// result.
class TensorParallelRunner final : public ModelRunner {
 public:
  struct Rank {
    std::unique_ptr<ModelRunner> runner;
    kernels::Collective* collective = nullptr;  // outlives this
  };
  // `ranks` has at least one entry.
  explicit TensorParallelRunner(std::vector<Rank> ranks);
  // Waits until the ranks have finished what they are doing.
  ~TensorParallelRunner() override;

  // A rank that fails ends the group, so that the others do not wait for it; its error is the
  // answer of this step, and no later step succeeds.
  absl::Status Submit(const StepPlan& plan) override;
  // It is an error, too, when the ranks drew unequal tokens.
  absl::StatusOr<StepOutput> Wait() override;
  // The sum over all ranks.
  uint64_t operations_finished() const override;
  // As many as every rank's runner takes.
  int32_t max_in_flight() const override;

 private:
  using Work = std::function<absl::Status(size_t rank)>;

  // Runs `work` for every rank, each on its thread, and returns the first error when all are done.
  // Where a rank waits for the others, the group's patience bounds how long; the watchdog finds one
  // that is stuck in an operation, because operations_finished stands still.
  absl::Status OnEveryRank(const Work& work);
  void RunRank(const Work& work, size_t rank);
  void ServeRank(size_t rank);

  const std::vector<Rank> ranks_;
  std::vector<StepOutput> outputs_;  // [ranks] of the step

  base::Mutex mutex_;
  base::CondVar changed_;
  const Work* work_ ABSL_GUARDED_BY(mutex_) = nullptr;
  uint64_t rounds_ ABSL_GUARDED_BY(mutex_) = 0;  // begun by OnEveryRank
  size_t busy_ ABSL_GUARDED_BY(mutex_) = 0;      // ranks of this round that are not done
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;  // of ranks 1, 2, …
};

}  // namespace baton
