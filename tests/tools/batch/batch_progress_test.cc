#include "tools/batch/batch_progress.h"

#include "gtest/gtest.h"

namespace baton::batch {
namespace {

TEST(BatchProgress, SaysHowFarItIsAndHowLongItTakes) {
  const BatchProgress progress = {.elapsed_s = 10,
                                  .lines = 1000,
                                  .done = 129,
                                  .done_now = 120,
                                  .failed = 3,
                                  .under_way = 64,
                                  .tokens = 4100,
                                  .cost_done = 50,
                                  .cost_left = 430,
                                  .trouble = ""};
  EXPECT_EQ(
      ProgressText(progress),
      "129 of 1000 lines (12 %)  3 failed  64 under way  12.0 lines/s  410 tokens/s  1 min 26 "
      "s left");
}

TEST(BatchProgress, ForetellsNothingFromNothing) {
  EXPECT_EQ(ProgressText({.elapsed_s = 2, .lines = 4, .done = 1, .done_now = 1, .cost_done = 1}),
            "1 of 4 lines (25 %)  0 failed  0 under way  0.5 lines/s  0 tokens/s");
  EXPECT_EQ(
      ProgressText({.elapsed_s = 60, .lines = 4, .trouble = "HTTP 503"}),
      "0 of 4 lines (0 %)  0 failed  0 under way  0.0 lines/s  0 tokens/s  waiting: HTTP 503");
  EXPECT_EQ(ProgressText({}), "0 of 0 lines (100 %)  0 failed  0 under way");
}

TEST(BatchProgress, TimesAreWrittenAsPeopleDo) {
  EXPECT_EQ(TimeText(0.2), "1 s");
  EXPECT_EQ(TimeText(60), "1 min 0 s");
  EXPECT_EQ(TimeText(3 * 3600 + 5 * 60 + 7), "3 h 5 min");
}

}  // namespace
}  // namespace baton::batch
