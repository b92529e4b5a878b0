#include "tools/bench/bench_flags.h"

#include <cmath>
#include <fstream>
#include <iterator>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tools/bench/vllm_flags.h"

namespace baton::bench {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string Refusal(const std::vector<std::string>& arguments) {
  BenchFlags flags;
  FlagSet set("baton bench", "bench", "");
  BindBench(&set, &flags);
  const absl::Status status = set.Parse(arguments, {});
  return std::string(status.message().data(), status.message().size());
}

TEST(BenchFlags, TakesEachKindOfLoad) {
  for (const std::vector<std::string>& good : std::vector<std::vector<std::string>>{
           {"--rate", "2.5"},
           {"--concurrency", "8"},
           {"--trace", "t.csv", "--time-scale", "0.5"},
           {"--trace", "t.jsonl", "--trace-block-tokens", "16", "--shared-prefix-tokens", "8"},
           {"--find-max", "rate", "--slo", "ttft=200ms"},
           {"--find-max", "concurrency", "--slo", "ttft=200ms", "--concurrency", "4"},
           {"--rate", "1", "--arrivals", "gamma", "--burstiness", "0.5"},
           {"--rate", "1", "--protocol", "openai", "--server", "http://h:1/x", "--vocab-size",
            "100"},
           {"--rate", "1", "--protocol", "openai", "--vocab-size", "9", "--eos", "continue"},
           {"--rate", "1", "--protocol", "openai", "--vocab-size", "9", "--eos", "both"},
           {"--rate", "1", "--server", "httpd:50051"},
           {"--rate", "1", "--tag", std::string(64, 'x')},
           {"--rate", "inf"},
           {"--rate", "inf", "--concurrency", "8"},
           {"--request-rate", "inf", "--max-concurrency", "8", "--num-prompts", "20",
            "--random-input-len", "64", "--random-output-len", "32"},
           {"--find-max", "rate", "--slo", "ttft=200ms", "--arrivals", "constant"},
           {"--explain"}}) {
    EXPECT_EQ(Refusal(good), "") << good.front();
  }
}

TEST(BenchFlags, RefusesWhatContradictsItself) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{}, "no load"},
      {{"--rate", "1", "--concurrency", "2"}, "they exclude each other"},
      {{"--rate", "0"}, "expected a number from 0.001"},
      {{"--rate", "inf", "--duration", "9s"}, "--rate inf with --duration"},
      {{"--rate", "inf", "--warmup", "9s"}, "--rate inf with --warmup"},
      {{"--find-max", "rate", "--slo", "ttft=1s", "--rate", "inf"}, "--find-max with --rate inf"},
      {{"--rate", "1", "--ignore-eos"}, "Try: --eos continue"},
      {{"--rate", "1", "--api-key", "x"}, "Try: the environment variable OPENAI_API_KEY"},
      {{"--find-max", "rate"}, "--find-max without --slo"},
      {{"--find-max", "rate", "--slo", "ttft=1s", "--concurrency", "2"}, "of the other kind"},
      {{"--find-max", "rate", "--slo", "ttft=1s", "--requests", "9"}, "--find-max with --requests"},
      {{"--find-max", "rate", "--slo", "ttft=1s", "--eos", "both"}, "--find-max with --eos both"},
      {{"--find-max", "rate", "--slo", "ttft=1s", "--requests", "9"}, "percentile=90"},
      {{"--find-max", "rate", "--slo", "ttft=1s", "--duration", "9s"}, "percentile=90"},
      {{"--find-max", "rate", "--slo", "ttft=1s", "--runs", "2"}, "with another --seed"},
      {{"--rate", "1", "--server", "http://h:1"}, "the baton protocol is gRPC"},
      {{"--rate", "1", "--server", "nowhere"}, "found 'nowhere'"},
      {{"--rate", "1", "--protocol", "openai"}, "without a vocabulary"},
      {{"--rate", "1", "--prompt-form", "text"}, "without --tokenizer"},
      {{"--rate", "1", "--burstiness", "2"}, "without --arrivals gamma"},
      {{"--concurrency", "1", "--arrivals", "constant"}, "--arrivals without --rate"},
      {{"--trace", "t.csv", "--arrivals", "gamma"}, "--arrivals without --rate"},
      {{"--find-max", "concurrency", "--slo", "ttft=1s", "--arrivals", "gamma"},
       "--arrivals without --rate"},
      {{"--concurrency", "1", "--burstiness", "2"}, "without --arrivals gamma"},
      {{"--rate", "1", "--prompts", "p", "--shared-prefix-tokens", "9"}, "sent as they are"},
      {{"--rate", "1", "--prompts", "p", "--prompt-form", "text"}, "each line of the file"},
      {{"--rate", "1", "--vocab-size", "9"}, "--vocab-size with --protocol baton"},
      {{"--rate", "1", "--prompt-salt", "9"}, "--prompt-salt with --protocol baton"},
      {{"--rate", "1", "--protocol", "openai", "--vocab-size", "9", "--connections", "2"},
       "--connections with --protocol openai"},
      {{"--rate", "1", "--protocol", "openai", "--vocab-size", "9", "--as-tenant", "a"},
       "--as-tenant with --protocol openai"},
      {{"--rate", "1", "--protocol", "openai", "--vocab-size", "9", "--eos", "mask"},
       "Try: --eos continue"},
      {{"--rate", "1", "--tag", std::string(65, 'x')}, "found 65 bytes, expected at most 64"},
      {{"--rate", "1", "--time-scale", "2"}, "without --trace"},
      {{"--rate", "1", "--trace-block-tokens", "16"}, "--trace-block-tokens without --trace"},
      {{"--trace", "t.csv", "--input-tokens", "9"}, "a trace has its own lengths"},
  };
  for (const auto& [arguments, message] : cases) {
    EXPECT_THAT(Refusal(arguments), HasSubstr(message));
  }
}

