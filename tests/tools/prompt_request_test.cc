#include "tools/generate/prompt_request.h"

#include <fstream>
#include <sstream>

#include "common/base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/scratch_folder.h"

namespace baton {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

PromptRequest Parse(const std::string& line, const PromptDefaults& defaults = {}) {
  auto request = ParsePromptLine(line, "p.jsonl line 1", defaults);
  EXPECT_TRUE(request.ok()) << request.status();
  return request.ok() ? *std::move(request) : PromptRequest();
}

std::string UsageErrorOf(const std::string& line) {
  const auto request = ParsePromptLine(line, "p.jsonl line 1", {});
  EXPECT_FALSE(request.ok());
  return std::string(request.status().message());
}

TEST(ParsePromptLine, TakesEveryOption) {
  const PromptRequest request = Parse(
      R"({"prompt": "hi", "request_id": "r1", "tag": "story", "preset": "qa", "model": "m", "max_tokens": 5, "min_tokens": 2,
          "temperature": 0.5, "top_k": 3, "top_p": 0.9, "min_p": 0.1, "repetition_penalty": 1.1,
          "presence_penalty": 0.2, "frequency_penalty": 0.3, "no_repeat_ngram_size": 4,
          "seed": 18446744073709551615, "stop": ["a", "b"], "stop_token_id": [1, 2],
          "logprobs": 3, "eos": "mask", "eos_steps": true, "eos_probe": true, "predict": true,
          "length_target": 70, "length_strength": 2.5})");
  ASSERT_TRUE(request.unsendable.ok()) << request.unsendable;
  EXPECT_EQ(std::get<std::string>(request.input), "hi");
  const auto& spec = request.spec;
  EXPECT_EQ(spec.request_id(), "r1");
  EXPECT_EQ(spec.tag(), "story");
  EXPECT_EQ(spec.preset(), "qa");
  EXPECT_EQ(spec.model(), "m");
  EXPECT_EQ(spec.stop().max_tokens(), 5);
  EXPECT_EQ(spec.stop().min_tokens(), 2);
  EXPECT_FLOAT_EQ(spec.sampling().temperature(), 0.5F);
  EXPECT_EQ(spec.sampling().top_k(), 3);
  EXPECT_FLOAT_EQ(spec.sampling().top_p(), 0.9F);
  EXPECT_FLOAT_EQ(spec.sampling().min_p(), 0.1F);
  EXPECT_FLOAT_EQ(spec.sampling().repetition_penalty(), 1.1F);
  EXPECT_FLOAT_EQ(spec.sampling().presence_penalty(), 0.2F);
  EXPECT_FLOAT_EQ(spec.sampling().frequency_penalty(), 0.3F);
  EXPECT_EQ(spec.sampling().no_repeat_ngram_size(), 4);
  EXPECT_EQ(spec.sampling().seed(), UINT64_MAX);
  EXPECT_THAT(spec.stop().stop(), ElementsAre("a", "b"));
  EXPECT_THAT(spec.stop().stop_token_ids(), ElementsAre(1, 2));
  EXPECT_EQ(spec.output().logprobs(), 3);
  EXPECT_EQ(spec.stop().eos_policy(), v1::EOS_POLICY_IGNORE_MASK);
  EXPECT_TRUE(spec.eos().steps());
  EXPECT_EQ(spec.stop().length_control().target(), 70);
  EXPECT_FLOAT_EQ(spec.stop().length_control().strength(), 2.5F);
  EXPECT_TRUE(spec.eos().probe());
  EXPECT_TRUE(spec.eos().predict());
}

TEST(ParsePromptLine, TakesGuides) {
  EXPECT_EQ(Parse(R"({"prompt": "x", "guided_json": "{}"})").spec.guided_json(), "{}");
  EXPECT_EQ(Parse(R"({"prompt": "x", "guided_regex": "a+"})").spec.guided_regex(), "a+");
  EXPECT_EQ(Parse(R"({"prompt": "x", "guided_grammar": "g"})").spec.guided_grammar(), "g");
  EXPECT_THAT(Parse(R"({"prompt": "x", "guided_choice": ["b", "a"]})").spec.guided_choice(),
              ElementsAre("b", "a"));
  EXPECT_TRUE(Parse(R"({"prompt": "x", "json_object": true})").spec.json_object());
}

TEST(ParsePromptLine, WhatTheLineLeavesOutComesFromTheFlags) {
  PromptDefaults defaults;
  defaults.spec.mutable_stop()->set_max_tokens(9);
  defaults.spec.mutable_sampling()->set_temperature(0.25);
  const PromptRequest request = Parse(R"({"prompt": "x", "max_tokens": 4})", defaults);
  EXPECT_EQ(request.spec.stop().max_tokens(), 4);
  EXPECT_FLOAT_EQ(request.spec.sampling().temperature(), 0.25F);
  EXPECT_FALSE(request.spec.sampling().has_top_p());
}

TEST(ParsePromptLine, TakesIdsAndMessages) {
  EXPECT_THAT(std::get<std::vector<int32_t>>(Parse(R"({"token_ids": [1, -2, 3]})").input),
              ElementsAre(1, -2, 3));
  const auto request = Parse(
      R"({"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]})");
  const auto& messages = std::get<PromptRequest::Messages>(request.input);
  ASSERT_EQ(messages.size(), 2u);
  EXPECT_EQ(messages[1].content(), "u");
}

