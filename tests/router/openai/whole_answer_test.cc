#include "router/openai/whole_answer.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "nlohmann/json.hpp"
#include "router/openai/text_pieces.h"
#include "tests/router/openai/answer_messages.h"

namespace baton {
namespace {

using Json = nlohmann::json;

v1::TokenLogprobs WholeLogprobs(const std::string& text, float logprob) {
  v1::TokenLogprobs token;
  token.set_text(text);
  token.set_logprob(logprob);
  v1::TokenLogprob* top = token.add_top();
  top->set_text("\xef\xbf\xbd");
  top->set_raw_bytes("\xc3");
  top->set_logprob(-0.25F);
  return token;
}

// An answer of two tokens, with everything that can be asked for.
void TellAnswer(int32_t index, WholeAnswer* whole) {
  for (const std::string text : {"a\"b\n", "ä"}) {
    v1::Delta delta = SomeDelta(text, 7 + index);
    delta.set_index(index);
    *delta.add_logprobs() = WholeLogprobs(text, -0.5F);
    v1::EosStep* step = delta.add_eos_steps();
    step->set_step(1);
    step->set_eos_prob(0.25);
    whole->Append(delta);
    v1::EndPrediction prediction;
    prediction.set_index(index);
    prediction.set_at_step(1);
    whole->Predict(prediction);
  }
  v1::Final final = SomeFinal();
  final.set_index(index);
  whole->End(final);
}

WholeAnswer Whole(OpenAiApi api, OpenAiShape shape) {
  WholeAnswer whole({.api = api, .shape = shape, .created = 1700});
  whole.Start(SomeStart(0.5F));
  return whole;
}

std::string TextOf(WholeAnswer* whole) {
  std::string text;
  for (const std::string& piece : whole->Take().Take()) text += piece;
  return text;
}

// Every byte counts: clients compare what they get.
TEST(WholeAnswerTest, ACompletionIsWrittenAsEver) {
  constexpr std::string_view kText =
      R"({"id":"cmpl-r1","object":"text_completion","created":1700,"model":"tiny","choices":[)"
      R"({"index":0,"text":"néxa\"b\nä","logprobs":{"text_offset":[0,0,1,2,2,3,7],"token_logp)"
      R"(robs":[null,-1.0,-1.0,-1.0,-1.0,-0.5,-0.5],"tokens":["<s>","n","bytes:\\xc3","bytes:)"
      R"(\\xa9","x","a\"b\n","ä"],"top_logprobs":[null,{"n":-1.0},{"bytes:\\xc3":-1.0},{"byte)"
      R"(s:\\xa9":-1.0},{"x":-1.0},{"bytes:\\xc3":-0.25,"a\"b\n":-0.5},{"bytes:\\xc3":-0.25,")"
      R"(ä":-0.5}]},"finish_reason":"stop"}],"usage":{"prompt_tokens":6,"completion_tokens":3)"
      R"(,"total_tokens":9,"prompt_tokens_details":{"cached_tokens":4}},"baton":{"token_ids":)"
      R"([7,7],"eos":[{"step":1,"timestamp":0.0,"eos_logprob":null,"eos_prob":0.25,"eos_prob_)"
      R"(sampling":0.0,"eos_rank":0,"entropy":0.0,"top1_prob":0.0},{"step":1,"timestamp":0.0,)"
      R"("eos_logprob":null,"eos_prob":0.25,"eos_prob_sampling":0.0,"eos_rank":0,"entropy":0.)"
      R"(0,"top1_prob":0.0}],"predictions":[{"at_step":1,"expected_remaining":0.0,"p50":0.0,")"
      R"(p90":0.0,"within":{}},{"at_step":1,"expected_remaining":0.0,"p50":0.0,"p90":0.0,"wit)"
      R"(hin":{}}],"finish_reason":"stop_eos","stop_cause":"eos","stop_match":2,"natural_end_)"
      R"(step":null,"timings_ms":{"queue":0.0,"prefill":0.0,"kv_transfer":0.0,"ttft":0.0,"tot)"
      R"(al":0.0},"attempts":1,"workers":{"prefill":null,"decode":"127.0.0.1:5"},"sampling":{)"
      R"("temperature":0.5}}})";
  WholeAnswer whole = Whole(OpenAiApi::kCompletions, {.extension = true});
  whole.Show(EchoOf(true));
  TellAnswer(0, &whole);
  EXPECT_EQ(TextOf(&whole), kText);
}

