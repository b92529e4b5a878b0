#include "common/speculate/proposal_pace.h"

#include <gtest/gtest.h>

namespace baton {
namespace {

TEST(ProposalPaceTest, ProposesTwiceAsMuchWhereAllOfItWasDrawn) {
  ProposalPace pace(10);
  EXPECT_EQ(pace.Next(100, 0, 0), ProposalPace::kFirst);
  EXPECT_EQ(pace.Next(104, 3, 3), 6);
  EXPECT_EQ(pace.Next(111, 9, 9), 10) << "no more than it may";
  EXPECT_EQ(pace.Next(112, 10, 10), 10) << "a proposal that was cut short says nothing against it";
  EXPECT_EQ(ProposalPace(2).Next(0, 0, 0), 2);
}

TEST(ProposalPaceTest, ProposesOneMoreThanWasDrawn) {
  ProposalPace pace(10);
  pace.Next(100, 0, 0);
  EXPECT_EQ(pace.Next(102, 3, 1), 2);
  EXPECT_EQ(pace.Next(110, 11, 7), 7);
}

TEST(ProposalPaceTest, PausesLongerEachTimeNothingWasDrawn) {
  ProposalPace pace(8);
  int64_t length = 100, fed = 0;
  pace.Next(length, fed, 0);
  for (int32_t pause = ProposalPace::kShortestPause; pause < 300; pause *= 2) {
    fed += 1;
    length += 1;
    const int32_t expected = pause < ProposalPace::kLongestPause ? pause : 64;
    for (int32_t i = 0; i < expected; ++i) EXPECT_EQ(pace.Next(length + i, fed, 0), 0) << pause;
    length += expected;
    EXPECT_EQ(pace.Next(length, fed, 0), 1) << pause;
  }
  EXPECT_EQ(pace.Next(length + 2, fed + 1, 1), 2) << "one success forgets them";
  EXPECT_EQ(pace.Next(length + 3, fed + 2, 1), 0);
  EXPECT_EQ(pace.Next(length + 3 + ProposalPace::kShortestPause, fed + 2, 1), 1);
}

}  // namespace
}  // namespace baton
