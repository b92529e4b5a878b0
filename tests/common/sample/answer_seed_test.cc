#include "common/sample/answer_seed.h"

#include <gtest/gtest.h>

#include <set>

namespace baton {
namespace {

TEST(AnswerSeedTest, TheFirstAnswerHasTheRequestsOwn) {
  EXPECT_EQ(SeedOfAnswer(0, 0), 0U);
  EXPECT_EQ(SeedOfAnswer(42, 0), 42U);
}

// The first outputs of SplitMix64 from the state 1234567, as published with the generator.
TEST(AnswerSeedTest, FurtherAnswersHaveTheOutputsOfSplitMix64) {
  const uint64_t outputs[] = {6457827717110365317U, 3203168211198807973U, 9817491932198370423U,
                              4593380528125082431U, 16408922859458223821U};
  for (int32_t index = 1; index <= 5; ++index) {
    EXPECT_EQ(SeedOfAnswer(1234567, index), outputs[index - 1]) << index;
  }
}

TEST(AnswerSeedTest, SeedsDifferWithinARequestAndBetweenNeighbours) {
  std::set<uint64_t> seeds;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    for (int32_t index = 1; index < 64; ++index) seeds.insert(SeedOfAnswer(seed, index));
  }
  EXPECT_EQ(seeds.size(), 50U * 63U);
}

}  // namespace
}  // namespace baton
