#include "common/metrics/load_log.h"

#include <atomic>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/eventually.h"
#include "tests/fakes/log_text.h"

namespace baton {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class LoadMeterTest : public ::testing::Test {
 protected:
  std::optional<std::string> NextAfter(std::chrono::seconds passed) {
    clock_.Advance(passed);
    return meter_.Next(totals_, clock_.Now());
  }
  std::optional<std::string> Next() { return NextAfter(std::chrono::seconds(10)); }

  base::ManualClock clock_;
  LoadTotals totals_;
  LoadMeter meter_{totals_, clock_.Now()};
};

TEST_F(LoadMeterTest, SaysNothingWhileThereIsNothingToDo) {
  EXPECT_EQ(Next(), std::nullopt);
  EXPECT_EQ(Next(), std::nullopt);
}

TEST_F(LoadMeterTest, ARouterTellsRatesOfTheIntervalAndWhatThereIsNow) {
  totals_ = {.running = 3,
             .waiting = 2,
             .prompt_tokens = 1000,
             .generated_tokens = 255,
             .requests = LoadTotals::Requests{.answered = 7, .failed = 1}};
  EXPECT_EQ(Next(),
            "load: 3 running, 2 waiting; 100.0 prompt and 25.5 generated tokens/s; "
            "in 10.0 s 7 requests answered, 1 failed");
  totals_.requests->answered = 9;
  totals_.generated_tokens = 305;
  EXPECT_EQ(NextAfter(std::chrono::seconds(5)),
            "load: 3 running, 2 waiting; 0.0 prompt and 10.0 generated tokens/s; "
            "in 5.0 s 2 requests answered, 0 failed");
}

TEST_F(LoadMeterTest, AWorkerTellsItsCacheAndTheHitRateOfTheInterval) {
  totals_ = {.running = 1,
             .generated_tokens = 10,
             .cache = LoadTotals::Cache{.usage = 0.125, .queries = 200, .hits = 50}};
  EXPECT_EQ(Next(),
            "load: 1 running, 0 waiting; 0.0 prompt and 1.0 generated tokens/s; "
            "KV cache 12.5% in use, prefix cache hit rate 25.0%");
  totals_.cache->queries = 300;
  totals_.cache->hits = 150;
  EXPECT_THAT(*Next(), HasSubstr("hit rate 100.0%"));
  EXPECT_THAT(*Next(), Not(HasSubstr("hit rate")));
}

TEST_F(LoadMeterTest, WhatWasShortIsToldAndTheEndOnce) {
  totals_.requests = LoadTotals::Requests{.answered = 1};
  totals_.generated_tokens = 5;
  EXPECT_THAT(*Next(), HasSubstr("1 requests answered"));
  EXPECT_EQ(*Next(), "load: idle; 1 requests answered, 0 failed since the start");
  EXPECT_EQ(Next(), std::nullopt);
  totals_.requests->failed = 1;
  EXPECT_THAT(*Next(), HasSubstr("1 failed"));
  EXPECT_THAT(*Next(), HasSubstr("idle"));
  EXPECT_EQ(Next(), std::nullopt);
}

TEST_F(LoadMeterTest, AnIdleWorkerTellsWhatItsCacheStillHolds) {
  totals_.cache = LoadTotals::Cache{.usage = 0.5};
  totals_.running = 1;
  EXPECT_THAT(*Next(), HasSubstr("1 running"));
  totals_.running = 0;
  EXPECT_EQ(*Next(), "load: idle; KV cache 50.0% in use");
}

TEST_F(LoadMeterTest, ARequestThatHangsIsWork) {
  totals_.waiting = 1;
  EXPECT_THAT(*Next(), HasSubstr("1 waiting"));
  EXPECT_THAT(*Next(), HasSubstr("1 waiting"));
}

TEST(LogLoadEvery, LogsOnItsTimerUntilItStops) {
  const LogText text;
  const base::SteadyClock clock;
  std::atomic<int> reads{0};
  base::TimerQueue timers(&clock);
  LogLoadEvery(base::Duration::zero(), &clock, &timers, [&] {
    ADD_FAILURE() << "zero is off";
    return LoadTotals();
  });
  LogLoadEvery(std::chrono::milliseconds(1), &clock, &timers,
               [&] { return LoadTotals{.running = ++reads}; });
  EXPECT_TRUE(Eventually([&] { return reads >= 3; }));
  timers.Stop();
  EXPECT_THAT(text.str(), HasSubstr("load: 2 running"));
}

}  // namespace
}  // namespace baton
