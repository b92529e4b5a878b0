#include "tools/bench/plan/plan_builder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <numeric>

#include "tests/common/text/test_files.h"
#include "tests/fakes/byte_tokenizer.h"
#include "tests/fakes/scratch_folder.h"
#include "tools/bench/plan/plan_lengths.h"

namespace baton::bench {
namespace {

using baton::testing::SourcePath;
using std::chrono::seconds;
using ::testing::HasSubstr;
using Ids = std::vector<int32_t>;

LengthDistribution Lengths(std::string_view text, LengthSide side) {
  return *LengthDistribution::Parse(text, side);
}

PlanOptions Options(std::string_view input = "16", std::string_view output = "8") {
  PlanOptions options;
  options.input = Lengths(input, LengthSide::kInput);
  options.output = Lengths(output, LengthSide::kOutput);
  options.seed = 3;
  options.vocabulary = {1000, {2}};
  return options;
}

BuiltPlan Built(const PlanOptions& options) {
  auto built = BuildPlan(options);
  EXPECT_TRUE(built.ok()) << built.status();
  return built.ok() ? *std::move(built) : BuiltPlan{};
}

std::string Refusal(const PlanOptions& options) {
  const auto built = BuildPlan(options);
  EXPECT_FALSE(built.ok());
  return std::string(built.status().message());
}

TEST(PlanBuilderTest, RateWithANumberOfRequests) {
  PlanOptions options = Options();
  options.rate = 50;
  options.requests = 200;
  options.eos = EosMode::kMask;
  const BuiltPlan built = Built(options);
  ASSERT_EQ(built.plan.requests.size(), 200U);
  EXPECT_EQ(built.plan.eos, EosMode::kMask);
  base::Duration last{};
  for (size_t i = 0; i < 200; ++i) {
    const PlannedRequest& request = built.plan.requests[i];
    EXPECT_EQ(request.index, static_cast<int64_t>(i));
    EXPECT_GT(request.at, last);
    last = request.at;
    EXPECT_EQ(request.prompt_tokens, 16);
    EXPECT_EQ(std::get<Ids>(request.prompt).size(), 16U);
    EXPECT_EQ(request.max_tokens, 8);
  }
  EXPECT_NEAR(base::Seconds(last), 4, 1.2);
  EXPECT_EQ(built.summary.prompt_tokens, 3200);
  EXPECT_FALSE(built.summary.may_run_out);
}

TEST(PlanBuilderTest, WarmUpComesOnTopOfWhatIsMeasured) {
  PlanOptions options = Options();
  options.rate = 100;
  options.warmup = seconds(2);
  options.requests = 100;
  const BuiltPlan by_number = Built(options);
  int64_t measured = 0;
  for (const PlannedRequest& request : by_number.plan.requests) {
    measured += request.at >= seconds(2) ? 1 : 0;
  }
  EXPECT_EQ(measured, 100);
  EXPECT_NEAR(static_cast<double>(by_number.plan.requests.size()), 300, 60);

  options.requests = 0;
  options.duration = seconds(3);
  const BuiltPlan by_time = Built(options);
  EXPECT_LT(by_time.plan.requests.back().at, seconds(5));
  EXPECT_GT(by_time.plan.requests.back().at, std::chrono::milliseconds(4500));
}

TEST(PlanBuilderTest, TheShorterOfNumberAndDurationEndsAPlan) {
  PlanOptions options = Options();
  options.rate = 100;
  options.requests = 50;
  options.duration = seconds(60);
  EXPECT_EQ(Built(options).plan.requests.size(), 50U);
  options.requests = 1'000'000;
  options.duration = seconds(1);
  EXPECT_LT(Built(options).plan.requests.size(), 200U);
}

TEST(PlanBuilderTest, ClosedLoopHasNoTimes) {
  PlanOptions options = Options();
  options.concurrency = 4;
  options.requests = 30;
  const BuiltPlan built = Built(options);
  ASSERT_EQ(built.plan.requests.size(), 30U);
  for (const PlannedRequest& request : built.plan.requests) {
    EXPECT_EQ(request.at, base::Duration::zero());
  }
  EXPECT_FALSE(built.summary.may_run_out);
}

TEST(PlanBuilderTest, ClosedLoopOfADurationPlansWithinBounds) {
  PlanOptions options = Options();
  options.concurrency = 4;
  options.duration = seconds(10);
  const BuiltPlan built = Built(options);
  EXPECT_EQ(built.plan.requests.size(), 20000U);  // 4000 tokens/s x 10 s x 4 / 8
  EXPECT_TRUE(built.summary.may_run_out);

  options = Options("1000000", "8");
  options.concurrency = 4;
  options.duration = seconds(600);
  EXPECT_EQ(Built(options).plan.requests.size(), 67U);
}

TEST(PlanBuilderTest, EqualOptionsGiveEqualPlansAndARateChangesOnlyTimes) {
  PlanOptions options = Options("chat", "chat");
  options.rate = 10;
  options.requests = 40;
  const BuiltPlan one = Built(options), again = Built(options);
  options.rate = 20;
  const BuiltPlan faster = Built(options);
  for (size_t i = 0; i < 40; ++i) {
    EXPECT_EQ(one.plan.requests[i].at, again.plan.requests[i].at);
    EXPECT_EQ(one.plan.requests[i].prompt, again.plan.requests[i].prompt);
    EXPECT_EQ(one.plan.requests[i].prompt, faster.plan.requests[i].prompt);
    EXPECT_EQ(one.plan.requests[i].max_tokens, faster.plan.requests[i].max_tokens);
    EXPECT_NE(one.plan.requests[i].at, faster.plan.requests[i].at);
  }
}

TEST(PlanBuilderTest, DrawnLengthsAreShortenedToTheModelAndCounted) {
  PlanOptions options = Options("chat", "chat");
  options.rate = 10;
  options.requests = 300;
  options.max_model_len = 1024;
  const BuiltPlan built = Built(options);
  int64_t full = 0;
  for (const PlannedRequest& request : built.plan.requests) {
    EXPECT_GE(request.prompt_tokens, 1);
    EXPECT_GE(request.max_tokens, 1);
    EXPECT_LE(request.prompt_tokens + request.max_tokens, 1024);
    full += request.prompt_tokens + request.max_tokens == 1024 ? 1 : 0;
  }
  EXPECT_GT(built.summary.clamped, 100);
  EXPECT_LT(built.summary.clamped, 300);
  EXPECT_GE(full, built.summary.clamped);
}

TEST(PlanBuilderTest, AFixedNumberIsNeverShortened) {
  PlanOptions options = Options("900", "50:500");
  options.rate = 10;
  options.requests = 100;
  options.max_model_len = 1024;
  const BuiltPlan built = Built(options);
  for (const PlannedRequest& request : built.plan.requests) {
    EXPECT_EQ(request.prompt_tokens, 900);
    EXPECT_LE(request.max_tokens, 124);
  }
  EXPECT_GT(built.summary.clamped, 50);
}

TEST(PlanBuilderTest, FixedNumbersThatDoNotFitAreRefusedWithFigures) {
  PlanOptions options = Options("512", "513");
  options.rate = 10;
  options.requests = 10;
  options.max_model_len = 1024;
  const std::string message = Refusal(options);
  EXPECT_THAT(message, HasSubstr("512"));
  EXPECT_THAT(message, HasSubstr("513"));
  EXPECT_THAT(message, HasSubstr("1024"));
  options.output = Lengths("512", LengthSide::kOutput);
  EXPECT_EQ(Built(options).summary.clamped, 0);
}

TEST(PlanBuilderTest, TracesGiveTimesAndLengths) {
  PlanOptions options;
  options.vocabulary = {1000, {}};
  options.trace = SourcePath("tests/data/azure_llm_2023_conv_excerpt.csv");
  options.time_scale = 2;
  const BuiltPlan built = Built(options);
  ASSERT_EQ(built.plan.requests.size(), 199U);
  EXPECT_EQ(built.plan.requests[1].at, std::chrono::nanoseconds(8'629'158'000));
  EXPECT_EQ(built.plan.requests[1].prompt_tokens, 396);
  EXPECT_EQ(std::get<Ids>(built.plan.requests[1].prompt).size(), 396U);
  EXPECT_EQ(built.plan.requests[1].max_tokens, 109);
  options.requests = 10;
  EXPECT_EQ(Built(options).plan.requests.size(), 10U);
}

TEST(PlanBuilderTest, RequestsOfATraceAreCountedAfterTheWarmUp) {
  PlanOptions options;
  options.vocabulary = {1000, {}};
  options.trace = SourcePath("tests/data/azure_llm_2023_conv_excerpt.csv");
  options.requests = 10;
  options.warmup = seconds(8);
  const BuiltPlan built = Built(options);
  const auto measured =
      std::count_if(built.plan.requests.begin(), built.plan.requests.end(),
                    [&](const PlannedRequest& request) { return request.at >= options.warmup; });
  EXPECT_EQ(measured, 10);
  EXPECT_GT(built.plan.requests.size(), 10U);
}

TEST(PlanBuilderTest, HashIdsOfATraceBecomeSharedPrefixes) {
  const ScratchFolder dir;
  PlanOptions options;
  options.vocabulary = {30000, {}};
  options.block_tokens = 8;
  options.trace = dir.Write(
      "t.jsonl",
      R"({"timestamp": 0, "input_length": 20, "output_length": 2, "hash_ids": [1, 2, 3]})"
      "\n"
      R"({"timestamp": 5, "input_length": 20, "output_length": 2, "hash_ids": [1, 2, 4]})");
  const BuiltPlan built = Built(options);
  const Ids& one = std::get<Ids>(built.plan.requests[0].prompt);
  const Ids& two = std::get<Ids>(built.plan.requests[1].prompt);
  EXPECT_TRUE(std::equal(one.begin(), one.begin() + 16, two.begin()));
  EXPECT_NE(one[16], two[16]);
}

TEST(PlanBuilderTest, PromptsOfAFileAreUsedInOrderAndAgain) {
  const ScratchFolder dir;
  PlanOptions options;
  options.output = Lengths("9", LengthSide::kOutput);
  options.prompts =
      dir.Write("p.jsonl", "{\"prompt\": \"a\", \"max_tokens\": 3}\n{\"token_ids\": [4, 5]}\n");
  options.concurrency = 2;
  EXPECT_EQ(Built(options).plan.requests.size(), 2U);
  options.requests = 5;
  const BuiltPlan built = Built(options);
  ASSERT_EQ(built.plan.requests.size(), 5U);
  EXPECT_EQ(built.summary.repeated_prompts, 3);
  EXPECT_EQ(std::get<std::string>(built.plan.requests[2].prompt), "a");
  EXPECT_EQ(built.plan.requests[2].prompt_tokens, -1);
  EXPECT_EQ(built.plan.requests[2].max_tokens, 3);
  EXPECT_EQ(built.plan.requests[3].prompt_tokens, 2);
  EXPECT_EQ(built.plan.requests[3].max_tokens, 9);
}

TEST(PlanBuilderTest, PromptsOfAFileThatDoNotFitAreRefusedWithTheirLine) {
  const ScratchFolder dir;
  PlanOptions options;
  options.rate = 1;
  options.prompts = dir.Write("p.jsonl", "{\"token_ids\": [4, 5], \"max_tokens\": 9}\n");
  options.max_model_len = 10;
  EXPECT_THAT(Refusal(options), HasSubstr("p.jsonl:1: "));
  options.max_model_len = 11;
  EXPECT_EQ(Built(options).plan.requests.size(), 1U);
  options.vocabulary.vocab_size = 5;
  EXPECT_THAT(Refusal(options), HasSubstr("token id 5"));
  options.prompts = dir.Write("q.jsonl", "{\"token_ids\": [4]}\n");
  EXPECT_THAT(Refusal(options), HasSubstr("no max_tokens"));
}

TEST(PlanBuilderTest, ASharedPrefixLeavesPromptsATokenOfTheirOwn) {
  PlanOptions options = Options("50");
  options.rate = 1;
  options.requests = 3;
  for (const int32_t prefix : {50, 100}) {
    options.shared_prefix_tokens = prefix;
    EXPECT_THAT(Refusal(options), HasSubstr("Try: a number below 50"));
  }
  options.input = Lengths("10:50", LengthSide::kInput);
  EXPECT_THAT(Refusal(options), HasSubstr("--shared-prefix-tokens 100 with prompts of at most 50"));
  options.shared_prefix_tokens = 49;
  EXPECT_TRUE(BuildPlan(options).ok());
}

TEST(PlanBuilderTest, PromptsThatASharedPrefixFillsAreCounted) {
  PlanOptions options = Options("1:100");
  options.rate = 1;
  options.requests = 300;
  options.shared_prefix_tokens = 40;
  const BuiltPlan built = Built(options);
  const int64_t filled = std::ranges::count_if(
      built.plan.requests,
      [](const PlannedRequest& request) { return request.prompt_tokens <= 40; });
  EXPECT_GT(filled, 0);
  EXPECT_EQ(built.summary.filled_by_prefix, filled);
  EXPECT_THAT(FilledByPrefix(filled, 300, 40), HasSubstr("of 300 prompts"));
  options.shared_prefix_tokens = 0;
  EXPECT_EQ(Built(options).summary.filled_by_prefix, 0);
}

TEST(PlanBuilderTest, TextPromptsNeedATokenizer) {
  PlanOptions options = Options();
  options.rate = 10;
  options.requests = 3;
  options.text = true;
  EXPECT_THAT(Refusal(options), HasSubstr("--tokenizer"));
  const baton::ByteTokenizer tokenizer;
  options.tokenizer = &tokenizer;
  const BuiltPlan built = Built(options);
  EXPECT_EQ(std::get<std::string>(built.plan.requests[0].prompt).size(), 16U);
  EXPECT_EQ(built.plan.requests[0].prompt_tokens, 16);
}

TEST(PlanBuilderTest, RefusesContradictions) {
  PlanOptions options = Options();
  options.requests = 3;
  EXPECT_THAT(Refusal(options),
              HasSubstr("no load: expected one of --rate, --concurrency and --trace"));
  options.rate = 1;
  options.concurrency = 1;
  EXPECT_THAT(Refusal(options), HasSubstr("found 2 of --rate"));
  options.concurrency = 0;
  options.requests = 0;
  EXPECT_THAT(Refusal(options), HasSubstr("no end"));
  options.requests = 3;
  options.prompts = "p.jsonl";
  EXPECT_THAT(Refusal(options), HasSubstr("--prompts with"));
  options.prompts.clear();
  options.output.reset();
  EXPECT_THAT(Refusal(options), HasSubstr("no lengths"));
  options = Options();
  options.trace = "t.csv";
  EXPECT_THAT(Refusal(options), HasSubstr("its own lengths"));
  options = Options();
  options.rate = -1;
  options.requests = 3;
  EXPECT_THAT(Refusal(options), HasSubstr("rate -1"));
}

TEST(PlanBuilderTest, RefusesPlansThatDoNotFitIntoMemory) {
  PlanOptions options = Options("4096", "8");
  options.rate = 1000;
  options.requests = 100000;
  EXPECT_THAT(Refusal(options), HasSubstr("268435456 tokens"));
  options.input = Lengths("1", LengthSide::kInput);
  options.requests = 6'000'000;
  EXPECT_THAT(Refusal(options), HasSubstr("at most 5000000"));
}

TEST(PlanBuilderTest, SaysHowManyRequestsAPlanHolds) {
  const ScratchFolder dir;
  PlanOptions options = Options("1024", "8");
  EXPECT_EQ(*MostRequestsOfAPlan(options), kMaxPlannedIds / 2048);
  options.input = Lengths("1", LengthSide::kInput);
  EXPECT_EQ(*MostRequestsOfAPlan(options), kMaxPlannedRequests);
  options.input.reset();
  options.prompts = dir.Write("p.jsonl", "{\"token_ids\": [4, 5]}\n{\"token_ids\": [6]}\n");
  EXPECT_EQ(*MostRequestsOfAPlan(options), kMaxPlannedRequests);
}

TEST(PlanBuilderTest, PromptsHaveASeedOfTheirOwn) {
  PlanOptions options = Options("8:64");
  options.rate = 10;
  options.requests = 20;
  const BuiltPlan plain = Built(options);
  options.prompt_seed = options.seed;
  EXPECT_EQ(Built(options).plan.requests[7].prompt, plain.plan.requests[7].prompt);
  options.prompt_seed = 99;
  const BuiltPlan salted = Built(options);
  for (size_t i = 0; i < 20; ++i) {
    EXPECT_EQ(salted.plan.requests[i].at, plain.plan.requests[i].at);
    EXPECT_EQ(salted.plan.requests[i].prompt_tokens, plain.plan.requests[i].prompt_tokens);
    EXPECT_NE(salted.plan.requests[i].prompt, plain.plan.requests[i].prompt);
  }
}

TEST(PlanBuilderTest, SaysWhenNothingWouldArrive) {
  PlanOptions options = Options();
  options.rate = 0.01;
  options.burstiness = 1e7;
  options.duration = seconds(5);
  EXPECT_THAT(Refusal(options), HasSubstr("no request in 5s"));
}

}  // namespace
}  // namespace baton::bench
