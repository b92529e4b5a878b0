#include "tools/bench/plan/length_distribution.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/common/text/test_files.h"

namespace baton::bench {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kDrawSeed = 20261121;

LengthDistribution Parsed(std::string_view text, LengthSide side = LengthSide::kInput) {
  const auto parsed = LengthDistribution::Parse(text, side);
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  return *parsed;
}

std::vector<int32_t> Sorted(const LengthDistribution& lengths, int count) {
  Draws draws(kDrawSeed, Purpose::kInput);
  std::vector<int32_t> drawn;
  for (int i = 0; i < count; ++i) drawn.push_back(lengths.Draw(&draws));
  std::sort(drawn.begin(), drawn.end());
  return drawn;
}

double Quantile(const std::vector<int32_t>& sorted, double q) {
  return sorted[static_cast<size_t>(q * static_cast<double>(sorted.size() - 1))];
}

TEST(LengthDistributionTest, NumberIsThatNumber) {
  const LengthDistribution lengths = Parsed("128");
  EXPECT_TRUE(lengths.fixed());
  EXPECT_EQ(lengths.max(), 128);
  const auto drawn = Sorted(lengths, 100);
  EXPECT_EQ(drawn.front(), 128);
  EXPECT_EQ(drawn.back(), 128);
}

TEST(LengthDistributionTest, RangeIsUniformWithBothEnds) {
  const LengthDistribution lengths = Parsed("3:6");
  EXPECT_FALSE(lengths.fixed());
  const auto drawn = Sorted(lengths, 40000);
  for (int32_t value = 3; value <= 6; ++value) {
    EXPECT_NEAR(static_cast<double>(std::count(drawn.begin(), drawn.end(), value)), 10000, 400);
  }
  EXPECT_EQ(drawn.front(), 3);
  EXPECT_EQ(drawn.back(), 6);
  EXPECT_TRUE(Parsed("7:7").fixed());
}

TEST(LengthDistributionTest, LognormalHasTheAskedMedianAndP99) {
  const auto drawn = Sorted(Parsed("lognormal:200,1500"), 100000);
  EXPECT_NEAR(Quantile(drawn, 0.5), 200, 4);
  EXPECT_NEAR(Quantile(drawn, 0.99), 1500, 60);
}

TEST(LengthDistributionTest, ExponentialAndNormalHaveTheAskedMoments) {
  double sum = 0;
  for (const int32_t n : Sorted(Parsed("exp:100"), 100000)) sum += n;
  EXPECT_NEAR(sum / 100000, 100, 1.5);
  const auto drawn = Sorted(Parsed("normal:500,50"), 100000);
  EXPECT_NEAR(Quantile(drawn, 0.5), 500, 1.5);
  EXPECT_NEAR(Quantile(drawn, 0.8413447), 550, 1.5);
}

TEST(LengthDistributionTest, NoLengthIsBelowOne) {
  EXPECT_EQ(Sorted(Parsed("normal:2,50"), 10000).front(), 1);
  EXPECT_EQ(Sorted(Parsed("exp:1"), 10000).front(), 1);
}

TEST(LengthDistributionTest, NamedOnesFollowTheirTraces) {
  const struct {
    const char* name;
    LengthSide side;
    double median, p99;
  } kExpected[] = {
      {"chat", LengthSide::kInput, 1020, 4142},      {"chat", LengthSide::kOutput, 129, 601},
      {"code", LengthSide::kInput, 1469, 7436},      {"code", LengthSide::kOutput, 13, 252},
      {"reasoning", LengthSide::kInput, 269, 24584}, {"reasoning", LengthSide::kOutput, 739, 13148},
      {"summarize", LengthSide::kOutput, 167, 714},
  };
  for (const auto& expected : kExpected) {
    const auto drawn = Sorted(Parsed(expected.name, expected.side), 100000);
    EXPECT_NEAR(Quantile(drawn, 0.5) / expected.median, 1, 0.06) << expected.name;
    EXPECT_NEAR(Quantile(drawn, 0.99) / expected.p99, 1, 0.08) << expected.name;
  }
  const auto reasoning = Sorted(Parsed("reasoning", LengthSide::kOutput), 100000);
  EXPECT_NEAR(Quantile(reasoning, 0.1) / 286, 1, 0.08);
  EXPECT_NEAR(Quantile(reasoning, 0.9) / 2835, 1, 0.08);
}

TEST(LengthDistributionTest, DrawsDependOnSeedAndPurposeAlone) {
  const LengthDistribution lengths = Parsed("chat");
  Draws one(1, Purpose::kInput), again(1, Purpose::kInput), other(2, Purpose::kInput),
      output(1, Purpose::kOutput);
  int32_t equal_seed = 0, equal_purpose = 0;
  for (int i = 0; i < 1000; ++i) {
    const int32_t drawn = lengths.Draw(&one);
    EXPECT_EQ(drawn, lengths.Draw(&again));
    equal_seed += drawn == lengths.Draw(&other) ? 1 : 0;
    equal_purpose += drawn == lengths.Draw(&output) ? 1 : 0;
  }
  EXPECT_LT(equal_seed, 10);
  EXPECT_LT(equal_purpose, 10);
}

// Fails when the generator or a formula changes, which would make old seeds mean other plans.
TEST(LengthDistributionTest, DrawsAreTheSameOnEveryPlatform) {
  const LengthDistribution lengths = Parsed("chat");
  Draws draws(7, Purpose::kInput);
  std::vector<int32_t> drawn;
  for (int i = 0; i < 6; ++i) drawn.push_back(lengths.Draw(&draws));
  EXPECT_THAT(drawn, ::testing::ElementsAre(865, 1252, 606, 2628, 1627, 1133));
}

TEST(LengthDistributionTest, RefusesWhatIsNoLengthAndNamesTheForms) {
  for (const char* text : {"",
                           "0",
                           "-5",
                           "1.5",
                           "nan",
                           "20000000",
                           "5:3",
                           "0:3",
                           "3:",
                           ":3",
                           "1:2:3",
                           "3:x",
                           "gamma",
                           "lognormal:100",
                           "lognormal:100,50",
                           "lognormal:0,50",
                           "exp:",
                           "exp:0",
                           "exp:1,2",
                           "normal:10",
                           "normal:10,0",
                           "normal:inf,1",
                           "weibull:1,2",
                           "chat ",
                           "chat:3"}) {
    const auto parsed = LengthDistribution::Parse(text, LengthSide::kInput);
    ASSERT_FALSE(parsed.ok()) << text;
    const std::string message(parsed.status().message());
    EXPECT_THAT(message, HasSubstr("'" + std::string(text) + "'"));
    EXPECT_THAT(message, HasSubstr("lognormal:MEDIAN,P99"));
  }
}

TEST(LengthDistributionTest, SaysItsParameters) {
  EXPECT_EQ(Parsed("chat").Describe(), "chat: lognormal, median 1020, P99 4142");
  EXPECT_EQ(Parsed("3:6").Describe(), "3:6: uniform from 3 to 6");
}

TEST(LengthDistributionTest, TheDocumentHasTheParameters) {
  const std::string document =
      baton::testing::ReadFile(baton::testing::SourcePath("docs/bench.md"));
  for (const std::string name : {"chat", "code", "summarize", "reasoning"}) {
    const auto parameters = [&](LengthSide side) {
      return Parsed(name, side).Describe().substr(name.size() + 2);
    };
    EXPECT_THAT(document, HasSubstr("| `" + name + "` | " + parameters(LengthSide::kInput) + " | " +
                                    parameters(LengthSide::kOutput) + " |"));
  }
}

}  // namespace
}  // namespace baton::bench
