#include "tools/bench/client/completion_chunk.h"

#include <string>
#include <utility>

#include "common/base/shown_text.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::bench {
namespace {

using ::testing::HasSubstr;

TEST(CompletionChunk, TextIsOneArrival) {
  const auto chunk = ParseCompletionChunk(
      R"({"id":"c-1","choices":[{"index":0,"text":"two words","finish_reason":null}],"usage":null})");
  ASSERT_TRUE(chunk.ok()) << chunk.status();
  EXPECT_EQ(chunk->id, "c-1");
  EXPECT_EQ(chunk->tokens, 1);
  EXPECT_EQ(chunk->finish_reason, "");
  EXPECT_FALSE(chunk->usage);
}

TEST(CompletionChunk, AnEmptyTextIsATokenToo) {
  const auto chunk = ParseCompletionChunk(
      R"({"choices":[{"index":0,"text":"","finish_reason":null}],"usage":null})");
  ASSERT_TRUE(chunk.ok()) << chunk.status();
  EXPECT_EQ(chunk->tokens, 1);
  EXPECT_FALSE(chunk->may_be_token);
}

TEST(CompletionChunk, AnEmptyTextBesideSomethingElseMayBeAToken) {
  for (const char* json :
       {R"({"choices":[{"text":"","finish_reason":"length"}]})",
        R"({"choices":[{"text":"","finish_reason":null}],"usage":{"completion_tokens":7}})"}) {
    const auto chunk = ParseCompletionChunk(json);
    ASSERT_TRUE(chunk.ok()) << chunk.status();
    EXPECT_EQ(chunk->tokens, 0) << json;
    EXPECT_TRUE(chunk->may_be_token) << json;
  }
}

TEST(CompletionChunk, TextBesideTheFinishReasonIsAToken) {
  const auto chunk = ParseCompletionChunk(
      R"({"choices":[{"text":".","finish_reason":"stop"}],"usage":{"completion_tokens":7}})");
  ASSERT_TRUE(chunk.ok()) << chunk.status();
  EXPECT_EQ(chunk->tokens, 1);
  EXPECT_FALSE(chunk->may_be_token);
  EXPECT_EQ(chunk->finish_reason, "stop");
}

TEST(CompletionChunk, WithoutATextThereIsNoToken) {
  for (const char* json : {R"({"choices":[],"usage":{"completion_tokens":7}})",
                           R"({"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]})",
                           R"({"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]})"}) {
    const auto chunk = ParseCompletionChunk(json);
    ASSERT_TRUE(chunk.ok()) << chunk.status();
    EXPECT_EQ(chunk->tokens, 0) << json;
    EXPECT_FALSE(chunk->may_be_token) << json;
  }
}

