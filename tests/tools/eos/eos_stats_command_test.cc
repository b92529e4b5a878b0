#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/tools/eos/eos_rows.h"
#include "tests/tools/eos/log_files.h"
#include "tests/tools/run_tool.h"

namespace baton {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

class EosStatsTest : public LogFilesTest {
 protected:
  static nlohmann::json Json(Arguments files) {
    files.insert(files.begin(), {"eos", "stats", "--json"});
    const ToolRun run = RunTool(files);
    EXPECT_EQ(run.exit, 0) << run.err;
    return nlohmann::json::parse(run.out);
  }
  // Natural answers of 10 and 20 tokens, one of 5 that was cut, and one that goes on.
  std::string Log() const {
    return File("log", EosLines("a", 10, FinishReason::kStopEos, 0.5) +
                           EosLines("b", 20, FinishReason::kStopEos, 0.25) +
                           EosLines("c", 5, FinishReason::kLength) + EosLine({.id = "d"}));
  }
};

TEST_F(EosStatsTest, CountsEndsAndTellsNaturalFromCensored) {
  const auto json = Json({Log()});
  EXPECT_EQ(json["requests"], 4);
  EXPECT_EQ(json["rows"], 36);
  EXPECT_EQ(json["ended"]["stop_eos"], 2);
  EXPECT_EQ(json["ended"]["length"], 1);
  EXPECT_EQ(json["ended"]["aborted"], 0);
  EXPECT_EQ(json["ended"].size(), 9U);
  EXPECT_EQ(json["open"], 1);
  EXPECT_EQ(json["natural"], 2);
  EXPECT_EQ(json["censored"], 1);
  EXPECT_EQ(json["unreadable"], 0);
}

TEST_F(EosStatsTest, SaysThatALastLineWasCut) {
  const std::string log = Log();
  EXPECT_EQ(RunTool({"eos", "stats", log}).err, "");
  Append("log", "{\"request_id\"");
  const ToolRun run = RunTool({"eos", "stats", log});
  EXPECT_EQ(run.exit, 0);
  EXPECT_THAT(run.err,
              ::testing::HasSubstr("left out " + log +
                                   ":37: the last line has no end (13 bytes): it was cut off"));
}

TEST_F(EosStatsTest, AnEndThatWasIgnoredIsNatural) {
  std::string log;
  for (int32_t step = 1; step <= 6; ++step) {
    RowParts parts{.step = step, .policy = EosPolicy::kIgnoreContinue};
    if (step >= 4) parts.natural_end_step = 4;
    if (step == 6) parts.reason = FinishReason::kLength;
    log += EosLine(parts);
  }
  const auto json = Json({File("log", log)});
  EXPECT_EQ(json["natural"], 1);
  EXPECT_EQ(json["censored"], 0);
  EXPECT_EQ(json["natural_length"]["mean"], 4);
  EXPECT_EQ(json["output_length"]["mean"], 6);
}

TEST_F(EosStatsTest, SaysHowLongAnswersWereAndHowSureTheirEnds) {
  const auto json = Json({Log()});
  EXPECT_NEAR(json["output_length"]["mean"], 35.0 / 3, 1e-9);
  EXPECT_EQ(json["output_length"]["p50"], 10);
  EXPECT_EQ(json["output_length"]["p90"], 20);
  EXPECT_EQ(json["output_length"]["p99"], 20);
  EXPECT_EQ(json["natural_length"]["mean"], 15);
  EXPECT_NEAR(json["eos_prob_at_stop"]["mean"], 0.375, 1e-6);
  EXPECT_NEAR(json["eos_prob_at_stop"]["p50"], 0.25, 0.002);
  EXPECT_NEAR(json["request_mean_eos_prob"]["max"], 0.5, 1e-6);
  EXPECT_NEAR(json["eos_prob"]["max"], 0.5, 1e-6);
  EXPECT_EQ(json["entropy"]["mean"], 1.5);
  EXPECT_EQ(json["longest"]["request_id"], "b");
  EXPECT_EQ(json["longest"]["tokens"], 20);
  EXPECT_EQ(json["longest"]["finish_reason"], "stop_eos");
}

TEST_F(EosStatsTest, ARunawayIsLongerThanNaturalAnswersWhereItsLimitIs) {
  const std::string natural = EosLines("n", 10, FinishReason::kStopEos);
  EXPECT_EQ(Json({File("short", natural + EosLines("l", 10, FinishReason::kLength))})["runaways"],
            0);
  EXPECT_EQ(Json({File("long", natural + EosLines("l", 11, FinishReason::kLength))})["runaways"],
            1);
  // Who ignores EOS runs to the limit by intention, and who is aborted has not reached it.
  const auto mask = EosPolicy::kIgnoreMask;
  EXPECT_EQ(Json({File("other", natural + EosLines("l", 11, FinishReason::kLength, 0.1, mask) +
                                    EosLines("a", 11, FinishReason::kAborted))})["runaways"],
            0);
  // Those that the service ended as runaways are some, whatever the others are like.
  EXPECT_EQ(Json({File("ended", natural + EosLines("l", 9, FinishReason::kRunaway))})["runaways"],
            1);
  const auto json = Json({File("lone", EosLines("l", 9, FinishReason::kRunaway))});
  EXPECT_EQ(json["runaways"], 1);
  EXPECT_EQ(json["ended"]["runaway"], 1);
  EXPECT_EQ(json["censored"], 1);
  EXPECT_EQ(json["natural"], 0);
  EXPECT_EQ(Json({File("alone", EosLines("l", 11, FinishReason::kLength))})["runaways"], 0);
}

TEST_F(EosStatsTest, LogsAreTakenTogetherButTheirRequestsAreNot) {
  const std::string one = File("one", EosLine({.id = "a"}));
  const std::string two = File("two", EosLines("a", 2, FinishReason::kStopEos));
  const auto json = Json({one, two});
  EXPECT_EQ(json["requests"], 2);
  EXPECT_EQ(json["open"], 1);
  EXPECT_EQ(json["natural"], 1);
}

TEST_F(EosStatsTest, AnIdThatIsUsedAgainIsAnotherRequest) {
  const auto json =
      Json({File("log", EosLines("a", 2, FinishReason::kLength) + EosLine({.id = "a"}) +
                            EosLines("a", 2, FinishReason::kLength))});
  EXPECT_EQ(json["requests"], 3);
  EXPECT_EQ(json["open"], 1);
}

TEST_F(EosStatsTest, PeopleGetATable) {
  const ToolRun run = RunTool({"eos", "stats", Log()});
  EXPECT_EQ(run.exit, 0);
  EXPECT_THAT(run.out, AllOf(ContainsRegex("requests +4\n"), ContainsRegex("stop_eos +2 +66.7%\n"),
                             ContainsRegex("open +1 "), ContainsRegex("natural +2 "),
                             ContainsRegex("output_length +11.7 +10 +20 +20 +20\n"),
                             HasSubstr("longest: b, 20 tokens, stop_eos\n")));
}

TEST_F(EosStatsTest, AnEmptyLogHasNothingToSay) {
  const auto json = Json({File("log", "")});
  EXPECT_EQ(json["requests"], 0);
  EXPECT_EQ(json["output_length"]["mean"], 0);
  EXPECT_TRUE(json["longest"].is_null());
  EXPECT_EQ(RunTool({"eos", "stats", Path("log")}).exit, 0);
}

TEST_F(EosStatsTest, LinesThatAreNoRowsAreLeftOutAndTold) {
  const ToolRun run =
      RunTool({"eos", "stats", File("log", "x\n" + EosLines("a", 2, FinishReason::kLength))});
  EXPECT_EQ(run.exit, 1);
  EXPECT_THAT(run.out, ContainsRegex("rows +2\n"));
  EXPECT_THAT(run.err, HasSubstr("1 lines are no rows and left out"));
}

TEST_F(EosStatsTest, TheHelpSaysWhatARunawayIs) {
  EXPECT_THAT(RunTool({"eos", "stats", "--help"}).out, HasSubstr("A runaway is"));
}

}  // namespace
}  // namespace baton
