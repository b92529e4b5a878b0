#include "tools/bench/figures/slo.h"

#include <gtest/gtest.h>

#include "tests/tools/bench/figures/records.h"

namespace baton::bench {
namespace {

std::string ErrorOf(const std::string& text, double tokens_per_word = 1.3) {
  const absl::StatusOr<Slo> slo = ParseSlo(text, tokens_per_word);
  return slo.ok() ? "" : std::string(slo.status().message());
}

TEST(ParseSlo, ReadsLimitsAndPercentile) {
  const absl::StatusOr<Slo> slo =
      ParseSlo("ttft=200ms,tpot=50,itl=80ms,e2e=10s,max-gap=1.5s,percentile=95", 0);
  ASSERT_TRUE(slo.ok()) << slo.status();
  ASSERT_EQ(slo->limits.size(), 5U);
  EXPECT_DOUBLE_EQ(slo->limits[0].limit_ms, 200);
  EXPECT_DOUBLE_EQ(slo->limits[1].limit_ms, 50);
  EXPECT_DOUBLE_EQ(slo->limits[3].limit_ms, 10'000);
  EXPECT_EQ(slo->limits[4].metric, SloMetric::kMaxGap);
  EXPECT_DOUBLE_EQ(slo->percentile, 95);
  EXPECT_EQ(SloText(*ParseSlo("ttft=200ms,tpot=50ms", 0)),
            "ttft <= 200 ms and tpot <= 50 ms at P99");
}

TEST(ParseSlo, DerivesTpotFromAReader) {
  const absl::StatusOr<Slo> slo = ParseSlo("reader=silent,ttft=1s", 1.3);
  ASSERT_TRUE(slo.ok()) << slo.status();
  EXPECT_EQ(slo->reader, "silent");
  EXPECT_EQ(slo->limits[0].metric, SloMetric::kTpot);
  EXPECT_NEAR(slo->limits[0].limit_ms, 60'000 / (238 * 1.3), 1e-9);
  EXPECT_TRUE(SloNamesReader("reader=silent"));
  EXPECT_FALSE(SloNamesReader("tpot=50ms"));
  // Slower readers leave more time.
  EXPECT_GT(ParseSlo("reader=listening", 1.3)->limits[0].limit_ms, slo->limits[0].limit_ms);
  EXPECT_LT(ParseSlo("reader=visual", 1.3)->limits[0].limit_ms, slo->limits[0].limit_ms);
}

TEST(ParseSlo, RefusesWhatItCannotHold) {
  EXPECT_NE(ErrorOf("").find("name=value"), std::string::npos);
  EXPECT_NE(ErrorOf("percentile=95").find("limits nothing"), std::string::npos);
  EXPECT_NE(ErrorOf("tfft=200ms").find("unknown name 'tfft'"), std::string::npos);
  EXPECT_NE(std::string(ParseSlo("foo=1s", 0, "ttft or e2e").status().message())
                .find("expected ttft or e2e, and perhaps percentile"),
            std::string::npos);
  EXPECT_NE(ErrorOf("ttft=0").find("above 0"), std::string::npos);
  EXPECT_NE(ErrorOf("ttft=fast").find("expected a time"), std::string::npos);
  EXPECT_NE(ErrorOf("ttft=1s,ttft=2s").find("twice"), std::string::npos);
  EXPECT_NE(ErrorOf("tpot=1s,reader=silent").find("twice"), std::string::npos);
  EXPECT_NE(ErrorOf("reader=deaf").find("silent, listening or visual"), std::string::npos);
  EXPECT_NE(ErrorOf("reader=silent", 0).find("give tpot= instead"), std::string::npos);
  EXPECT_NE(ErrorOf("ttft=1s,percentile=100").find("1 to 99.99"), std::string::npos);
  EXPECT_NE(ErrorOf("ttft=1s,percentile=p99").find("1 to 99.99"), std::string::npos);
}

TEST(SloCounts, OneSamplePerRequestAndOnePerGap) {
  const RequestRecord record = RecordOf(0, 1.0, {1.1, 1.2, 1.5});
  SloCount ttft{.limit = {SloMetric::kTtft, 99}};
  SloCount itl{.limit = {SloMetric::kItl, 150}};
  SloCount tpot{.limit = {SloMetric::kTpot, 201}};  // (0.5 - 0.1) / 2 = 200 ms
  CountAgainst(record, &ttft);
  CountAgainst(record, &itl);
  CountAgainst(record, &tpot);
  EXPECT_EQ(ttft.samples, 1);
  EXPECT_EQ(ttft.violations, 1);
  EXPECT_EQ(itl.samples, 2);
  EXPECT_EQ(itl.violations, 1);
  EXPECT_EQ(tpot.violations, 0);
}

TEST(SloCounts, ASingleTokenHoldsTpotAsInVllm) {
  SloCount tpot{.limit = {SloMetric::kTpot, 0.001}};
  CountAgainst(RecordOf(0, 0, {5}), &tpot);
  EXPECT_EQ(tpot.samples, 1);
  EXPECT_EQ(tpot.violations, 0);
}

TEST(IsGood, WantsEveryLimitKept) {
  const RequestRecord record = RecordOf(0, 0, {0.1, 0.2, 0.5});
  EXPECT_TRUE(IsGood(record, *ParseSlo("ttft=101ms,max-gap=301ms", 0)));
  EXPECT_FALSE(IsGood(record, *ParseSlo("ttft=99ms,max-gap=301ms", 0)));
  EXPECT_FALSE(IsGood(record, *ParseSlo("ttft=101ms,max-gap=299ms", 0)));
  EXPECT_FALSE(IsGood(record, *ParseSlo("e2e=499ms", 0)));
}

}  // namespace
}  // namespace baton::bench
