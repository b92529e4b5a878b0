#include "tools/sim/fit_cost.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "tests/tools/eos/log_files.h"
#include "tools/sim/step_cost.h"

namespace baton::simulator {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class FitCostTest : public LogFilesTest {};

constexpr StepCost kTruth = {
    .step = 900, .row = 25, .prompt_token = 11, .kv_token = 0.02, .product = 0.003};

// What bench_model would print if steps took what `cost` says, but for `noise`.
std::string BenchOutput(const StepCost& cost, double noise = 0) {
  std::mt19937 dice(3);
  std::uniform_real_distribution<double> off(1 - noise, 1 + noise);
  nlohmann::json figures;
  for (const int count : {1, 4}) {
    for (const int tokens : {16, 128, 512}) {
      const StepWork work = {.prompt_tokens = 1.0 * count * tokens,
                             .products = 0.5 * count * tokens * (tokens + 1)};
      figures["prefill"].push_back({{"count", count},
                                    {"tokens", tokens},
                                    {"ms", off(dice) * cost.Microseconds(work) / 1e3}});
    }
  }
  for (const int batch : {1, 8, 64}) {
    for (const int context : {64, 512, 2048}) {
      const StepWork work = {.rows = 1.0 * batch, .kv_tokens = batch * (context + 8.0)};
      figures["decode"].push_back({{"batch", batch},
                                   {"context", context},
                                   {"mean_context", context + 8.0},
                                   {"ms", off(dice) * cost.Microseconds(work) / 1e3}});
    }
  }
  return "load: packed in 1 s\n" + figures.dump() + "\n";
}

TEST_F(FitCostTest, FindsTheCostsThatMadeTheTimes) {
  const auto steps = ReadMeasuredSteps({File("bench", BenchOutput(kTruth))});
  ASSERT_TRUE(steps.ok()) << steps.status();
  EXPECT_EQ(steps->size(), 15U);
  const auto report = FitAndCheck(*steps, 1);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->fitted, 12);
  EXPECT_EQ(report->kept_aside, 3);
  EXPECT_NEAR(report->cost.step, 900, 1e-3);
  EXPECT_NEAR(report->cost.row, 25, 1e-3);
  EXPECT_NEAR(report->cost.prompt_token, 11, 1e-4);
  EXPECT_NEAR(report->cost.kv_token, 0.02, 1e-5);
  EXPECT_NEAR(report->cost.product, 0.003, 1e-6);
  EXPECT_LT(report->aside_error, 1e-6);
}

TEST_F(FitCostTest, TellsHowFarItIsOff) {
  const auto steps = ReadMeasuredSteps({File("bench", BenchOutput(kTruth, 0.1))});
  ASSERT_TRUE(steps.ok()) << steps.status();
  const auto report = FitAndCheck(*steps, 1);
  ASSERT_TRUE(report.ok());
  EXPECT_GT(report->aside_error, 0.005);
  EXPECT_LT(report->aside_error, 0.2);
  EXPECT_GE(report->aside_worst, report->aside_error);
  EXPECT_THAT(report->worst_where, HasSubstr("bench: "));
}

TEST_F(FitCostTest, NoCostIsBelowZero) {
  // Steps with more rows are faster here, which least squares alone would call a negative cost.
  std::vector<MeasuredStep> steps;
  for (int rows = 1; rows <= 16; ++rows) {
    steps.push_back(
        {.work = {.rows = 1.0 * rows}, .microseconds = 1000.0 - 10 * rows, .where = ""});
  }
  const StepCost cost = FitCost(steps);
  EXPECT_EQ(cost.row, 0);
  EXPECT_GT(cost.step, 800);
}

std::string Page(double steps, double seconds, double tokens, double rows) {
  return "# TYPE baton_iteration_tokens histogram\n"
         "baton_iteration_tokens_sum " +
         std::to_string(tokens) +
         "\n"
         "baton_iteration_duration_seconds_count{phase=\"decode\"} " +
         std::to_string(steps) +
         "\n"
         "baton_iteration_duration_seconds_sum{phase=\"decode\"} " +
         std::to_string(seconds) +
         "\n"
         "baton_batch_size_sum{phase=\"prefill\"} 5\n"
         "baton_batch_size_sum{phase=\"decode\"} " +
         std::to_string(rows) + "\n";
}

