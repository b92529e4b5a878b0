#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <thread>

#include "common/base/mutex.h"
#include "common/model/model_runner.h"

namespace baton {

// Gives a runner that computes inside its calls a thread of its own, so that the next step is
// planned while one computes. Steps run one after the other, as submitted; after a fault none of
// those behind it runs. One thread calls it.
class AsyncRunner final : public ModelRunner {
 public:
  explicit AsyncRunner(std::unique_ptr<ModelRunner> runner);
  // Ends when the step that computes has ended; those behind it are dropped.
  ~AsyncRunner() override;

  // Hands the step over. A fault shows in Wait.
  absl::Status Submit(const StepPlan& plan) override;
  absl::StatusOr<StepOutput> Wait() override;
  uint64_t operations_finished() const override { return runner_->operations_finished(); }
  int32_t max_in_flight() const override { return kMaxInFlight; }

 private:
  static constexpr int32_t kMaxInFlight = 2;

  void Run();
  absl::StatusOr<StepOutput> Compute(const StepPlan& plan);

  const std::unique_ptr<ModelRunner> runner_;  // the thread's
  absl::Status fault_;                         // the thread's
  base::Mutex mutex_;
  base::CondVar changed_;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::deque<const StepPlan*> submitted_ ABSL_GUARDED_BY(mutex_);  // not begun
  std::deque<absl::StatusOr<StepOutput>> finished_ ABSL_GUARDED_BY(mutex_);
  int32_t in_flight_ = 0;  // the caller's
  std::thread thread_;
};

}  // namespace baton
