#include "common/roles/role_view.h"

#include <gtest/gtest.h>

#include <vector>

#include "common/roles/prompt_load.h"

namespace baton {
namespace {

using std::chrono::milliseconds;

TEST(SignalsOf, NothingWasToldIsNothing) {
  const RoleSignals signals = SignalsOf({});
  EXPECT_EQ(signals.prompt_wait_s, 0);
  EXPECT_EQ(signals.decode_fill, 0);
}

TEST(SignalsOf, QueuesOfRoutersAddUpAndWorkersCountOnce) {
  ClusterView one{.prefill = {.workers = 2, .queued_prompt_tokens = 1000},
                  .decode = {.workers = 4, .fill = 2},
                  .waiting_prompt_tokens = 500,
                  .prompt_token_s = 0.001,
                  .prompt_load = 1.5};
  ClusterView other = one;
  other.decode = {.workers = 3, .fill = 3};  // it does not know all of them yet
  other.waiting_prompt_tokens = 700;
  const RoleSignals signals = SignalsOf(std::vector{other, one});
  EXPECT_DOUBLE_EQ(signals.prompt_wait_s, 0.001 * (500 + 700 + 1000) / 2);
  EXPECT_DOUBLE_EQ(signals.prefill_load, 0.75);
  EXPECT_DOUBLE_EQ(signals.decode_fill, 0.5);
}

TEST(FillOf, IsTheNearestOfSeatsBlocksAndTime) {
  const DecodeWork work{.sequences = 8,
                        .seats = 16,
                        .blocks_used = 25,
                        .blocks_total = 100,
                        .block_size = 10,
                        .expected_tokens = 1000,
                        .step_s = 0.03,
                        .target_s = 0.04};
  EXPECT_DOUBLE_EQ(FillOf(work), 0.75);  // of the time
  DecodeWork untimed = work;
  untimed.target_s = 0;
  EXPECT_DOUBLE_EQ(FillOf(untimed), 0.75);  // 25 blocks, and half of 100 that are foreseen
  untimed.expected_tokens = 0;
  EXPECT_DOUBLE_EQ(FillOf(untimed), 0.5);  // of the seats
  untimed.sequences = 0;
  EXPECT_DOUBLE_EQ(FillOf(untimed), 0.25);
  DecodeWork idle = work;
  idle.sequences = 0;  // what steps took last says nothing then
  idle.expected_tokens = 0;
  EXPECT_DOUBLE_EQ(FillOf(idle), 0.25);
  EXPECT_DOUBLE_EQ(FillOf({}), 0);
}

TEST(PromptLoad, FollowsTheShareOfTimeThatPromptsTakeAndComesToRest) {
  PromptLoad load;
  base::Instant now{std::chrono::hours(1)};
  uint64_t computed = 5000;  // before anybody looked
  EXPECT_EQ(load.Note(computed, 0.001, now), 0);
  for (int i = 0; i < 40; ++i) {
    now += milliseconds(50);
    computed += 25;  // half of the time
    load.Note(computed, 0.001, now);
  }
  EXPECT_NEAR(load.Note(computed, 0.001, now), 0.45, 0.05);
  for (int i = 0; i < 40; ++i) load.Note(computed, 0.001, now += milliseconds(500));
  EXPECT_EQ(load.Note(computed, 0.001, now), 0);
}

TEST(PromptLoad, ACountThatBeginsAnewIsNoWork) {
  PromptLoad load;
  base::Instant now{std::chrono::hours(1)};
  load.Note(1000, 0.001, now);
  EXPECT_EQ(load.Note(10, 0.001, now + milliseconds(500)), 0);
}

}  // namespace
}  // namespace baton
