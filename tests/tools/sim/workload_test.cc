#include "tools/sim/workload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <string>
#include <vector>

#include "tests/tools/eos/eos_rows.h"
#include "tests/tools/eos/log_files.h"

namespace baton::simulator {
namespace {

bench::PlanOptions PlanOf(const char* input_tokens, int64_t requests) {
  bench::PlanOptions plan;
  plan.rate = 1;
  plan.requests = requests;
  plan.input = *bench::LengthDistribution::Parse(input_tokens, bench::LengthSide::kInput);
  plan.output = *bench::LengthDistribution::Parse("5", bench::LengthSide::kOutput);
  plan.shared_prefix_tokens = 50;
  return plan;
}

TEST(Workload, PlannedPromptsThatASharedPrefixFillsAreCounted) {
  const auto load = PlannedWorkload(PlanOf("1:100", 200));
  ASSERT_TRUE(load.ok()) << load.status();
  const auto filled = [](const SimRequest& request) { return request.input_tokens <= 50; };
  EXPECT_GT(load->filled_by_prefix, 0);
  EXPECT_EQ(load->filled_by_prefix, std::ranges::count_if(load->requests, filled));
}

TEST(Workload, OfRecordedAnswersTheRecordedPromptsCount) {
  RecordedAnswers answers;
  for (const int32_t tokens : {20, 50, 51, 90}) {
    answers.requests.push_back(
        {.at = {}, .input_tokens = tokens, .output_tokens = 3, .hash_ids = {}, .recorded = {}});
  }
  const auto load = RecordedWorkload(PlanOf("1:100", 8), answers);
  ASSERT_TRUE(load.ok()) << load.status();
  EXPECT_EQ(load->filled_by_prefix, 4) << "two of four, each twice";
}

class RecordedAnswersTest : public LogFilesTest {
 protected:
  // Answers of 1 to `count` tokens that run at once, so that the short ones end first.
  std::string AtOnce(int32_t count) const {
    std::string rows;
    for (int32_t step = 1; step <= count; ++step) {
      for (int32_t length = count; length >= step; --length) {
        rows += EosLine({.id = "of " + std::to_string(length),
                         .step = step,
                         .reason = step == length ? FinishReason::kStopEos : FinishReason::kNone});
      }
    }
    return File("log", rows);
  }

  static std::vector<int32_t> Lengths(const std::vector<SimRequest>& requests) {
    std::vector<int32_t> lengths;
    for (const SimRequest& request : requests) lengths.push_back(request.output_tokens);
    return lengths;
  }
  static std::vector<int32_t> Lengths(const RecordedAnswers& answers, int64_t requests,
                                      uint64_t seed) {
    bench::PlanOptions plan = PlanOf("1:100", requests);
    plan.seed = seed;
    const auto load = RecordedWorkload(plan, answers);
    EXPECT_TRUE(load.ok()) << load.status();
    return Lengths(load->requests);
  }
};

TEST_F(RecordedAnswersTest, StandInTheOrderInWhichTheyBegan) {
  const auto answers = ReadRecordedAnswers({AtOnce(5)});
  ASSERT_TRUE(answers.ok()) << answers.status();
  EXPECT_EQ(Lengths(answers->requests), (std::vector<int32_t>{5, 4, 3, 2, 1}));
}

class RecordedSamplingTest : public LogFilesTest {
 protected:
  // Of answers "a", "b", … of a log; -1 where it is not known.
  std::vector<float> Temperatures(const std::vector<std::string>& logs) const {
    const auto answers = ReadRecordedAnswers(logs);
    EXPECT_TRUE(answers.ok()) << answers.status();
    std::vector<float> temperatures;
    for (const SimRequest& request : answers->requests) {
      temperatures.push_back(request.sampling.temperature);
      EXPECT_EQ(request.sampling.top_p, request.sampling.temperature == 1 ? 1 : 0.9F);
    }
    unknown_ = answers->sampling_unknown;
    return temperatures;
  }
  static std::string Rows(const std::string& id) { return EosLines(id, 2, FinishReason::kStopEos); }
  static std::string Summary(const std::string& id, const std::string& temperature) {
    return R"({"request_id":")" + id + R"(","temperature":7,"sampling":{"temperature":)" +
           temperature + R"(,"top_k":0,"top_p":0.899999976158142}})" + "\n";
  }

