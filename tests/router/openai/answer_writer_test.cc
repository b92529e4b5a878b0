#include "router/openai/answer_writer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "nlohmann/json.hpp"
#include "tests/router/openai/answer_messages.h"

namespace baton {
namespace {

using Json = nlohmann::json;

AnswerWriter Writer(OpenAiApi api, OpenAiShape shape) {
  AnswerWriter writer({.api = api, .shape = shape, .created = 1700});
  v1::Started started = SomeStart(0.9F);
  started.mutable_sampling()->set_top_k(0);
  writer.Start(started);
  return writer;
}

// The JSON of each event; "[DONE]" stays a string.
std::vector<Json> ChunksOf(const std::string& text) {
  std::vector<Json> events;
  size_t at = 0;
  while (at < text.size()) {
    const size_t end = text.find("\n\n", at);
    const std::string event = text.substr(at, end - at);
    EXPECT_TRUE(event.starts_with("data: ")) << event;
    const std::string data = event.substr(6);
    events.push_back(data == "[DONE]" ? Json(data) : Json::parse(data));
    at = end + 2;
  }
  return events;
}

Json ChunkOf(const std::string& text) {
  const std::vector<Json> events = ChunksOf(text);
  EXPECT_EQ(events.size(), 1U);
  return events.empty() ? Json() : events[0];
}

TEST(AnswerWriterTest, ChatStreamsSayWhoSpeaksThenTextThenTheEnd) {
  AnswerWriter writer = Writer(OpenAiApi::kChat, {.stream = true});
  const Json opening = ChunkOf(writer.Opening());
  EXPECT_EQ(opening, Json::parse(R"({"id":"chatcmpl-r1","object":"chat.completion.chunk",
      "created":1700,"model":"tiny","choices":[{"index":0,"delta":{"role":"assistant","content":""},
      "logprobs":null,"finish_reason":null}]})"));
  const Json text = ChunkOf(writer.DeltaEvent(SomeDelta("hä", 7)));
  EXPECT_EQ(text["choices"][0]["delta"], Json::parse(R"({"content":"hä"})"));
  const std::vector<Json> last = ChunksOf(writer.LastEvents(SomeFinal()));
  ASSERT_EQ(last.size(), 2U);
  EXPECT_EQ(last[0]["choices"][0]["delta"], Json::object());
  EXPECT_EQ(last[0]["choices"][0]["finish_reason"], "stop");
  EXPECT_FALSE(last[0].contains("usage"));
  EXPECT_FALSE(last[0].contains("baton"));
  EXPECT_EQ(last[1], "[DONE]");
}

TEST(AnswerWriterTest, CompletionStreamsHaveTextAndNoOpening) {
  AnswerWriter writer = Writer(OpenAiApi::kCompletions, {.stream = true});
  EXPECT_EQ(writer.Opening(), "");
  EXPECT_EQ(ChunkOf(writer.DeltaEvent(SomeDelta("a", 7))),
            Json::parse(R"({"id":"cmpl-r1","object":"text_completion","created":1700,"model":"tiny",
                "choices":[{"index":0,"text":"a","logprobs":null,"finish_reason":null}]})"));
  EXPECT_EQ(writer.DeltaEvent(SomeDelta("", 8)), "") << "half a character says nothing";
}

TEST(AnswerWriterTest, UsageStandsInAChunkOfItsOwn) {
  AnswerWriter writer = Writer(OpenAiApi::kChat, {.stream = true, .include_usage = true});
  EXPECT_EQ(ChunkOf(writer.DeltaEvent(SomeDelta("a", 7)))["usage"], Json());
  const std::vector<Json> last = ChunksOf(writer.LastEvents(SomeFinal()));
  ASSERT_EQ(last.size(), 3U);
  EXPECT_EQ(last[0]["usage"], Json());
  EXPECT_EQ(last[1]["choices"], Json::array());
  EXPECT_EQ(last[1]["usage"],
            Json::parse(R"({"prompt_tokens":6,"completion_tokens":3,"total_tokens":9,
                "prompt_tokens_details":{"cached_tokens":4}})"));
}

TEST(AnswerWriterTest, ContinuousUsageCountsInEveryChunk) {
  AnswerWriter writer = Writer(OpenAiApi::kCompletions, {.stream = true, .continuous_usage = true});
  EXPECT_EQ(ChunkOf(writer.DeltaEvent(SomeDelta("", 7)))["usage"]["completion_tokens"], 1);
  EXPECT_EQ(ChunkOf(writer.DeltaEvent(SomeDelta("a", 7)))["usage"]["total_tokens"], 8);
}

TEST(AnswerWriterTest, TheExtensionTellsTokensEndsAndPredictions) {
  AnswerWriter writer = Writer(OpenAiApi::kChat, {.stream = true, .extension = true});
  v1::Delta delta = SomeDelta("", 7);
  v1::EosStep* step = delta.add_eos_steps();
  step->set_step(1);
  step->set_eos_prob(0.25);
  const Json tokens = ChunkOf(writer.DeltaEvent(delta))["baton"];
  EXPECT_EQ(tokens["token_ids"], Json::array({7}));
  EXPECT_EQ(tokens["eos"][0]["eos_prob"], 0.25);
  EXPECT_EQ(tokens["eos"][0]["eos_logprob"], Json());
  v1::EndPrediction prediction;
  prediction.set_at_step(1);
  v1::EndWithin* within = prediction.add_within();
  within->set_horizon(4);
  within->set_probability(0.5);
  const Json foretold = ChunkOf(writer.PredictionEvent(prediction));
  EXPECT_EQ(foretold["choices"][0]["delta"], Json::object());
  EXPECT_EQ(foretold["baton"]["prediction"]["within"]["4"], 0.5);
  const Json end = ChunksOf(writer.LastEvents(SomeFinal()))[0]["baton"];
  EXPECT_EQ(end["finish_reason"], "stop_eos");
  EXPECT_EQ(end["stop_cause"], "eos");
  EXPECT_EQ(end["stop_match"], 2);
  EXPECT_EQ(end["natural_end_step"], Json());
  EXPECT_EQ(end["workers"], Json::parse(R"({"prefill":null,"decode":"127.0.0.1:5"})"));
  EXPECT_TRUE(end["timings_ms"].contains("kv_transfer"));
  EXPECT_EQ(end["sampling"], Json::parse(R"({"temperature":0.9,"top_k":0})"));
}

void AddLogprobs(v1::Delta* delta, const std::string& text, float logprob) {
  v1::TokenLogprobs* token = delta->add_logprobs();
  token->set_text(text);
  token->set_logprob(logprob);
  v1::TokenLogprob* top = token->add_top();
  top->set_text("\xef\xbf\xbd");
  top->set_raw_bytes("\xc3");
  top->set_logprob(-std::numeric_limits<float>::infinity());
}

TEST(AnswerWriterTest, ChatLogprobsHaveBytesAndAreFinite) {
  AnswerWriter writer = Writer(OpenAiApi::kChat, {.stream = true});
  v1::Delta delta = SomeDelta("ä", 7);
  AddLogprobs(&delta, "ä", -0.5);
  EXPECT_EQ(ChunkOf(writer.DeltaEvent(delta))["choices"][0]["logprobs"],
            Json::parse(R"({"content":[{"token":"ä","logprob":-0.5,"bytes":[195,164],
                "top_logprobs":[{"token":"\ufffd","logprob":-9999.0,"bytes":[195]}]}],
                "refusal":null})"));
}

