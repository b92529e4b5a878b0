#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "tests/tools/eos/eos_rows.h"
#include "tests/tools/sim/sim_command.h"

// `baton sim --answers` and the predictors that look at them.
namespace baton {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class SimAnswersTest : public SimCommandTest {
 protected:
  // The summaries beside a log, as a router writes them, with these temperatures in turn.
  static void WriteSampling(const std::string& log, const std::vector<std::string>& ids,
                            const std::vector<double>& temperatures) {
    std::ofstream file(log + ".requests.jsonl");
    for (size_t i = 0; i < ids.size(); ++i) {
      const double temperature = temperatures[i % temperatures.size()];
      file << nlohmann::json{{"request_id", ids[i]},
                             {"sampling", {{"temperature", temperature}, {"top_p", 1}}}}
           << "\n";
    }
  }
};

TEST_F(SimAnswersTest, RecordedAnswersHaveTheirLengths) {
  // 12 and 30 tokens in turn; the one that was cut off has no length that anybody knows.
  const std::string log = File("log", EosLines("a", 12, FinishReason::kStopEos) +
                                          EosLines("b", 30, FinishReason::kStopEos) +
                                          EosLines("c", 7, FinishReason::kLength));
  const ToolRun run = Sim({"--rate", "5", "--requests", "4", "--answers", log, "--json"});
  ASSERT_EQ(run.exit, 0) << run.err;
  EXPECT_THAT(run.err, HasSubstr("1 answers that did not end by themselves"));
  const auto json = nlohmann::json::parse(run.out);
  const auto& figures = json["policies"][0]["runs"][0];
  EXPECT_EQ(figures["tokens_fed"], 4 * 20 + 2 * 11 + 2 * 29);
  const ToolRun bad = Sim(
      {"--rate", "5", "--answers", File("bad", EosLines("a", 2, FinishReason::kStopEos) + "{}\n")});
  EXPECT_EQ(bad.exit, 2);
  EXPECT_THAT(bad.err, HasSubstr("bad:3"));
}

TEST_F(SimAnswersTest, TellsOfAnswersThatTheModelsLengthCuts) {
  // Prompts have 20 tokens.
  const std::string log = File(
      "log", EosLines("a", 12, FinishReason::kStopEos) + EosLines("b", 30, FinishReason::kStopEos));
  const auto told = [&](const Arguments& more) {
    Arguments asked = {"--rate", "5", "--requests", "4", "--answers", log, "--max-model-len"};
    asked.insert(asked.end(), more.begin(), more.end());
    const ToolRun of = Sim(asked);
    EXPECT_EQ(of.exit, 0) << of.err;
    return of.err;
  };
  EXPECT_EQ(told({"50"}), "");
  EXPECT_THAT(told({"49"}), HasSubstr("2 requests are shortened to --max-model-len 49"));
  EXPECT_THAT(told({"21"}), HasSubstr("4 requests are shortened to --max-model-len 21"));
  // These are refused instead, and that is told.
  for (const Arguments& refused :
       std::vector<Arguments>{{"20"}, {"49", "--eos", "mask"}, {"49", "--max-tokens", "30"}}) {
    EXPECT_THAT(told(refused), AllOf(HasSubstr("were refused"), Not(HasSubstr("shortened"))));
  }
  EXPECT_EQ(told({"49", "--max-tokens", "12"}), "") << "the requests' own limit";
}

TEST_F(SimAnswersTest, APredictorChangesNothingUnderFcfs) {
  const std::string log = File(
      "log", EosLines("a", 12, FinishReason::kStopEos) + EosLines("b", 30, FinishReason::kStopEos));
  const auto figures = [&](const std::string& predictor) {
    auto json =
        Json({"--rate", "50", "--requests", "100", "--answers", log, "--predictor", predictor});
    return json["policies"][0]["runs"].dump();
  };
  const std::string off = figures("off");
  EXPECT_EQ(figures("learnt"), off);
  EXPECT_EQ(figures("oracle"), off);
  WriteSampling(log, {"a", "b"}, {0.8});
  EXPECT_EQ(figures(File("trees.json", PredictorNamed("trees"))), off);
}

TEST_F(SimAnswersTest, APredictorIsToldHowEachAnswerWasDrawn) {
  std::string rows;
  std::vector<std::string> ids;
  for (int i = 0; i < 20; ++i) {
    ids.push_back("id" + std::to_string(i));
    rows += EosLines(ids.back(), 10 + 13 * i % 90, FinishReason::kStopEos);
  }
  const std::string log = File("log", rows);
  const auto ask = [&](const std::string& predictor) {
    return Sim({"--rate", "400", "--requests", "100", "--answers", log, "--predictor",
                File(predictor + ".json", PredictorNamed(predictor)), "--policy", "remaining",
                "--kv-cache-tokens", "480", "--max-model-len", "480", "--json"});
  };
  const ToolRun unknown = ask("logistic");
  EXPECT_EQ(unknown.exit, 2);
  EXPECT_THAT(unknown.err,
              HasSubstr("logistic.json: it reads temperature, which is not known of 20 of the 20"));
  const ToolRun survival = ask("survival");
  EXPECT_EQ(survival.exit, 0) << survival.err;
  WriteSampling(log, ids, {0.1, 3});
  const ToolRun told = ask("logistic");
  EXPECT_EQ(told.exit, 0) << told.err;
  WriteSampling(log, ids, {3, 0.1});
  EXPECT_TRUE(ask("logistic").out != told.out) << "whatever the temperature";
  EXPECT_TRUE(ask("survival").out == survival.out) << "survival reads none";
}

}  // namespace
}  // namespace baton