TEST(CompletionChunk, TokenIdsCountWhereTheyAreSent) {
  for (const char* text : {"abc", ""}) {
    const auto chunk = ParseCompletionChunk(
        std::string(R"({"choices":[{"token_ids":[5,6,7],"text":")") + text + R"("}]})");
    ASSERT_TRUE(chunk.ok()) << chunk.status();
    EXPECT_EQ(chunk->tokens, 3);
  }
}

TEST(CompletionChunk, TokenIdsOfBatonsExtensionCountLikewise) {
  const std::pair<const char*, int> cases[] = {
      {R"({"choices":[{"text":"abc"}],"baton":{"token_ids":[5,6],"eos":[{"token_id":2}]}})", 2},
      {R"({"choices":[{"text":""}],"baton":{"token_ids":[2],"eos":[]}})", 1},
      {R"({"choices":[{"text":""}],"baton":{"token_ids":[],"prediction":{"steps":[3]}}})", 0}};
  for (const auto& [json, tokens] : cases) {
    const auto chunk = ParseCompletionChunk(json);
    ASSERT_TRUE(chunk.ok()) << chunk.status();
    EXPECT_EQ(chunk->tokens, tokens) << json;
    EXPECT_FALSE(chunk->may_be_token) << json;
  }
}

TEST(CompletionChunk, CountsTheFirstChoiceAtItsOwnPlaceOnly) {
  const auto chunk = ParseCompletionChunk(
      R"({"text":"no","choices":[{"logprobs":{"text":"no","token_ids":[1]}},)"
      R"({"text":"no","token_ids":[1,2],"finish_reason":"stop"}],"x":{"choices":[{"text":"no"}],)"
      R"("baton":{"token_ids":[1]}}})");
  ASSERT_TRUE(chunk.ok()) << chunk.status();
  EXPECT_EQ(chunk->tokens, 0);
  EXPECT_FALSE(chunk->may_be_token);
  EXPECT_EQ(chunk->finish_reason, "");
}

TEST(CompletionChunk, ReadsUsage) {
  const auto chunk = ParseCompletionChunk(
      R"({"id":"c","choices":[],"usage":{"prompt_tokens":11,"total_tokens":18,)"
      R"("completion_tokens":7,"prompt_tokens_details":{"cached_tokens":4,"audio_tokens":9}}})");
  ASSERT_TRUE(chunk.ok()) << chunk.status();
  ASSERT_TRUE(chunk->usage);
  EXPECT_EQ(chunk->usage->prompt_tokens, 11);
  EXPECT_EQ(chunk->usage->completion_tokens, 7);
  EXPECT_EQ(chunk->usage->cached_tokens, 4);
}

TEST(CompletionChunk, ReadsAnErrorInEitherForm) {
  for (const char* json :
       {R"({"error":{"message":"no room","type":"x"}})", R"({"error":"no room"})"}) {
    const auto chunk = ParseCompletionChunk(json);
    ASSERT_TRUE(chunk.ok()) << chunk.status();
    EXPECT_EQ(chunk->error, "no room");
  }
  EXPECT_EQ(ParseCompletionChunk("{\"error\":\"\\u001b[2J\"}")->error, "\\x1b[2J")
      << "a terminal only shows it";
}

TEST(CompletionChunk, AnErrorNeedsNoMessage) {
  for (const std::string json :
       {R"({"error":{"code":500}})", R"({"error":{"message":null,"code":1}})",
        R"({"error":{"message":""}})", R"({"error":503})", R"({"error":["no room"]})",
        R"({"error":true})", R"({"error":""})", R"({"object":"error","message":null})"}) {
    const auto chunk = ParseCompletionChunk(json);
    ASSERT_TRUE(chunk.ok()) << chunk.status();
    EXPECT_EQ(chunk->error, "'" + ShownText(json) + "'") << json;
  }
  for (const char* json : {R"({"error":{"code":500},"message":"engine died"})",
                           R"({"object":"error","message":"engine died","code":500})"}) {
    const auto chunk = ParseCompletionChunk(json);
    ASSERT_TRUE(chunk.ok()) << chunk.status();
    EXPECT_EQ(chunk->error, "engine died") << json;
  }
}

TEST(CompletionChunk, WhatOnlyLooksLikeAnErrorIsNone) {
  for (const char* json : {R"({"error":null,"choices":[{"text":"a"}]})",
                           R"({"object":"text_completion","choices":[{"text":"error"}]})",
                           R"({"x":{"error":"no","object":"error"},"message":"hello"})"}) {
    const auto chunk = ParseCompletionChunk(json);
    ASSERT_TRUE(chunk.ok()) << chunk.status();
    EXPECT_EQ(chunk->error, "") << json;
  }
}

TEST(CompletionChunk, RefusesWhatIsNoJsonObject) {
  std::string deep(100, '[');
  deep += std::string(100, ']');
  for (const std::string& json :
       {std::string(), std::string("{"), std::string("[1]"), std::string("3"),
        std::string("{id: oops}"), std::string("{} {}"), "{\"x\":" + deep + "}"}) {
    const auto chunk = ParseCompletionChunk(json);
    ASSERT_FALSE(chunk.ok()) << json;
    EXPECT_THAT(std::string(chunk.status().message()), HasSubstr(ShownText(json.substr(0, 20))));
  }
}

TEST(CompletionChunk, NumbersOutOfRangeAreClamped) {
  const auto chunk =
      ParseCompletionChunk(R"({"usage":{"prompt_tokens":99999999999999,"completion_tokens":-4}})");
  ASSERT_TRUE(chunk.ok()) << chunk.status();
  EXPECT_EQ(chunk->usage->prompt_tokens, 2147483647);
  EXPECT_EQ(chunk->usage->completion_tokens, 0);
}

TEST(ErrorMessage, IsFoundWhereServersPutIt) {
  EXPECT_EQ(ErrorMessageOf(R"({"error":{"message":"a"}})"), "a");
  EXPECT_EQ(ErrorMessageOf(R"({"error":"b"})"), "b");
  EXPECT_EQ(ErrorMessageOf(R"({"object":"error","message":"c"})"), "c");
  EXPECT_EQ(ErrorMessageOf(R"({"detail":"d"})"), "d");
  EXPECT_EQ(ErrorMessageOf("{\"detail\":\"\\u001b[2J\"}"), "\\x1b[2J");
  EXPECT_EQ(ErrorMessageOf("<html>"), "'<html>'");
  EXPECT_EQ(ErrorMessageOf("\x1b[2J"), R"('\x1b[2J')");
  EXPECT_EQ(ErrorMessageOf(""), "no message");
  EXPECT_LT(ErrorMessageOf(std::string(5000, 'x')).size(), 300u);
}

}  // namespace
}  // namespace baton::bench
