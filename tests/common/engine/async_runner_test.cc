// A runner on a thread of its own: order, faults, and its end with steps in hand.
#include "common/engine/async_runner.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "common/base/mutex.h"

namespace baton {
namespace {

// What a RecordingRunner did, and the gate its steps wait at.
struct Record {
  void Open() {
    base::MutexLock lock(&mutex);
    open = true;
    changed.NotifyAll();
  }
  base::Mutex mutex;
  base::CondVar changed;
  bool open ABSL_GUARDED_BY(mutex) = false;
  std::vector<uint64_t> steps ABSL_GUARDED_BY(mutex);
  uint64_t fails_at = 0;
  std::atomic<uint64_t> operations{0};
};

// The token of a step is its number.
class RecordingRunner final : public ModelRunner {
 public:
  explicit RecordingRunner(Record* record) : record_(record) {}
  absl::Status Submit(const StepPlan& plan) override {
    base::MutexLock lock(&record_->mutex);
    while (!record_->open) record_->changed.Wait(&record_->mutex);
    record_->steps.push_back(plan.step);
    step_ = plan.step;
    return absl::OkStatus();
  }
  absl::StatusOr<StepOutput> Wait() override {
    ++record_->operations;
    if (step_ == record_->fails_at) return absl::InternalError("broken");
    return StepOutput{{SampledToken{.token = static_cast<TokenId>(step_)}}};
  }
  uint64_t operations_finished() const override { return record_->operations; }

 private:
  Record* const record_;
  uint64_t step_ = 0;
};

StepPlan Numbered(uint64_t step) {
  StepPlan plan;
  plan.step = step;
  return plan;
}

TEST(AsyncRunnerTest, SubmitReturnsBeforeTheStepAndResultsComeInOrder) {
  Record record;
  AsyncRunner runner(std::make_unique<RecordingRunner>(&record));
  const StepPlan first = Numbered(1), second = Numbered(2), third = Numbered(3);
  ASSERT_TRUE(runner.Submit(first).ok());
  ASSERT_TRUE(runner.Submit(second).ok());  // both return though nothing can be computed yet
  EXPECT_EQ(runner.operations_finished(), 0u);
  record.Open();
  EXPECT_EQ(runner.Wait()->samples[0].token, 1);
  ASSERT_TRUE(runner.Submit(third).ok());
  EXPECT_EQ(runner.Wait()->samples[0].token, 2);
  EXPECT_EQ(runner.Wait()->samples[0].token, 3);
  EXPECT_EQ(runner.operations_finished(), 3u);
}

TEST(AsyncRunnerTest, NothingRunsBehindAFault) {
  Record record;
  record.fails_at = 1;
  record.Open();
  AsyncRunner runner(std::make_unique<RecordingRunner>(&record));
  const StepPlan first = Numbered(1), second = Numbered(2), third = Numbered(3);
  ASSERT_TRUE(runner.Submit(first).ok());
  ASSERT_TRUE(runner.Submit(second).ok());
  EXPECT_EQ(runner.Wait().status().message(), "broken");
  EXPECT_EQ(runner.Wait().status().message(), "broken");
  ASSERT_TRUE(runner.Submit(third).ok());
  EXPECT_FALSE(runner.Wait().ok());
  base::MutexLock lock(&record.mutex);
  EXPECT_EQ(record.steps, std::vector<uint64_t>{1});
}

TEST(AsyncRunnerTest, EndsWithStepsInHand) {
  Record record;
  const StepPlan first = Numbered(1), second = Numbered(2);
  {
    AsyncRunner runner(std::make_unique<RecordingRunner>(&record));
    ASSERT_TRUE(runner.Submit(first).ok());
    ASSERT_TRUE(runner.Submit(second).ok());
    record.Open();
  }
  base::MutexLock lock(&record.mutex);
  EXPECT_LE(record.steps.size(), 2u);
}

TEST(AsyncRunnerDeathTest, AThirdStepIsABug) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  Record record;
  record.Open();
  AsyncRunner runner(std::make_unique<RecordingRunner>(&record));
  const StepPlan plan = Numbered(1);
  ASSERT_TRUE(runner.Submit(plan).ok());
  ASSERT_TRUE(runner.Submit(plan).ok());
  EXPECT_DEATH(runner.Submit(plan).IgnoreError(), "one too many");
}

}  // namespace
}  // namespace baton