TEST(AnswerWriterTest, CompletionLogprobsCountACharacterOfManyTokensOnce) {
  AnswerWriter writer = Writer(OpenAiApi::kCompletions, {.stream = true});
  v1::Delta delta = SomeDelta("€x!", 7);
  for (const char* byte : {"\xe2", "\x82", "\xac"}) {
    AddLogprobs(&delta, "\xef\xbf\xbd", -1);
    delta.mutable_logprobs()->rbegin()->set_raw_bytes(byte);
  }
  AddLogprobs(&delta, "x", -1);
  AddLogprobs(&delta, "!", -1);
  const Json offsets = ChunkOf(writer.DeltaEvent(delta))["choices"][0]["logprobs"]["text_offset"];
  EXPECT_EQ(offsets, Json::parse("[0,1,1,1,2]"));
}

// What the text leaves out stands between two bytes of one character.
TEST(AnswerWriterTest, TextOffsetsFollowTheTextAndNotTheTokens) {
  AnswerWriter writer({.api = OpenAiApi::kCompletions,
                       .shape = {.stream = true},
                       .created = 1700,
                       .left_out = [](int32_t id) { return id == 2; }});
  v1::Started started = SomeStart(0.9F);
  started.mutable_sampling()->set_top_k(0);
  writer.Start(started);
  v1::Delta delta = SomeDelta("a\uFFFDb€c", 7);
  delta.clear_token_ids();
  const auto add = [&delta](int32_t id, const std::string& text, const std::string& bytes) {
    delta.add_token_ids(id);
    AddLogprobs(&delta, text, -1);
    if (bytes != text) delta.mutable_logprobs()->rbegin()->set_raw_bytes(bytes);
  };
  add(2, "<|end|>", "<|end|>");
  add(7, "a", "a");
  add(8, "\uFFFD", "\x80");  // begins no character
  add(7, "b", "b");
  add(9, "\uFFFD", "\xe2\x82");
  add(2, "<|end|>", "<|end|>");
  add(9, "\uFFFD", "\xac");
  add(7, "c", "c");
  const Json offsets = ChunkOf(writer.DeltaEvent(delta))["choices"][0]["logprobs"]["text_offset"];
  EXPECT_EQ(offsets, Json::parse("[0,0,1,2,3,4,4,4]"));
}

