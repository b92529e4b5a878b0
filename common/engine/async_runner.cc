#include "common/engine/async_runner.h"

#include <utility>

#include "common/base/check.h"

namespace baton {

AsyncRunner::AsyncRunner(std::unique_ptr<ModelRunner> runner) : runner_(std::move(runner)) {
  thread_ = std::thread([this] { Run(); });
}

AsyncRunner::~AsyncRunner() {
  {
    base::MutexLock lock(&mutex_);
    stop_ = true;
    changed_.NotifyAll();
  }
  thread_.join();
}

absl::Status AsyncRunner::Submit(const StepPlan& plan) {
  BATON_CHECK(in_flight_ < kMaxInFlight) << "step " << plan.step << " is one too many";
  ++in_flight_;
  base::MutexLock lock(&mutex_);
  submitted_.push_back(&plan);
  changed_.NotifyAll();
  return absl::OkStatus();
}

absl::StatusOr<StepOutput> AsyncRunner::Wait() {
  BATON_CHECK(in_flight_ > 0) << "Wait without Submit";
  --in_flight_;
  base::MutexLock lock(&mutex_);
  while (finished_.empty()) changed_.Wait(&mutex_);
  absl::StatusOr<StepOutput> output = std::move(finished_.front());
  finished_.pop_front();
  return output;
}

void AsyncRunner::Run() {
  base::MutexLock lock(&mutex_);
  while (!stop_) {
    if (submitted_.empty()) {
      changed_.Wait(&mutex_);
      continue;
    }
    const StepPlan* const plan = submitted_.front();
    submitted_.pop_front();
    mutex_.Unlock();
    absl::StatusOr<StepOutput> output = Compute(*plan);
    mutex_.Lock();
    finished_.push_back(std::move(output));
    changed_.NotifyAll();
  }
}

absl::StatusOr<StepOutput> AsyncRunner::Compute(const StepPlan& plan) {
  if (!fault_.ok()) return fault_;
  fault_ = runner_->Submit(plan);
  if (!fault_.ok()) return fault_;
  absl::StatusOr<StepOutput> output = runner_->Wait();
  fault_ = output.status();
  return output;
}

}  // namespace baton
