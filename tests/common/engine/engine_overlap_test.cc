// One step in flight while the next is planned: ends, faults and stops with two steps out. Each
// test runs over a runner that gets a thread of its own, and over devices with a queue, which
// compute as early or as late as they may.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/base/status.h"
#include "tests/common/engine/harness.h"
#include "tests/fakes/eventually.h"

namespace baton {
namespace {

using std::chrono::milliseconds;

enum class Device { kOwnThread, kEager, kLazy };

class EngineOverlapTest : public testing::TestWithParam<Device> {
 protected:
  static EngineHarness::Options Options(bool overlap = true) {
    EngineHarness::Options options{.engine = EngineHarness::DefaultEngine()};
    options.engine.overlap = overlap;
    options.model.max_in_flight = overlap && GetParam() != Device::kOwnThread ? 2 : 1;
    options.model.lazy = GetParam() == Device::kLazy;
    return options;
  }
  // Stops the device, admits `count` long requests and waits until two steps are on their way. A
  // runner with a thread of its own shows the first of them only; the engine is then on the way to
  // hand over the second.
  static std::vector<SequenceId> TwoStepsOut(EngineHarness* harness, int32_t count) {
    auto steps = std::make_shared<std::atomic<int32_t>>(0);
    harness->control().set_on_step([steps](const StepPlan&) { ++*steps; });
    harness->control().Pause();
    std::vector<SequenceId> ids;
    for (int32_t i = 0; i < count; ++i) ids.push_back(harness->Admit(MakeSpec(10, 100, i)));
    const int32_t shown = GetParam() == Device::kOwnThread ? 1 : 2;
    EXPECT_TRUE(harness->PollUntil([&](const EngineFigures&) { return *steps >= shown; }));
    return ids;
  }
};

// Every way to draw and to end.
SequenceSpec AnySpec(int32_t i) {
  SequenceSpec spec = MakeSpec(5 + i % 17, 25, i);
  spec.sampling.temperature = i % 3 == 0 ? 0.0f : 1.0f;
  if (i % 4 == 1) spec.sampling.repetition_penalty = 1.3f;
  if (i % 5 == 2) spec.sampling.frequency_penalty = 0.4f;
  if (i % 6 == 3) spec.sampling.no_repeat_ngram_size = 2;
  spec.stop.min_tokens = i % 7;
  if (i % 8 == 4) spec.stop.eos_policy = EosPolicy::kIgnoreContinue;
  if (i % 8 == 5) spec.stop.eos_policy = EosPolicy::kIgnoreMask;
  if (i % 8 == 7) spec.stop.length_control = {.target = 12, .strength = 5};
  if (i % 8 == 6) {
    for (TokenId id = 100; id < 160; ++id) spec.stop.stop_token_ids.push_back(id);
  }
  return spec;
}

struct Outcome {
  std::vector<Seen> seen;
  EngineFigures figures;
};

Outcome RunEverything(EngineHarness::Options options) {
  constexpr int32_t kRequests = 48;
  options.model.eos_permille = 50;
  options.num_blocks = 30;
  options.engine.max_prefill_tokens = 9;
  EngineHarness harness(options);
  harness.control().Pause();
  std::vector<SequenceId> ids;
  for (int32_t i = 0; i < kRequests; ++i) ids.push_back(harness.Admit(AnySpec(i)));
  harness.control().Resume();
  Outcome outcome;
  for (const SequenceId id : ids) {
    EXPECT_TRUE(harness.RunUntilOver(id));
    outcome.seen.push_back(harness.seen(id));
  }
  EXPECT_TRUE(harness.AllBlocksBack());
  outcome.figures = harness.figures();
  return outcome;
}

TEST_P(EngineOverlapTest, TokensSignalsAndEndsAreThoseOfOneStepAtATime) {
  const Outcome plain = RunEverything(Options(false));
  const Outcome overlapped = RunEverything(Options());
  EXPECT_EQ(plain.figures.steps_overlapped, 0u);
  EXPECT_GT(overlapped.figures.steps_overlapped, 50u);
  EXPECT_GT(overlapped.figures.rows_ahead, 100u);
  EXPECT_GT(overlapped.figures.rows_discarded, 5u);
  EXPECT_GT(overlapped.figures.preemptions, 0u);
  EXPECT_GT(overlapped.figures.prefill_chunks, 10u);
  EXPECT_EQ(overlapped.figures.generated_tokens, plain.figures.generated_tokens);
  for (size_t i = 0; i < plain.seen.size(); ++i) {
    SCOPED_TRACE(i);
    const Seen& a = overlapped.seen[i];
    const Seen& b = plain.seen[i];
    ASSERT_EQ(a.tokens, b.tokens);
    EXPECT_EQ(a.finished->reason, b.finished->reason);
    EXPECT_EQ(a.finished->stop_token, b.finished->stop_token);
    EXPECT_EQ(a.finished->natural_end_step, b.finished->natural_end_step);
    for (size_t step = 0; step < a.samples.size(); ++step) {
      EXPECT_EQ(a.samples[step].logprob, b.samples[step].logprob);
      EXPECT_EQ(a.samples[step].natural_end, b.samples[step].natural_end);
      EXPECT_EQ(a.samples[step].eos.eos_logprob, b.samples[step].eos.eos_logprob);
      EXPECT_EQ(a.samples[step].eos.eos_prob_sampling, b.samples[step].eos.eos_prob_sampling);
    }
  }
}

TEST_P(EngineOverlapTest, ADeviceFaultEndsBothSteps) {
  EngineHarness harness(Options());
  TwoStepsOut(&harness, 3);
  harness.control().FailNextStep();
  harness.control().Resume();
  ASSERT_TRUE(harness.RunUntil([&] { return harness.fault().has_value(); }));
  EXPECT_EQ(ReasonOf(*harness.fault()), Reason::kDeviceFault);
  EXPECT_FALSE(harness.figures().healthy);
  EXPECT_EQ(ReasonOf(harness.engine().Admit(MakeSpec(10, 5)).status()), Reason::kDeviceFault);
  harness.engine().Stop();
  EXPECT_FALSE(harness.engine().events().TryPop());  // nothing follows a fault
  EXPECT_EQ(harness.figures().generated_tokens, 0u);
}

TEST_P(EngineOverlapTest, StopWithTwoStepsOutEndsEverySequence) {
  EngineHarness harness(Options());
  const std::vector<SequenceId> ids = TwoStepsOut(&harness, 3);
  std::thread stopper([&] { harness.engine().Stop(); });
  EXPECT_TRUE(Eventually([&] { return !harness.engine().Admit(MakeSpec(10, 5)).ok(); },
                         std::chrono::seconds(20)));
  harness.control().Resume();
  stopper.join();
  harness.ReadAll();
  for (const SequenceId id : ids) {
    ASSERT_TRUE(harness.seen(id).over());
    EXPECT_EQ(harness.seen(id).finished->reason, FinishReason::kAborted);
  }
  const EngineFigures figures = harness.figures();
  EXPECT_EQ(figures.blocks_free + figures.blocks_cached, figures.blocks_total);
  EXPECT_TRUE(figures.healthy);
}

TEST_P(EngineOverlapTest, DrainWithTwoStepsOutFinishesTheRest) {
  EngineHarness harness(Options());
  const std::vector<SequenceId> ids = TwoStepsOut(&harness, 3);
  harness.engine().Drain();
  EXPECT_EQ(ReasonOf(harness.engine().Admit(MakeSpec(10, 5)).status()), Reason::kDraining);
  harness.control().Resume();
  for (const SequenceId id : ids) {
    ASSERT_TRUE(harness.RunUntilOver(id));
    EXPECT_EQ(harness.seen(id).tokens.size(), 100u);
  }
  EXPECT_TRUE(harness.AllBlocksBack());
}

TEST_P(EngineOverlapTest, CancelAndDeadlineWithTwoStepsOut) {
  base::ManualClock clock;
  auto options = Options();
  options.clock = &clock;
  EngineHarness harness(options);
  SequenceSpec late = MakeSpec(10, 100, 9);
  late.deadline = clock.Now() + milliseconds(50);
  const SequenceId second = harness.Admit(late);
  const SequenceId first = TwoStepsOut(&harness, 1)[0];
  harness.engine().Cancel(first);
  clock.Advance(milliseconds(50));
  harness.control().Resume();
  ASSERT_TRUE(harness.RunUntilOver(first) && harness.RunUntilOver(second));
  EXPECT_EQ(harness.seen(first).finished->reason, FinishReason::kAborted);
  EXPECT_TRUE(harness.AllBlocksBack());
}

TEST_P(EngineOverlapTest, AStalledStepEndsTheEngine) {
  base::ManualClock clock;
  auto options = Options();
  options.clock = &clock;
  options.engine.stall_timeout = milliseconds(80);
  EngineHarness harness(options);
  TwoStepsOut(&harness, 2);
  EXPECT_GE(harness.AdvanceUntilFault(&clock), 3);
  ASSERT_TRUE(harness.fault().has_value());
  harness.control().Resume();
  harness.engine().Stop();
}

TEST_P(EngineOverlapTest, AStepThatWaitsForTheOwnerToReadEventsIsNoStall) {
  base::ManualClock clock;
  auto options = Options();
  options.clock = &clock;
  options.engine.max_model_len = 1000;
  options.engine.stall_timeout = milliseconds(40);
  options.num_blocks = 1500;
  EngineHarness harness(options);
  std::vector<SequenceId> ids;
  for (int32_t i = 0; i < options.engine.max_num_seqs; ++i) {
    SequenceSpec spec = MakeSpec(10, 700, i);
    spec.stop.eos_policy = EosPolicy::kIgnoreContinue;
    ids.push_back(harness.Admit(spec));
  }
  auto& events = harness.engine().events();
  // The engine then waits, with a step in flight.
  ASSERT_TRUE(
      Eventually([&] { return events.size() == events.capacity(); }, std::chrono::seconds(60)));
  for (int32_t i = 0; i < 20; ++i) {
    clock.Advance(milliseconds(40));
    const auto pause = std::chrono::steady_clock::now() + milliseconds(10);
    while (std::chrono::steady_clock::now() < pause) std::this_thread::yield();
  }
  EXPECT_TRUE(harness.figures().healthy);
  for (const SequenceId id : ids) harness.engine().Cancel(id);
  for (const SequenceId id : ids) EXPECT_TRUE(harness.RunUntilOver(id));
  EXPECT_TRUE(harness.AllBlocksBack());
}

TEST_P(EngineOverlapTest, DurationsOfStepsDoNotOverlap) {
  EngineHarness harness(Options());
  harness.Generate(MakeSpec(10, 60));
  // The last step says so after the sequence's end.
  ASSERT_TRUE(harness.RunUntil([&] { return harness.steps().size() >= 60u; }));
  base::Instant end{};
  for (const StepEvent& step : harness.steps()) {
    EXPECT_GE(step.at - step.duration, end);
    end = step.at;
  }
}

INSTANTIATE_TEST_SUITE_P(Runners, EngineOverlapTest,
                         testing::Values(Device::kOwnThread, Device::kEager, Device::kLazy),
                         [](const auto& test) -> std::string {
                           if (test.param == Device::kOwnThread) return "own_thread";
                           return test.param == Device::kEager ? "eager_device" : "lazy_device";
                         });

}  // namespace
}  // namespace baton