TEST(AnswerWriterTest, AnEchoStandsBeforeTheText) {
  AnswerWriter writer = Writer(OpenAiApi::kCompletions, {.stream = true});
  const Json echo = ChunkOf(writer.PromptEvent(EchoOf(false)))["choices"][0];
  EXPECT_EQ(echo["text"], "néx");
  EXPECT_EQ(echo["logprobs"], nullptr);
}

TEST(AnswerWriterTest, CompletionLogprobsCountCharactersOverAllChunks) {
  AnswerWriter writer = Writer(OpenAiApi::kCompletions, {.stream = true});
  v1::Delta first = SomeDelta("ä ", 7);
  AddLogprobs(&first, "ä ", -0.5);
  writer.DeltaEvent(first);
  v1::Delta second = SomeDelta("b", 8);
  AddLogprobs(&second, "b", -1);
  EXPECT_EQ(ChunkOf(writer.DeltaEvent(second))["choices"][0]["logprobs"],
            Json::parse(R"({"text_offset":[2],"token_logprobs":[-1.0],"tokens":["b"],
                "top_logprobs":[{"bytes:\\xc3":-9999.0,"b":-1.0}]})"));
}

TEST(AnswerWriterTest, StreamsOfSeveralAnswersSayWhichInEachChunk) {
  AnswerWriter writer =
      Writer(OpenAiApi::kChat,
             {.stream = true, .include_usage = true, .continuous_usage = true, .answers = 2});
  const std::vector<Json> opening = ChunksOf(writer.Opening());
  ASSERT_EQ(opening.size(), 2U);
  EXPECT_EQ(opening[1]["choices"][0]["index"], 1);
  EXPECT_EQ(opening[1]["choices"][0]["delta"]["role"], "assistant");
  writer.DeltaEvent(SomeDelta("a", 7));
  v1::Delta second = SomeDelta("b", 8);
  second.set_index(1);
  const Json chunk = ChunkOf(writer.DeltaEvent(second));
  EXPECT_EQ(chunk["choices"][0]["index"], 1);
  EXPECT_EQ(chunk["choices"][0]["delta"]["content"], "b");
  EXPECT_EQ(chunk["usage"]["completion_tokens"], 2) << "of both";
  v1::Final final = SomeFinal();
  final.set_index(1);
  const std::vector<Json> end = ChunksOf(writer.EndEvent(final));
  ASSERT_EQ(end.size(), 1U) << "the other answer goes on";
  EXPECT_EQ(end[0]["choices"][0]["index"], 1);
  EXPECT_EQ(end[0]["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(end[0]["usage"]["completion_tokens"], 2);
  v1::Final last = SomeFinal();
  last.mutable_total_usage()->set_prompt_tokens(6);
  last.mutable_total_usage()->set_completion_tokens(20);
  const std::vector<Json> rest = ChunksOf(writer.LastEvents(last));
  ASSERT_EQ(rest.size(), 3U);
  EXPECT_EQ(rest[0]["choices"][0]["index"], 0);
  EXPECT_EQ(rest[1]["usage"]["total_tokens"], 26);
  EXPECT_EQ(rest[2], "[DONE]");
}

TEST(AnswerWriterTest, LogprobsOfEachAnswerCountTheirOwnCharacters) {
  AnswerWriter writer = Writer(OpenAiApi::kCompletions, {.stream = true, .answers = 2});
  v1::Delta first = SomeDelta("abc", 7);
  AddLogprobs(&first, "abc", -1);
  writer.DeltaEvent(first);
  v1::Delta second = SomeDelta("d", 8);
  AddLogprobs(&second, "d", -1);
  second.set_index(1);
  EXPECT_EQ(ChunkOf(writer.DeltaEvent(second))["choices"][0]["logprobs"]["text_offset"],
            Json::parse("[0]"));
  v1::Delta third = SomeDelta("e", 9);
  AddLogprobs(&third, "e", -1);
  EXPECT_EQ(ChunkOf(writer.DeltaEvent(third))["choices"][0]["logprobs"]["text_offset"],
            Json::parse("[3]"));
}

}  // namespace
}  // namespace baton
