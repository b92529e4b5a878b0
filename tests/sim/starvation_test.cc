// How long a request may wait under each policy, with estimates that have nothing to do with the
// truth and more requests than can be served.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <string>

#include "common/sched/policies/named.h"
#include "tests/sim/sim_worker.h"

namespace baton::sim {
namespace {

constexpr int32_t kPromptMax = 6, kAnswerMax = 40;
// Steps of a request that is alone: a token of its prompt or answer in each, and all but the last
// of them once more if it is computed again.
constexpr uint64_t kStepsAlone = 2 * (kPromptMax + kAnswerMax);
constexpr int32_t kSteps = 1500;

// What came of some loads.
struct Lives {
  uint64_t longest = 0;    // steps
  uint64_t late = 0;       // longer than the bound
  uint64_t displaced = 0;  // sequences that gave their place
};

struct Came {
  uint64_t at_step = 0;
  uint64_t before = 0;  // requests that were there when it came
};

class Overload {
 public:
  Overload(uint64_t seed, const Policy& policy, Forecast forecast, Lives* lives)
      : lives_(lives),
        dice_(seed),
        options_(Options(policy, forecast)),
        worker_(options_, {.vocab_size = 500}) {}

  void Run() {
    for (int32_t step = 0; step < kSteps; ++step) {
      now_ += std::chrono::milliseconds(10);
      while (worker_.scheduler().live() < 2 * options_.scheduler.max_num_seqs) Come();
      Step();
    }
    // Who is still here has waited for so long, too.
    for (const auto& [id, came] : here_) Judge(came);
    lives_->displaced += worker_.scheduler().figures().displaced;
    Empty();
  }

 private:
  WorkerOptions Options(const Policy& policy, Forecast forecast) {
    WorkerOptions options;
    options.forecast = forecast;
    options.num_blocks = dice_.Int(12, 30);
    SchedulerOptions& scheduler = options.scheduler;
    scheduler.policy = policy;
    scheduler.block_size = 4;
    scheduler.max_num_seqs = dice_.Int(2, 3);
    scheduler.max_prefill_tokens = dice_.Int(1, 6);
    scheduler.max_num_batched_tokens = 32;
    scheduler.max_steps_in_flight = dice_.Int(1, 2);
    scheduler.eos_ids = {2};
    scheduler.limits = {.max_model_len = kPromptMax + kAnswerMax,
                        .pool_tokens = options.num_blocks * scheduler.block_size,
                        .vocab_size = 500};
    return options;
  }

  void Come() {
    SequenceSpec spec;
    for (int32_t i = dice_.Int(1, kPromptMax); i > 0; --i) spec.prompt.push_back(dice_.Int(4, 499));
    spec.stop.max_tokens = dice_.Chance(20) ? kAnswerMax : dice_.Int(1, 3);
    const auto before = static_cast<uint64_t>(worker_.scheduler().live());
    here_[worker_.Add(std::move(spec), now_)] = {.at_step = steps_, .before = before};
  }

  void Step() {
    const auto fine = [](const std::string& broken) { EXPECT_EQ(broken, ""); };
    fine(worker_.BeginStep(now_));
    fine(worker_.FinishStep(now_));
    ++steps_;
    for (const SchedEvent& event : worker_.TakeEvents()) {
      if (!std::holds_alternative<FinishedEvent>(event.what)) continue;
      Judge(here_.at(event.sequence));
      here_.erase(event.sequence);
    }
  }

  // No longer than if those before it, as many as may run beside it and itself came one by one.
  void Judge(const Came& came) {
    const auto beside = static_cast<uint64_t>(options_.scheduler.max_num_seqs);
    const uint64_t life = steps_ - came.at_step;
    lives_->longest = std::max(lives_->longest, life);
    lives_->late += life > (came.before + beside + 1) * kStepsAlone ? 1 : 0;
  }

  void Empty() {
    for (const SequenceId id : worker_.scheduler().LiveIds()) worker_.scheduler().Cancel(id, now_);
    for (int32_t i = 0; i < 4; ++i) {
      EXPECT_EQ(worker_.BeginStep(now_), "");
      EXPECT_EQ(worker_.FinishStep(now_), "");
    }
    EXPECT_EQ(worker_.scheduler().live(), 0);
  }

  Lives* const lives_;
  Dice dice_;
  const WorkerOptions options_;
  SimWorker worker_;
  base::Instant now_{std::chrono::hours(1)};
  uint64_t steps_ = 0;
  std::map<SequenceId, Came> here_;
};

Lives LivesUnder(const Policy& policy) {
  Lives lives;
  for (const Forecast forecast : {Forecast::kNoise, Forecast::kSoon, Forecast::kLate}) {
    for (uint64_t seed = 1; seed <= 6; ++seed) Overload(seed, policy, forecast, &lives).Run();
  }
  return lives;
}

TEST(StarvationTest, NobodyWaitsForMoreThanThoseBeforeAndBesideIt) {
  for (const std::string& name : PolicyNames()) {
    const Lives lives = LivesUnder(*PolicyNamed(name));
    std::printf("%s: the longest life was %llu steps; %llu gave their place\n", name.c_str(),
                static_cast<unsigned long long>(lives.longest),
                static_cast<unsigned long long>(lives.displaced));
    EXPECT_EQ(lives.late, 0u) << name;
    EXPECT_EQ(lives.displaced > 0, name == "remaining") << name;
  }
}

TEST(StarvationTest, NotEvenUnderAPolicyThatForgetsAge) {
  Policy youngest_first = kFcfsPolicy;
  youngest_first.starts_before = [](const SequenceView& a, const SequenceView& b,
                                    const PolicyMoment&) { return CameBefore(b, a); };
  const Lives lives = LivesUnder(youngest_first);
  EXPECT_GT(lives.longest, LivesUnder(kFcfsPolicy).longest) << "it had nothing to say";
  EXPECT_EQ(lives.late, 0u);
}

}  // namespace
}  // namespace baton::sim
