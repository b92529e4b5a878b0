#include "tools/sim/step_cost.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "nlohmann/json.hpp"

namespace baton::simulator {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr StepCost kStraight = {
    .step = 900, .row = 25, .prompt_token = 11, .kv_token = 0.02, .product = 0.003};

StepCost Bent() {
  StepCost cost = kStraight;
  cost.row_bends[0] = {.beyond = 8, .more = 15};
  cost.row_bends[1] = {.beyond = 24, .more = 2.5};
  return cost;
}

void ExpectEqual(const StepCost& read, const StepCost& written) {
  EXPECT_EQ(read.step, written.step);
  EXPECT_EQ(read.row, written.row);
  EXPECT_EQ(read.prompt_token, written.prompt_token);
  EXPECT_EQ(read.kv_token, written.kv_token);
  EXPECT_EQ(read.product, written.product);
  for (size_t i = 0; i < kMostRowBends; ++i) {
    EXPECT_EQ(read.row_bends[i].beyond, written.row_bends[i].beyond) << i;
    EXPECT_EQ(read.row_bends[i].more, written.row_bends[i].more) << i;
  }
}

TEST(StepCostTest, AFileSaysWhatWasWritten) {
  for (const StepCost& cost : {kStraight, Bent()}) {
    const auto read = ParseStepCost(CostJson(cost, "a test"), "f");
    ASSERT_TRUE(read.ok()) << read.status();
    ExpectEqual(*read, cost);
  }
  EXPECT_THAT(CostJson(kStraight, "a test"), Not(HasSubstr("row_beyond")));
}

TEST(StepCostTest, RowsBeyondABendCostMore) {
  const StepCost cost = Bent();
  EXPECT_DOUBLE_EQ(cost.Rows(0), 0);
  EXPECT_DOUBLE_EQ(cost.Rows(8), 8 * 25);
  EXPECT_DOUBLE_EQ(cost.Rows(10), 10 * 25 + 2 * 15);
  EXPECT_DOUBLE_EQ(cost.Rows(30), 30 * 25 + 22 * 15 + 6 * 2.5);
  EXPECT_DOUBLE_EQ(cost.Microseconds({.rows = 10, .prompt_tokens = 2}), 900 + 280 + 22);
}

std::string Message(const std::string& text) {
  return std::string(ParseStepCost(text, "f.json").status().message());
}

TEST(StepCostTest, RefusesWhatIsNoCost) {
  EXPECT_THAT(Message("[]"), HasSubstr("f.json: found no step costs"));
  EXPECT_THAT(Message(R"({"schema": "baton.step_cost/1"})"), HasSubstr("no \"us\""));
  EXPECT_THAT(Message(R"({"schema": "baton.step_cost/1", "us": {"step": -1}})"),
              HasSubstr("us.step = -1"));
  EXPECT_THAT(Message(R"({"schema": "baton.step_cost/1", "us": {"steps": 1}})"),
              HasSubstr("us.steps"));
  EXPECT_THAT(Message(R"({"schema": "baton.step_cost/1", "us": {"step": 0, "row": 0,
                          "prompt_token": 0, "kv_token": 0, "attention_product": 0}})"),
              HasSubstr("take no time"));
}

TEST(StepCostTest, RefusesWhatNestsVeryDeeply) {
  const std::string deep = std::string(200'000, '[') + std::string(200'000, ']');
  EXPECT_THAT(Message(R"({"schema": "baton.step_cost/1", "us": {"step": )" + deep + "}}"),
              HasSubstr("us.step"));
}

TEST(StepCostTest, RefusesBendsThatAreNone) {
  const auto message = [](const std::string& bends) {
    return Message(R"({"schema": "baton.step_cost/1", "us": {"step": 900, "row": 25,
                       "prompt_token": 11, "kv_token": 0, "attention_product": 0,
                       "row_beyond": )" +
                   bends + "}}");
  };
  EXPECT_EQ(message("[]"), "");
  EXPECT_EQ(message(R"([{"rows": 8, "us": 0}])"), "");
  EXPECT_THAT(message("3"), AllOf(HasSubstr("us.row_beyond = 3"), HasSubstr("a list")));
  EXPECT_THAT(message("[3]"), HasSubstr("us.row_beyond[0] = 3"));
  EXPECT_THAT(message(R"([{"rows": 8}])"), HasSubstr("us.row_beyond[0] = {"));
  EXPECT_THAT(message(R"([{"rows": 8, "us": 1, "ms": 1}])"), HasSubstr("us.row_beyond[0] = {"));
  EXPECT_THAT(message(R"([{"rows": 8, "us": -1}])"),
              AllOf(HasSubstr("us.row_beyond[0].us = -1"), HasSubstr("from 0 to 1e9")));
  EXPECT_THAT(message(R"([{"rows": 8, "us": null}])"), HasSubstr("[0].us = null"));
  EXPECT_THAT(message(R"([{"rows": 8, "us": 2e9}])"), HasSubstr("[0].us = 2"));
  EXPECT_THAT(message(R"([{"rows": 0, "us": 1}])"), HasSubstr("[0].rows = 0"));
  EXPECT_THAT(message(R"([{"rows": -8, "us": 1}])"), HasSubstr("[0].rows = -8"));
  EXPECT_THAT(message(R"([{"rows": "8", "us": 1}])"), HasSubstr("[0].rows = \"8\""));
  EXPECT_THAT(message(R"([{"rows": 2e6, "us": 1}])"), HasSubstr("[0].rows = 2"));
  EXPECT_THAT(message(R"([{"rows": 8, "us": 1}, {"rows": 8, "us": 1}])"),
              AllOf(HasSubstr("[1].rows = 8"), HasSubstr("more than those of the one before")));
  EXPECT_THAT(message(R"([{"rows": 9, "us": 1}, {"rows": 8, "us": 1}])"),
              HasSubstr("[1].rows = 8"));
  EXPECT_THAT(message(R"([{"rows": 1, "us": 1}, {"rows": 2, "us": 1}, {"rows": 3, "us": 1},
                          {"rows": 4, "us": 1}, {"rows": 5, "us": 1}])"),
              HasSubstr("5 entries"));
  // What JSON has no number for.
  EXPECT_THAT(message(R"([{"rows": 8, "us": NaN}])"), HasSubstr("found no step costs"));
  EXPECT_THAT(message(R"([{"rows": 8, "us": 1e999}])"), HasSubstr("found no step costs"));
}

}  // namespace
}  // namespace baton::simulator
