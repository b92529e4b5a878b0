#include "tools/batch/line_refusals.h"

#include <gtest/gtest.h>

namespace baton::batch {
namespace {

TEST(LineRefusals, CountWhileOthersAreAnsweredOnly) {
  LineRefusals refusals(5);
  for (int i = 0; i < 100; ++i) refusals.Count(5, 0);
  EXPECT_FALSE(refusals.any()) << "nobody is answered";
  refusals.Count(8, 4);
  EXPECT_FALSE(refusals.any()) << "those that were under way are, and no more";
  refusals.Count(9, 4);
  EXPECT_TRUE(refusals.any());
  LineRefusals among_many;
  among_many.Count(8, 1000);
  EXPECT_TRUE(among_many.any());
}

TEST(LineRefusals, AreEnoughAfterSomeRounds) {
  LineRefusals refusals;
  int64_t answers = 0;
  for (int round = 0; round < LineRefusals::kMost; ++round) {
    EXPECT_FALSE(refusals.enough());
    answers += 3;
    // However often it is refused within a round.
    for (int i = 0; i < 50; ++i) refusals.Count(answers, 3);
  }
  EXPECT_TRUE(refusals.enough());
}

}  // namespace
}  // namespace baton::batch