BenchFlags FlagsOf(const std::vector<std::string>& arguments,
                   const FlagSet::Environment& environment = {}) {
  BenchFlags flags;
  FlagSet set("baton bench", "bench", "");
  BindBench(&set, &flags);
  EXPECT_TRUE(set.Parse(arguments, environment).ok());
  return flags;
}

TEST(BenchFlags, TakesVllmsNamesOfWhatMeansTheSame) {
  const BenchFlags flags = FlagsOf({"--request-rate", "inf", "--max-concurrency", "8",
                                    "--num-prompts", "20", "--random-input-len", "64"});
  EXPECT_FALSE(flags.rate.has_value()) << "as many at once as there are places";
  EXPECT_EQ(flags.concurrency, 8);
  EXPECT_EQ(flags.requests, 20);
  EXPECT_EQ(flags.input_tokens, "64");
  EXPECT_TRUE(std::isinf(*FlagsOf({"--request-rate", "inf"}).rate));
}

TEST(BenchFlags, AnswersEveryFlagOfVllm) {
  for (const VllmFlag& flag : VllmFlags()) {
    const std::string refusal = Refusal({"--" + std::string(flag.name), "x"});
    if (flag.alias_of.empty()) {
      EXPECT_THAT(refusal, HasSubstr("Try: " + std::string(flag.instead)));
    } else {
      EXPECT_THAT(refusal, Not(HasSubstr("unknown flag"))) << flag.name;
    }
  }
}

TEST(BenchFlags, AreComparedWithVllmsInTheDocuments) {
  std::ifstream file(BATON_SOURCE_DIR "/docs/bench.md");
  const std::string document{std::istreambuf_iterator<char>(file), {}};
  EXPECT_THAT(document, HasSubstr(VllmFlagsAsMarkdown()));
}

TEST(BenchFlags, OfARateAndAConcurrencyTheNearerToTheCommandLineCounts) {
  EXPECT_EQ(FlagsOf({"--concurrency", "2"}, {{"BATON_RATE", "5"}}).concurrency, 2);
  EXPECT_FALSE(FlagsOf({"--rate", "2"}, {{"BATON_CONCURRENCY", "5"}}).concurrency.has_value());
}

TEST(BenchFlags, WarnsOfForcedAgainstNaturalEndsOfRandomPrompts) {
  EXPECT_THAT(Caution(FlagsOf({"--rate", "1", "--eos", "both"})), HasSubstr("--prompts FILE"));
  EXPECT_EQ(Caution(FlagsOf({"--rate", "1", "--eos", "both", "--prompts", "p"})), "");
  EXPECT_EQ(Caution(FlagsOf({"--rate", "1", "--eos", "mask"})), "");
}

TEST(BenchFlags, SaysHowRequestsArrive) {
  const BenchFlags poisson = FlagsOf({"--rate", "1"});
  EXPECT_EQ(ArrivalsName(poisson), "poisson");
  EXPECT_EQ(Burstiness(poisson), 1);
  const BenchFlags constant = FlagsOf({"--rate", "1", "--arrivals", "constant"});
  EXPECT_EQ(ArrivalsName(constant), "constant");
  EXPECT_TRUE(std::isinf(Burstiness(constant)));
  EXPECT_EQ(Burstiness(FlagsOf({"--rate", "1", "--arrivals", "gamma", "--burstiness", "0.5"})),
            0.5);
  EXPECT_EQ(ArrivalsName(FlagsOf({"--concurrency", "1"})), "");
  EXPECT_EQ(ArrivalsName(FlagsOf({"--trace", "t.csv"})), "trace");
}

}  // namespace
}  // namespace baton::bench