  mutable int64_t unknown_ = 0;
};

TEST_F(RecordedSamplingTest, StandsInTheSummariesOfARouter) {
  File("log.1", Rows("a"));
  File("log.1.requests.jsonl", "");
  Compress("log.1");
  File("log.2", Rows("b"));
  // The summary of a part's last request may be beside the next one.
  File("log.2.requests.jsonl", Summary("a", "0.5"));
  Compress("log.2.requests.jsonl");
  const std::string log = File("log", Rows("c"));
  File("log.requests.jsonl", Summary("b", "0") + Summary("c", "1.25"));
  EXPECT_EQ(Temperatures({log}), (std::vector<float>{0.5, 0, 1.25}));
  EXPECT_EQ(Temperatures({Path("log.1.zst"), Path("log.2")}), (std::vector<float>{0.5, 0}));
  EXPECT_EQ(unknown_, 0);
}

TEST_F(RecordedSamplingTest, StandsBesideWhatWasCollected) {
  const std::string line = R"({"request_id":"a","temperature":0.8,"top_p":0.9,"token_ids":[1)";
  std::string tokens;
  for (int i = 0; i < 50'000; ++i) tokens += ",7";
  File("requests.jsonl", line + tokens + "]}\n");
  EXPECT_EQ(Temperatures({File("rows.jsonl", Rows("a"))}), (std::vector<float>{0.8F}));
  EXPECT_EQ(unknown_, 0);
  // Of another log in that folder it says nothing.
  EXPECT_EQ(Temperatures({File("other.jsonl", Rows("a"))}), (std::vector<float>{1}));
  EXPECT_EQ(unknown_, 1);
}

TEST_F(RecordedSamplingTest, IsUnknownWhereNothingOrTwoThingsAreSaid) {
  const std::string log = File("log", Rows("a") + Rows("b") + Rows("c") + Rows("d") + Rows("e"));
  EXPECT_EQ(Temperatures({log}), (std::vector<float>{1, 1, 1, 1, 1}));
  EXPECT_EQ(unknown_, 5);
  File("log.requests.jsonl", Summary("a", "0.5") + "{\n[]\n{}\n" + R"({"request_id":1})" + "\n" +
                                 Summary("a", "0.5") + Summary("b", "0.5") + Summary("b", "0.6") +
                                 Summary("c", "null") + Summary("d", "-1") + "{\"request_id\":\"e");
  EXPECT_EQ(Temperatures({log}), (std::vector<float>{0.5, 1, 1, 1, 1}));
  EXPECT_EQ(unknown_, 4);
}

// Folders are what a test can have in place of a disk that fails.
TEST_F(RecordedSamplingTest, IsNotUnknownWhereItCannotBeRead) {
  std::filesystem::create_directory(Path("requests.jsonl"));
  std::filesystem::create_directory(Path("log.requests.jsonl"));
  for (const char* name : {"rows.jsonl", "log"}) {
    EXPECT_THAT(std::string(ReadRecordedAnswers({File(name, Rows("a"))}).status().message()),
                testing::HasSubstr("cannot read"));
  }
}

TEST_F(RecordedAnswersTest, AreAsLongInAPartOfThemAsInAll) {
  constexpr int32_t kAnswers = 40, kRuns = 50;
  const auto answers = ReadRecordedAnswers({AtOnce(kAnswers)});
  ASSERT_TRUE(answers.ok()) << answers.status();
  double sum = 0;
  for (uint64_t seed = 1; seed <= kRuns; ++seed) {
    const std::vector<int32_t> lengths = Lengths(*answers, 8, seed);
    EXPECT_EQ(Lengths(*answers, 8, seed), lengths) << "seed " << seed;
    EXPECT_NE(Lengths(*answers, 8, seed + 1), lengths) << "seed " << seed;
    sum += std::accumulate(lengths.begin(), lengths.end(), 0.0);
  }
  // The mean of 400 of them strays by a standard deviation of 0.6.
  EXPECT_NEAR(sum / (8 * kRuns), (kAnswers + 1) / 2.0, 2.5);
}

TEST_F(RecordedAnswersTest, ComeOnceEachBeforeAnyComesAgain) {
  const auto answers = ReadRecordedAnswers({AtOnce(9)});
  ASSERT_TRUE(answers.ok()) << answers.status();
  const std::vector<int32_t> twice = Lengths(*answers, 18, 3);
  std::vector<int32_t> first(twice.begin(), twice.begin() + 9);
  EXPECT_EQ(std::vector<int32_t>(twice.begin() + 9, twice.end()), first);
  std::ranges::sort(first);
  EXPECT_EQ(first, (std::vector<int32_t>{1, 2, 3, 4, 5, 6, 7, 8, 9}));
}

}  // namespace
}  // namespace baton::simulator