TEST(ParsePromptLine, ChatMakesThePromptAMessage) {
  for (const bool by_flag : {true, false}) {
    const auto request =
        Parse(by_flag ? R"({"prompt": "x"})" : R"({"prompt": "x", "chat": true})", {{}, by_flag});
    const auto& messages = std::get<PromptRequest::Messages>(request.input);
    ASSERT_EQ(messages.size(), 1u);
    EXPECT_EQ(messages[0].role(), "user");
  }
}

TEST(ParsePromptLine, ValuesTravelUnchecked) {
  const PromptRequest request =
      Parse(R"({"prompt": "", "max_tokens": -7, "temperature": -1, "logprobs": 1000})");
  EXPECT_TRUE(request.unsendable.ok());
  EXPECT_EQ(request.spec.stop().max_tokens(), -7);
}

TEST(ParsePromptLine, ValuesThatTheApiCannotHoldFailThatRequestOnly) {
  const struct {
    const char* line;
    Reason reason;
  } cases[] = {
      {R"({"prompt": "x", "request_id": "r", "max_tokens": 1.5})", Reason::kInvalidMaxTokens},
      {R"({"prompt": "x", "request_id": "r", "top_k": 3000000000})", Reason::kInvalidSampling},
      {R"({"prompt": "x", "request_id": "r", "temperature": "hot"})", Reason::kInvalidSampling},
      {R"({"prompt": "x", "request_id": "r", "seed": -1})", Reason::kInvalidSampling},
      {R"({"prompt": "x", "request_id": "r", "length_strength": "hard"})",
       Reason::kInvalidSampling},
      {R"({"prompt": 5, "request_id": "r"})", Reason::kInvalidText},
      {R"({"token_ids": ["a"], "request_id": "r"})", Reason::kInvalidTokenId},
      {R"({"messages": [{"role": "user"}], "request_id": "r"})", Reason::kInvalidText},
      {R"({"prompt": "x", "request_id": "r", "eos": "never"})", Reason::kConflictingOptions},
      {R"({"prompt": "x", "token_ids": [1], "request_id": "r"})", Reason::kConflictingOptions},
  };
  for (const auto& bad : cases) {
    const PromptRequest request = Parse(bad.line);
    EXPECT_EQ(ReasonOf(request.unsendable), bad.reason) << bad.line;
    EXPECT_EQ(request.unsendable.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(request.spec.request_id(), "r") << bad.line;
  }
}

TEST(ParsePromptLine, WhatIsNoJsonObjectIsAUsageError) {
  for (const char* line : {"hello", "[1]", "\"x\"", "{\"prompt\":"}) {
    EXPECT_THAT(UsageErrorOf(line), HasSubstr("p.jsonl line 1")) << line;
  }
}

TEST(ParsePromptLine, RefusesWhatNestsVeryDeeplyAndWhatStandsBehindAByteZero) {
  const std::string deep = std::string(200'000, '[') + std::string(200'000, ']');
  EXPECT_THAT(UsageErrorOf(R"({"prompt": "x", "temperature": )" + deep + "}"),
              HasSubstr("nests more than 100 levels"));
  EXPECT_THAT(UsageErrorOf("{\"prompt\": \"x\"}" + std::string(1, '\0') + "junk"),
              HasSubstr("a byte 0"));
}

TEST(ParsePromptLine, AWrongValueIsQuotedInPart) {
  const PromptRequest request = Parse(R"({"max_tokens": ")" + std::string(100'000, 'x') + "\"}");
  EXPECT_LT(request.unsendable.message().size(), 200U);
}

TEST(ParsePromptLine, AnUnknownKeyNamesTheNearest) {
  EXPECT_THAT(UsageErrorOf(R"({"prompt": "x", "max_token": 5})"),
              AllOf(HasSubstr("'max_token'"), HasSubstr("Try: max_tokens")));
}

TEST(ParsePromptLine, AnEmptyGuideIsNotLeftOut) {
  for (const char* guide : {R"("guided_choice": [])", R"("guided_json": "")",
                            R"("guided_regex": "")", R"("guided_grammar": "")"}) {
    const PromptRequest request = Parse(R"({"prompt": "x", )" + std::string(guide) + "}");
    EXPECT_EQ(ReasonOf(request.unsendable), Reason::kInvalidGuide) << guide;
  }
}

TEST(ReadPrompts, SkipsBlankLinesAndNumbersTheOthers) {
  std::istringstream good("{\"prompt\":\"a\"}\n\n  \r\n{\"prompt\":\"b\"}");
  const auto requests = ReadPrompts(&good, "f", {});
  ASSERT_TRUE(requests.ok());
  EXPECT_EQ(requests->size(), 2u);
  std::istringstream bad("{\"prompt\":\"a\"}\n\nnonsense\n");
  EXPECT_THAT(std::string(ReadPrompts(&bad, "f", {}).status().message()), HasSubstr("f line 3"));
}

TEST(ReadPrompts, RefusesWhatHasNoPromptsOrCannotBeRead) {
  std::istringstream blank("\n \n");
  EXPECT_THAT(std::string(ReadPrompts(&blank, "f", {}).status().message()),
              HasSubstr("f: found no prompts"));
  const ScratchFolder folder;
  std::ifstream opened(folder.path());
  ASSERT_TRUE(opened.good()) << "a folder opens as a file does";
  EXPECT_THAT(std::string(ReadPrompts(&opened, "f", {}).status().message()),
              HasSubstr("cannot read f: Is a directory"));
}

}  // namespace
}  // namespace baton
