#include "common/model/tensor_parallel_runner.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <set>
#include <thread>
#include <utility>

#include "common/base/mutex.h"
#include "common/base/status.h"

namespace baton {
namespace {

constexpr auto kPatience = std::chrono::hours(1);  // what ends a test is never a timeout
using Group = std::vector<std::unique_ptr<kernels::Collective>>;

// A rank whose step is one sum over the ranks.
class FakeRank final : public ModelRunner {
 public:
  struct Script {
    kernels::Collective* collective = nullptr;
    absl::Status submit;      // the step fails before its sum
    absl::Status wait;        // the step fails at its end
    int32_t token = 7;        // drawn by every step
    float value = 1;          // what the rank adds
    int32_t in_flight = 1;    // steps at most
    std::vector<float> sums;  // what it got
    std::set<std::thread::id> threads;
  };
  explicit FakeRank(Script* script) : script_(*script) {}

  absl::Status Submit(const StepPlan&) override {
    script_.threads.insert(std::this_thread::get_id());
    if (!script_.submit.ok()) return script_.submit;
    float value = script_.value;
    status_ = script_.collective->AllReduceSum({&value, 1});
    script_.sums.push_back(value);
    ++operations_;
    return absl::OkStatus();
  }
  absl::StatusOr<StepOutput> Wait() override {
    if (!status_.ok()) return status_;
    if (!script_.wait.ok()) return script_.wait;
    StepOutput output;
    output.samples.push_back({.token = script_.token, .logprob = -1});
    return output;
  }
  uint64_t operations_finished() const override { return operations_; }
  int32_t max_in_flight() const override { return script_.in_flight; }

 private:
  Script& script_;
  absl::Status status_;
  std::atomic<uint64_t> operations_{0};
};

class TensorParallelRunnerTest : public testing::Test {
 protected:
  void Make(size_t ranks) {
    group_ = kernels::MakeHostGroup(static_cast<int>(ranks), kPatience);
    scripts_.resize(ranks);
    std::vector<TensorParallelRunner::Rank> runners;
    for (size_t rank = 0; rank < ranks; ++rank) {
      scripts_[rank].collective = group_[rank].get();
      runners.push_back({std::make_unique<FakeRank>(&scripts_[rank]), group_[rank].get()});
    }
    runner_ = std::make_unique<TensorParallelRunner>(std::move(runners));
  }
  absl::StatusOr<StepOutput> Step() {
    BATON_RETURN_IF_ERROR(runner_->Submit({}));
    return runner_->Wait();
  }

  Group group_;
  std::vector<FakeRank::Script> scripts_;
  std::unique_ptr<TensorParallelRunner> runner_;
};

TEST_F(TensorParallelRunnerTest, EveryRankTakesPartOnAThreadOfItsOwn) {
  Make(4);
  for (int step = 0; step < 100; ++step) {
    const auto output = Step();
    ASSERT_TRUE(output.ok()) << output.status();
    EXPECT_EQ(output->samples[0].token, 7);
  }
  EXPECT_EQ(runner_->operations_finished(), 400u);
  runner_.reset();
  std::set<std::thread::id> threads;
  for (const auto& script : scripts_) {
    EXPECT_EQ(script.sums, std::vector<float>(100, 4));
    EXPECT_EQ(script.threads.size(), 1u);
    threads.insert(*script.threads.begin());
  }
  EXPECT_EQ(threads.size(), 4u);
  EXPECT_TRUE(scripts_[0].threads.contains(std::this_thread::get_id()));
}

TEST_F(TensorParallelRunnerTest, ARankThatFailsEndsTheStepForAll) {
  for (const size_t failing : {0, 1, 2}) {
    scripts_.clear();
    Make(3);
    ASSERT_TRUE(Step().ok());
    scripts_[failing].submit = absl::InternalError("out of paper");
    // The two others are in the sum, or come to it, and nobody else ends their wait.
    const auto output = Step();
    EXPECT_EQ(output.status().message(), "out of paper");
    EXPECT_EQ(Step().status().message(), "out of paper") << "and there is no next one";
    runner_.reset();
  }
}

TEST_F(TensorParallelRunnerTest, AFaultThatShowsAtTheEndOfTheStepIsTheStepsError) {
  for (const size_t failing : {0, 1}) {
    scripts_.clear();
    Make(2);
    scripts_[failing].wait = absl::InternalError("paper jam");
    EXPECT_EQ(Step().status().message(), "paper jam");
    runner_.reset();
  }
}

TEST_F(TensorParallelRunnerTest, RanksThatDrawUnequalTokensAreAFault) {
  Make(2);
  ASSERT_TRUE(Step().ok());
  scripts_[1].token = 8;
  const auto output = Step();
  EXPECT_EQ(ReasonOf(output.status()), Reason::kDeviceFault);
  EXPECT_NE(output.status().message().find("rank 1 drew token 8"), std::string::npos)
      << output.status();
}

TEST_F(TensorParallelRunnerTest, TakesAsManyStepsAsEveryRankDoes) {
  Make(3);
  EXPECT_EQ(runner_->max_in_flight(), 1);
  for (auto& script : scripts_) script.in_flight = 2;
  EXPECT_EQ(runner_->max_in_flight(), 2);
  ASSERT_TRUE(runner_->Submit({}).ok());
  ASSERT_TRUE(runner_->Submit({}).ok());
  EXPECT_TRUE(runner_->Wait().ok());
  EXPECT_TRUE(runner_->Wait().ok());
  scripts_[2].in_flight = 1;
  EXPECT_EQ(runner_->max_in_flight(), 1);
}

TEST_F(TensorParallelRunnerTest, EndsWithoutAStep) { Make(8); }

}  // namespace
}  // namespace baton