TEST_F(FitCostTest, TheStepsBetweenTwoPagesAreASample) {
  const auto steps = ReadMeasuredSteps(
      {File("a", Page(10, 1, 100, 50)), File("b", Page(30, 1.5, 400, 150)),
       File("idle", Page(30, 1.5, 400, 150)), File("restarted", Page(5, 0.1, 10, 5))});
  ASSERT_TRUE(steps.ok()) << steps.status();
  ASSERT_EQ(steps->size(), 1U);
  EXPECT_DOUBLE_EQ((*steps)[0].work.rows, 5);
  EXPECT_DOUBLE_EQ((*steps)[0].work.prompt_tokens, 10);
  EXPECT_NEAR((*steps)[0].microseconds, 25'000, 1e-6);
}

TEST_F(FitCostTest, RefusesWhatIsNoMeasurement) {
  EXPECT_THAT(std::string(ReadMeasuredSteps({Path("absent")}).status().message()),
              HasSubstr("cannot read"));
  EXPECT_THAT(std::string(ReadMeasuredSteps({File("x", "hello world foo\n")}).status().message()),
              HasSubstr("bench_model --json"));
  EXPECT_THAT(std::string(ReadMeasuredSteps({File("p", "up 1\n")}).status().message()),
              HasSubstr("no baton_iteration_duration_seconds"));
  EXPECT_THAT(std::string(ReadMeasuredSteps({File("d", R"({"decode": [{"batch": 1, "ms": 2}]})")})
                              .status()
                              .message()),
              AllOf(HasSubstr("decode[0].context"), HasSubstr("a number above 0")));
  EXPECT_THAT(std::string(FitAndCheck(std::vector<MeasuredStep>(3), 1).status().message()),
              AllOf(HasSubstr("found 3"), HasSubstr("at least 8")));
}

// Closed loops of so many rows each, whose steps take what `cost` says, but for `noise`.
std::vector<MeasuredStep> Loops(const StepCost& cost, double noise, int times = 3,
                                uint32_t seed = 7) {
  std::mt19937 dice(seed);
  std::uniform_real_distribution<double> off(1 - noise, 1 + noise);
  std::vector<MeasuredStep> steps;
  for (int time = 0; time < times; ++time) {
    for (const double rows : {1, 2, 3, 4, 5, 7, 10, 14, 20, 28, 40}) {
      const StepWork work = {.rows = rows, .prompt_tokens = 3.0 * (steps.size() % 5)};
      steps.push_back({work, off(dice) * cost.Microseconds(work), ""});
    }
  }
  return steps;
}

TEST(FitRowsTest, FindWhereTheyBend) {
  StepCost truth = {.step = 100, .row = 38, .prompt_token = 20};
  truth.row_bends[0] = {.beyond = 8, .more = 30};
  const StepCost exact = FitCost(Loops(truth, 0));
  EXPECT_EQ(exact.row_bends[0].beyond, 8);
  EXPECT_NEAR(exact.row_bends[0].more, 30, 1e-3);
  EXPECT_EQ(exact.row_bends[1].more, 0);
  EXPECT_NEAR(exact.row, 38, 1e-3);
  const StepCost noisy = FitCost(Loops(truth, 0.03));
  for (const double rows : {1.0, 6.0, 16.0, 40.0}) {
    const StepWork work = {.rows = rows};
    EXPECT_NEAR(noisy.Microseconds(work) / truth.Microseconds(work), 1, 0.03) << rows;
  }
}

TEST(FitRowsTest, BendTwiceIfTheyDo) {
  StepCost truth = {.step = 100, .row = 20, .prompt_token = 20};
  truth.row_bends[0] = {.beyond = 3, .more = 20};
  truth.row_bends[1] = {.beyond = 16, .more = 60};
  const StepCost cost = FitCost(Loops(truth, 0));
  EXPECT_EQ(cost.row_bends[0].beyond, 3);
  EXPECT_NEAR(cost.row_bends[0].more, 20, 1e-3);
  EXPECT_EQ(cost.row_bends[1].beyond, 16);
  EXPECT_NEAR(cost.row_bends[1].more, 60, 1e-3);
}

TEST(FitRowsTest, StayStraightWithoutAReason) {
  const auto bends = [](const StepCost& cost) {
    return std::ranges::count_if(cost.row_bends, [](const RowBend& b) { return b.more != 0; });
  };
  const StepCost straight = {.step = 100, .row = 38, .prompt_token = 20};
  EXPECT_EQ(bends(FitCost(Loops(straight, 0))), 0);
  int bent_by_noise = 0;
  for (uint32_t seed = 1; seed <= 20; ++seed) {
    if (bends(FitCost(Loops(straight, 0.1, 3, seed))) > 0) ++bent_by_noise;
  }
  EXPECT_LE(bent_by_noise, 3);
  // Rows that become cheaper are not what a bend says.
  std::vector<MeasuredStep> cheaper = Loops(straight, 0);
  for (MeasuredStep& step : cheaper) {
    step.microseconds -= 20 * std::max(0.0, step.work.rows - 8);
  }
  EXPECT_EQ(bends(FitCost(cheaper)), 0);
  // Too few samples to know it from.
  StepCost bent = straight;
  bent.row_bends[0] = {.beyond = 8, .more = 30};
  EXPECT_EQ(bends(FitCost(Loops(bent, 0, 1))), 0);
}

}  // namespace
}  // namespace baton::simulator