TEST(WholeAnswerTest, AChatOfTwoAnswersIsWrittenAsEver) {
  constexpr std::string_view kText =
      R"({"id":"chatcmpl-r1","object":"chat.completion","created":1700,"model":"tiny","choice)"
      R"(s":[{"index":0,"message":{"role":"assistant","content":"a\"b\nä","refusal":null},"lo)"
      R"(gprobs":{"content":[{"token":"a\"b\n","logprob":-0.5,"bytes":[97,34,98,10],"top_logp)"
      R"(robs":[{"token":"�","logprob":-0.25,"bytes":[195]}]},{"token":"ä","logprob":-0.5,"by)"
      R"(tes":[195,164],"top_logprobs":[{"token":"�","logprob":-0.25,"bytes":[195]}]}],"refus)"
      R"(al":null},"finish_reason":"stop","baton":{"token_ids":[7,7],"eos":[{"step":1,"timest)"
      R"(amp":0.0,"eos_logprob":null,"eos_prob":0.25,"eos_prob_sampling":0.0,"eos_rank":0,"en)"
      R"(tropy":0.0,"top1_prob":0.0},{"step":1,"timestamp":0.0,"eos_logprob":null,"eos_prob":)"
      R"(0.25,"eos_prob_sampling":0.0,"eos_rank":0,"entropy":0.0,"top1_prob":0.0}],"predictio)"
      R"(ns":[{"at_step":1,"expected_remaining":0.0,"p50":0.0,"p90":0.0,"within":{}},{"at_ste)"
      R"(p":1,"expected_remaining":0.0,"p50":0.0,"p90":0.0,"within":{}}],"finish_reason":"sto)"
      R"(p_eos","stop_cause":"eos","stop_match":2,"natural_end_step":null,"timings_ms":{"queu)"
      R"(e":0.0,"prefill":0.0,"kv_transfer":0.0,"ttft":0.0,"total":0.0},"attempts":1,"workers)"
      R"(":{"prefill":null,"decode":"127.0.0.1:5"},"sampling":{"temperature":0.5}}},{"index":)"
      R"(1,"message":{"role":"assistant","content":"a\"b\nä","refusal":null},"logprobs":{"con)"
      R"(tent":[{"token":"a\"b\n","logprob":-0.5,"bytes":[97,34,98,10],"top_logprobs":[{"toke)"
      R"(n":"�","logprob":-0.25,"bytes":[195]}]},{"token":"ä","logprob":-0.5,"bytes":[195,164)"
      R"(],"top_logprobs":[{"token":"�","logprob":-0.25,"bytes":[195]}]}],"refusal":null},"fi)"
      R"(nish_reason":"stop","baton":{"token_ids":[8,8],"eos":[{"step":1,"timestamp":0.0,"eos)"
      R"(_logprob":null,"eos_prob":0.25,"eos_prob_sampling":0.0,"eos_rank":0,"entropy":0.0,"t)"
      R"(op1_prob":0.0},{"step":1,"timestamp":0.0,"eos_logprob":null,"eos_prob":0.25,"eos_pro)"
      R"(b_sampling":0.0,"eos_rank":0,"entropy":0.0,"top1_prob":0.0}],"predictions":[{"at_ste)"
      R"(p":1,"expected_remaining":0.0,"p50":0.0,"p90":0.0,"within":{}},{"at_step":1,"expecte)"
      R"(d_remaining":0.0,"p50":0.0,"p90":0.0,"within":{}}],"finish_reason":"stop_eos","stop_)"
      R"(cause":"eos","stop_match":2,"natural_end_step":null,"timings_ms":{"queue":0.0,"prefi)"
      R"(ll":0.0,"kv_transfer":0.0,"ttft":0.0,"total":0.0},"attempts":1,"workers":{"prefill":)"
      R"(null,"decode":"127.0.0.1:5"},"sampling":{"temperature":0.5}}}],"usage":{"prompt_toke)"
      R"(ns":6,"completion_tokens":3,"total_tokens":9,"prompt_tokens_details":{"cached_tokens)"
      R"(":4}}})";
  WholeAnswer whole = Whole(OpenAiApi::kChat, {.answers = 2, .extension = true});
  for (const int32_t index : {0, 1}) TellAnswer(index, &whole);
  EXPECT_EQ(TextOf(&whole), kText);
}

TEST(WholeAnswerTest, AnEchoHasItsLogprobsInTheListsOfTheAnswer) {
  WholeAnswer whole = Whole(OpenAiApi::kCompletions, {});
  whole.Show(EchoOf(true));
  v1::Delta delta = SomeDelta("y", 5);
  *delta.add_logprobs() = WholeLogprobs("y", -2);
  whole.Append(delta);
  whole.End(SomeFinal());
  const Json choice = Json::parse(TextOf(&whole))["choices"][0];
  EXPECT_EQ(choice["text"], "néxy");
  const Json& lists = choice["logprobs"];
  EXPECT_EQ(lists["token_logprobs"], Json::parse("[null,-1.0,-1.0,-1.0,-1.0,-2.0]"));
  EXPECT_EQ(lists["top_logprobs"][0], nullptr);
  EXPECT_EQ(lists["text_offset"], Json::parse("[0,0,1,2,2,3]"));
  EXPECT_EQ(lists["tokens"][0], "<s>");
}

