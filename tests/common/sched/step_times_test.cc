#include "common/sched/step_times.h"

#include <gtest/gtest.h>

#include <chrono>

namespace baton {
namespace {

using std::chrono::microseconds;

// A step takes 5 ms, a row 100 us and a prompt token 20 us.
void Compute(StepTimes* times, int32_t prompt_tokens, int32_t rows) {
  const StepShape shape = {.prefill_tokens = prompt_tokens,
                           .decode_tokens = rows,
                           .prefill_sequences = prompt_tokens > 0 ? 1 : 0,
                           .decode_sequences = rows};
  times->Note(shape, microseconds(5000 + 100 * rows + 20 * prompt_tokens));
}

TEST(StepTimesTest, OfAPrefillWorkerAreReadFromStepsOfManySizes) {
  StepTimes times;
  for (int i = 0; i < 20; ++i) Compute(&times, 100 + 37 * i, 0);
  EXPECT_NEAR(times.prompt_token_s(), 20e-6, 1e-9);
  EXPECT_NEAR(times.step_s(), 5e-3, 1e-6);
}

TEST(StepTimesTest, OfADecodeWorkerAreWhatPromptsAddToItsSteps) {
  StepTimes times;
  for (int i = 0; i < 20; ++i) {
    Compute(&times, 0, 30);
    Compute(&times, 100 + 37 * i, 30);
  }
  EXPECT_NEAR(times.prompt_token_s(), 20e-6, 1e-9);
  EXPECT_NEAR(times.step_s(), 8e-3, 1e-6);
}

TEST(StepTimesTest, FollowTheStepsOfNow) {
  StepTimes times;
  for (int i = 0; i < 100; ++i) Compute(&times, 0, 10);
  for (int i = 0; i < 200; ++i) Compute(&times, 0, 100);
  EXPECT_NEAR(times.step_s(), 15e-3, 1e-4);
}

TEST(StepTimesTest, ATokenIsToldOfAfterEnoughSteps) {
  StepTimes times;
  Compute(&times, 0, 0);  // an empty step says nothing
  EXPECT_EQ(times.step_s(), 0);
  for (int64_t i = 1; i < StepTimes::kEnough; ++i) Compute(&times, 100, 0);
  EXPECT_EQ(times.prompt_token_s(), 0);
  Compute(&times, 200, 0);
  EXPECT_GT(times.prompt_token_s(), 0);
}

}  // namespace
}  // namespace baton