// A prompt of ids that was cut inside characters: the text has U+FFFD where tokens have other
// bytes.
TEST(WholeAnswerTest, AnEchoCountsWhatIsNoCharacter) {
  WholeAnswer whole = Whole(OpenAiApi::kCompletions, {});
  v1::Prompt echo;
  echo.set_text("\uFFFDa\uFFFDbc\uFFFD");
  for (const std::string bytes : {"\xA9", "a", "\xE4\xBD", "bc", "\xE4"}) {
    echo.add_token_ids(3);
    v1::TokenLogprobs* token = echo.add_logprobs();
    const bool whole_characters = bytes == "a" || bytes == "bc";
    token->set_text(whole_characters ? bytes : "\uFFFD");
    if (!whole_characters) token->set_raw_bytes(bytes);
    token->set_logprob(-1);
  }
  whole.Show(echo);
  v1::Delta delta = SomeDelta("y", 5);
  *delta.add_logprobs() = WholeLogprobs("y", -2);
  whole.Append(delta);
  whole.End(SomeFinal());
  const Json choice = Json::parse(TextOf(&whole))["choices"][0];
  EXPECT_EQ(choice["logprobs"]["text_offset"], Json::parse("[0,1,2,3,5,6]"));
}

TEST(WholeAnswerTest, AnswersOfOneRequestAreChoicesOfOneObject) {
  WholeAnswer whole = Whole(OpenAiApi::kCompletions, {.answers = 2, .extension = true});
  v1::Delta second = SomeDelta("two", 8);
  second.set_index(1);
  whole.Append(second);
  whole.Append(SomeDelta("one", 7));
  v1::Final final = SomeFinal();
  final.set_seed(11);
  whole.End(final);
  final.set_index(1);
  final.set_seed(12);
  final.set_score(-0.5);
  final.mutable_total_usage()->set_prompt_tokens(6);
  final.mutable_total_usage()->set_completion_tokens(30);
  whole.End(final);
  const Json json = Json::parse(TextOf(&whole));
  ASSERT_EQ(json["choices"].size(), 2U);
  EXPECT_EQ(json["choices"][0]["text"], "one");
  EXPECT_EQ(json["choices"][1]["text"], "two");
  EXPECT_EQ(json["choices"][1]["index"], 1);
  EXPECT_EQ(json["choices"][1]["baton"]["seed"], 12);
  EXPECT_EQ(json["choices"][1]["baton"]["score"], -0.5);
  EXPECT_FALSE(json["choices"][0]["baton"].contains("score"));
  EXPECT_EQ(json["usage"]["total_tokens"], 36);
  EXPECT_FALSE(json.contains("baton"));
}

TEST(WholeAnswerTest, OneAnswerIsOneObject) {
  for (const bool extension : {true, false}) {
    WholeAnswer whole = Whole(OpenAiApi::kChat, {.extension = extension});
    whole.Append(SomeDelta("text", 7));
    v1::Final final = SomeFinal();
    final.set_finish_reason(v1::FINISH_REASON_RUNAWAY);
    whole.End(final);
    const Json chat = Json::parse(TextOf(&whole));
    EXPECT_EQ(chat["object"], "chat.completion");
    EXPECT_EQ(chat["choices"][0]["message"],
              Json::parse(R"({"role":"assistant","content":"text","refusal":null})"));
    EXPECT_EQ(chat["choices"][0]["finish_reason"], "length");
    EXPECT_EQ(chat["usage"]["total_tokens"], 9);
    EXPECT_EQ(chat.contains("baton"), extension);
    if (!extension) continue;
    EXPECT_EQ(chat["baton"]["finish_reason"], "runaway");
  }
}

TEST(WholeAnswerTest, ALongOneComesInPiecesThatWereCountedAsItGrew) {
  WholeAnswer whole = Whole(OpenAiApi::kCompletions, {});
  const std::string text(1000, 'x');
  for (int i = 0; i < 500; ++i) {
    v1::Delta delta = SomeDelta(text, 7);
    *delta.add_logprobs() = WholeLogprobs(text, -1);
    whole.Append(delta);
  }
  whole.End(SomeFinal());
  const size_t counted = whole.bytes();
  EXPECT_GT(counted, 500 * 3 * text.size());
  TextPieces all = whole.Take();
  EXPECT_GE(all.bytes(), counted);
  EXPECT_LE(all.bytes(), counted + 1000);
  std::string joined;
  for (const std::string& piece : all.Take()) {
    EXPECT_LE(piece.size(), size_t{68} << 10);
    joined += piece;
  }
  EXPECT_EQ(Json::parse(joined)["choices"][0]["text"].get<std::string>().size(), 500 * text.size());
}

}  // namespace
}  // namespace baton
