#include "router/openai/openai_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "common/base/status.h"
#include "tests/router/openai/body_refusal.h"

namespace baton {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

OpenAiRequest Completion(const std::string& fields) {
  auto request = ReadOpenAiRequest(OpenAiApi::kCompletions, R"({"prompt":"hello")" + fields + "}");
  EXPECT_TRUE(request.ok()) << request.status();
  return request.ok() ? *std::move(request) : OpenAiRequest{};
}

OpenAiRequest Chat(const std::string& fields) {
  auto request = ReadOpenAiRequest(
      OpenAiApi::kChat, R"({"messages":[{"role":"user","content":"hello"}])" + fields + "}");
  EXPECT_TRUE(request.ok()) << request.status();
  return request.ok() ? *std::move(request) : OpenAiRequest{};
}

TEST(OpenAiRequestTest, FieldsOfSamplingAndStoppingHaveTheirPlacesInTheSpec) {
  const OpenAiRequest request = Completion(
      R"(,"model":"m","max_tokens":7,"temperature":0.5,"top_p":0.9,"top_k":5,"min_p":0.1,"seed":3,
      "presence_penalty":1,"frequency_penalty":-1.5,"repetition_penalty":1.2,"stop":["a","b"],
      "no_repeat_ngram_size":3,"stop_token_ids":[4,5],"min_tokens":2,"logit_bias":{"65":-100},
      "include_stop_str_in_output":true,"skip_special_tokens":false,"logprobs":2,"user":"me",
      "cache_salt":"s","request_id":"r","preset":"code")");
  const v1::GenerationSpec& spec = request.spec;
  EXPECT_EQ(std::get<std::string>(request.input), "hello");
  EXPECT_EQ(spec.model(), "m");
  EXPECT_EQ(spec.request_id(), "r");
  EXPECT_EQ(spec.preset(), "code");
  EXPECT_EQ(spec.cache_salt(), "s");
  EXPECT_EQ(spec.stop().max_tokens(), 7);
  EXPECT_EQ(spec.stop().min_tokens(), 2);
  EXPECT_THAT(spec.stop().stop(), ElementsAre("a", "b"));
  EXPECT_THAT(spec.stop().stop_token_ids(), ElementsAre(4, 5));
  EXPECT_TRUE(spec.stop().include_stop_in_output());
  EXPECT_EQ(spec.sampling().temperature(), 0.5F);
  EXPECT_EQ(spec.sampling().top_p(), 0.9F);
  EXPECT_EQ(spec.sampling().top_k(), 5);
  EXPECT_EQ(spec.sampling().min_p(), 0.1F);
  EXPECT_EQ(spec.sampling().seed(), 3U);
  EXPECT_EQ(spec.sampling().presence_penalty(), 1);
  EXPECT_EQ(spec.sampling().frequency_penalty(), -1.5);
  EXPECT_EQ(spec.sampling().repetition_penalty(), 1.2F);
  EXPECT_EQ(spec.sampling().no_repeat_ngram_size(), 3);
  EXPECT_EQ(spec.sampling().logit_bias().at(65), -100);
  EXPECT_EQ(spec.output().logprobs(), 2);
  EXPECT_FALSE(spec.output().skip_special_tokens());
  EXPECT_TRUE(request.ignored.empty());
  EXPECT_FALSE(request.shape.stream);
  EXPECT_FALSE(request.shape.extension);
}

TEST(OpenAiRequestTest, WhatIsLeftOutStaysUnset) {
  for (const char* nothing :
       {"", R"(,"temperature":null,"max_tokens":null,"stop":null,"seed":-1)"}) {
    const OpenAiRequest request = Completion(nothing);
    EXPECT_FALSE(request.spec.sampling().has_temperature());
    EXPECT_FALSE(request.spec.sampling().has_seed());
    EXPECT_FALSE(request.spec.stop().has_max_tokens());
    EXPECT_FALSE(request.spec.output().has_logprobs());
    EXPECT_EQ(request.usual_max_tokens, 16);
  }
  EXPECT_EQ(Chat("").usual_max_tokens, 0);
}

TEST(OpenAiRequestTest, PromptsAreTextOrIdsOrAListOfOneOfThem) {
  const auto input = [](const std::string& prompt) {
    auto request = ReadOpenAiRequest(OpenAiApi::kCompletions, R"({"prompt":)" + prompt + "}");
    EXPECT_TRUE(request.ok()) << request.status();
    return request->input;
  };
  const auto text = [&](const std::string& prompt) { return std::get<std::string>(input(prompt)); };
  const auto ids = [&](const std::string& prompt) {
    return std::get<std::vector<TokenId>>(input(prompt));
  };
  EXPECT_EQ(text(R"("a\u0000b")"), std::string("a\0b", 3));
  EXPECT_EQ(text(R"(["one"])"), "one");
  EXPECT_THAT(ids("[1,2]"), ElementsAre(1, 2));
  EXPECT_THAT(ids("[[1,2]]"), ElementsAre(1, 2));
  EXPECT_TRUE(ids("[]").empty());
}

TEST(OpenAiRequestTest, MessagesAreTextOrTextParts) {
  const auto request =
      ReadOpenAiRequest(OpenAiApi::kChat,
                        R"({"messages":[{"role":"system","content":"be","name":"bob"},
          {"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}],
           "tool_calls":null,"refusal":null,"mood":"good"}]})");
  ASSERT_TRUE(request.ok()) << request.status();
  const auto& messages = std::get<std::vector<ChatMessage>>(request->input);
  ASSERT_EQ(messages.size(), 2U);
  EXPECT_EQ(messages[0].role, "system");
  EXPECT_EQ(messages[0].content, "be");
  EXPECT_EQ(messages[0].fields_json, R"({"name":"bob"})");
  EXPECT_EQ(messages[1].content, "a\nb");
  EXPECT_THAT(request->ignored, ElementsAre("messages.mood"));
}

TEST(OpenAiRequestTest, DevelopersMessagesAreTheSystems) {
  const auto request =
      ReadOpenAiRequest(OpenAiApi::kChat, R"({"messages":[{"role":"developer","content":"be"},
          {"role":"user","content":"a"},{"role":"assistant","content":"b"}]})");
  ASSERT_TRUE(request.ok()) << request.status();
  const auto& messages = std::get<std::vector<ChatMessage>>(request->input);
  ASSERT_EQ(messages.size(), 3U);
  EXPECT_EQ(messages[0].role, "system");
  EXPECT_EQ(messages[1].role, "user");
  EXPECT_EQ(messages[2].role, "assistant");
}

TEST(OpenAiRequestTest, ChatsHaveTheirOwnNamesForLengthAndLogprobs) {
  const OpenAiRequest request =
      Chat(R"(,"max_tokens":5,"max_completion_tokens":9,"logprobs":true,"top_logprobs":3)");
  EXPECT_EQ(request.spec.stop().max_tokens(), 9);
  EXPECT_EQ(request.spec.output().logprobs(), 3);
  EXPECT_EQ(Chat(R"(,"logprobs":true)").spec.output().logprobs(), 0);
  EXPECT_FALSE(Chat(R"(,"logprobs":false,"top_logprobs":0)").spec.output().has_logprobs());
}

TEST(OpenAiRequestTest, StreamsSayWhatUsageTheyShow) {
  const OpenAiRequest request = Chat(
      R"(,"stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true,
          "include_obfuscation":false})");
  EXPECT_TRUE(request.shape.stream);
  EXPECT_TRUE(request.shape.include_usage);
  EXPECT_TRUE(request.shape.continuous_usage);
  EXPECT_THAT(request.ignored, ElementsAre("stream_options.include_obfuscation"));
}

TEST(OpenAiRequestTest, TheExtensionAsksForEosAndPredictions) {
  const OpenAiRequest request = Completion(
      R"(,"baton":{"eos_steps":true,"predict":true,"predict_every":4,"eos":"mask","tag":"qa",
          "length_control":{"target":30,"strength":2.5}})");
  EXPECT_TRUE(request.shape.extension);
  EXPECT_TRUE(request.spec.eos().steps());
  EXPECT_TRUE(request.spec.eos().predict());
  EXPECT_EQ(request.spec.eos().predict_every(), 4);
  EXPECT_EQ(request.spec.stop().eos_policy(), v1::EOS_POLICY_IGNORE_MASK);
  EXPECT_EQ(request.spec.tag(), "qa");
  EXPECT_EQ(request.spec.stop().length_control().target(), 30);
  EXPECT_EQ(request.spec.stop().length_control().strength(), 2.5);
  EXPECT_TRUE(Completion(R"(,"baton":{})").shape.extension);
}

TEST(OpenAiRequestTest, IgnoreEosMeansContinue) {
  EXPECT_EQ(Completion(R"(,"ignore_eos":true)").spec.stop().eos_policy(),
            v1::EOS_POLICY_IGNORE_CONTINUE);
  EXPECT_EQ(Completion(R"(,"ignore_eos":false)").spec.stop().eos_policy(),
            v1::EOS_POLICY_UNSPECIFIED);
  EXPECT_EQ(Completion(R"(,"ignore_eos":true,"baton":{"eos":"mask"})").spec.stop().eos_policy(),
            v1::EOS_POLICY_IGNORE_MASK);
}

TEST(OpenAiRequestTest, SpecialTokensFollowTheRequest) {
  EXPECT_EQ(Completion("").special_tokens, std::nullopt);
  EXPECT_EQ(Completion(R"(,"add_special_tokens":false)").special_tokens, false);
  EXPECT_EQ(Chat(R"(,"add_special_tokens":true)").special_tokens, true);
}

TEST(OpenAiRequestTest, FieldsThatNobodyKnowsAreNamedOnce) {
  EXPECT_THAT(Completion(R"(,"zeal":1,"mood":{"a":[1]},"messages":[])").ignored,
              ElementsAre("messages", "mood", "zeal"));
}

TEST(OpenAiRequestTest, SeveralAnswersAreAskedForAndShapeTheAnswer) {
  const OpenAiRequest request = Completion(R"(,"n":2,"best_of":5)");
  EXPECT_EQ(request.spec.sampling().n(), 2);
  EXPECT_EQ(request.spec.sampling().best_of(), 5);
  EXPECT_EQ(request.shape.answers, 2);
  EXPECT_EQ(Chat(R"(,"n":3)").shape.answers, 3);
  EXPECT_EQ(Chat(R"(,"n":null)").shape.answers, 1);
  EXPECT_FALSE(Completion("").spec.sampling().has_n());
}

TEST(OpenAiRequestTest, FieldsThatAreLackingMayAskForNothing) {
  Completion(
      R"(,"echo":false,"suffix":"","guided_regex":null,"guided_choice":null,"priority":0,
      "use_beam_search":false,"allowed_token_ids":[],"length_penalty":1.0)");
  EXPECT_TRUE(
      Chat(R"(,"best_of":1,"tools":[],"tool_choice":"none","response_format":{"type":"text"},
      "functions":null,"modalities":["text"],"store":false,"service_tier":"auto")")
          .ignored.empty());
}

TEST(OpenAiRequestTest, BeamsAreAsManyAsAnswersOrAsIsSaid) {
  const auto sampling = [](const OpenAiRequest& request) { return request.spec.sampling(); };
  const v1::SamplingParams some = sampling(
      Completion(R"(,"use_beam_search":true,"n":4,"length_penalty":0.6,"early_stopping":"never")"));
  EXPECT_EQ(some.beam_width(), 4);
  EXPECT_EQ(some.n(), 4);
  EXPECT_FLOAT_EQ(some.length_penalty(), 0.6F);
  EXPECT_EQ(some.early_stopping(), v1::EARLY_STOPPING_NEVER);
  const v1::SamplingParams best =
      sampling(Completion(R"(,"use_beam_search":true,"n":2,"best_of":5,"early_stopping":true)"));
  EXPECT_EQ(best.beam_width(), 5);
  EXPECT_FALSE(best.has_best_of());
  EXPECT_EQ(best.early_stopping(), v1::EARLY_STOPPING_TRUE);
  EXPECT_EQ(sampling(Chat(R"(,"use_beam_search":true,"baton":{"beam_width":3})")).beam_width(), 3);
  EXPECT_FALSE(sampling(Completion(R"(,"use_beam_search":false,"n":4)")).has_beam_width());
  const auto body = [](const std::string& more) {
    return R"({"messages":[{"role":"user","content":"x"}])" + more + "}";
  };
  ExpectBodyRefused(OpenAiApi::kChat,
                    {body(R"(,"use_beam_search":true)"), "use_beam_search", "one beam"});
  ExpectBodyRefused(OpenAiApi::kChat, {body(R"(,"use_beam_search":true,"n":17)"), "n", "n is 17"});
  ExpectBodyRefused(
      OpenAiApi::kCompletions,
      {R"({"prompt":"x","use_beam_search":true,"n":2,"best_of":18})", "best_of", "best_of is 18"});
  ExpectBodyRefused(OpenAiApi::kChat, {body(R"(,"baton":{"beam_width":17})"), "baton.beam_width",
                                       "baton.beam_width is 17"});
  ExpectBodyRefused(OpenAiApi::kChat,
                    {body(R"(,"early_stopping":"soon")"), "early_stopping", "never"});
}

TEST(OpenAiRequestTest, AnEchoHasLogprobsWhereTheAnswerHas) {
  const v1::OutputOptions plain = Completion(R"(,"echo":true,"max_tokens":0)").spec.output();
  EXPECT_TRUE(plain.echo());
  EXPECT_FALSE(plain.prompt_logprobs());
  EXPECT_TRUE(Completion(R"(,"logprobs":1,"echo":true)").spec.output().prompt_logprobs());
  EXPECT_FALSE(Completion(R"(,"logprobs":1,"echo":false)").spec.output().prompt_logprobs());
}

TEST(OpenAiRequestTest, FieldsThatAreLackingAreRefusedByName) {
  for (const auto& [field, value] :
       std::vector<std::pair<std::string, std::string>>{{"best_of", "3"},
                                                        {"echo", "true"},
                                                        {"suffix", R"("x")"},
                                                        {"tools", R"([{"type":"function"}])"},
                                                        {"prompt_logprobs", "0"},
                                                        {"structured_outputs", "{}"},
                                                        {"tool_choice", R"("required")"},
                                                        {"priority", "1"}}) {
    const std::string body =
        R"({"messages":[{"role":"user","content":"x"}],")" + field + "\":" + value + "}";
    ExpectBodyRefused(OpenAiApi::kChat, {body, field, "is not implemented"});
  }
}

TEST(OpenAiRequestTest, GuidesOfBothProtocolsBecomeThoseOfTheSpec) {
  EXPECT_TRUE(Chat(R"(,"response_format":{"type":"json_object"})").spec.json_object());
  // The order of the properties is kept, however the body is written.
  const auto schema = Chat(R"(,"response_format": {"type" : "json_schema", "json_\u0073chema":
      {"name":"p,{\"","strict":true, "schema" : {"properties":{"z":{}, "a":{}}} , "n":1 } })");
  EXPECT_EQ(schema.spec.guided_json(), R"({"properties":{"z":{}, "a":{}}})");
  EXPECT_TRUE(schema.ignored.empty());
  EXPECT_EQ(Completion(R"(,"guided_json":{"z":1,"a":[2,{"b":"}"}]})").spec.guided_json(),
            R"({"z":1,"a":[2,{"b":"}"}]})");
  EXPECT_EQ(Completion(R"(,"guided_json":"{\"type\":\"null\"}")").spec.guided_json(),
            R"({"type":"null"})");
  EXPECT_EQ(Completion(R"(,"guided_regex":"a+")").spec.guided_regex(), "a+");
  EXPECT_EQ(Completion(R"(,"guided_grammar":"start: \"a\"")").spec.guided_grammar(),
            "start: \"a\"");
  EXPECT_THAT(Completion(R"(,"guided_choice":["b","a"])").spec.guided_choice(),
              ElementsAre("b", "a"));
}

TEST(OpenAiRequestTest, GuidesThatAreNoneAreRefusedByName) {
  for (const auto& [field, value, says] :
       std::vector<std::tuple<std::string, std::string, std::string>>{
           {"response_format", R"("json_object")", "an object"},
           {"response_format.type", "{}", "no type"},
           {"response_format.type", R"({"type":"structural_tag"})", "not implemented"},
           {"response_format.json_schema", R"({"type":"json_schema"})", "no schema"},
           {"response_format.json_schema.schema",
            R"({"type":"json_schema","json_schema":{"name":"a","schema":5}})", "a JSON schema"},
           {"guided_json", "5", "a JSON schema"},
           {"guided_regex", "{}", "a string"},
           {"guided_choice", R"("a")", "a list"},
           {"guided_choice", "[]", "guided_choice is empty; expected at least one string"},
           {"guided_json", R"("")", "guided_json is empty"},
           {"guided_regex", R"("")", "guided_regex is empty"},
           {"guided_grammar", R"("")", "guided_grammar is empty"},
           {"guided_regex", "[1]", "a string"}}) {
    const std::string name = field.substr(0, field.find('.'));
    const std::string body = R"({"prompt":"x",")" + name + "\":" + value + "}";
    ExpectBodyRefused(OpenAiApi::kCompletions, {body, field, says});
  }
  ExpectBodyRefused(OpenAiApi::kCompletions, {R"({"prompt":"x","guided_json":"{}","response_format":
                        {"type":"json_schema","json_schema":{"name":"a","schema":{}}}})",
                                              "response_format.json_schema", "expected one"});
  ExpectBodyRefused(OpenAiApi::kCompletions,
                    {R"({"prompt":"x","guided_json":")" + std::string(70000, 'a') + "\"}",
                     "guided_json", "65536"});
  ExpectBodyRefused(
      OpenAiApi::kCompletions,
      {R"({"prompt":"x","response_format":{"type":"json_schema","json_schema":{"schema":{"a":")" +
           std::string(70000, 'a') + "\"}}}}",
       "response_format.json_schema", "response_format.json_schema has 70"});
}

TEST(OpenAiRequestTest, AnEmptyGuideIsAnInvalidOne) {
  const auto request = ReadOpenAiRequest(OpenAiApi::kChat, R"({"messages":[],"guided_regex":""})");
  EXPECT_EQ(ReasonOf(request.status()), Reason::kInvalidGuide);
}

TEST(OpenAiRequestTest, ErrorsNameFieldsAsTheBodyDid) {
  EXPECT_EQ(Chat(R"(,"guided_json":{})").shape.names.schema, "guided_json");
  EXPECT_EQ(Chat(R"(,"response_format":{"type":"json_schema","json_schema":{"schema":{}}})")
                .shape.names.schema,
            "response_format.json_schema");
  EXPECT_EQ(Chat(R"(,"max_tokens":4)").shape.names.max_tokens, "max_tokens");
  EXPECT_EQ(Chat(R"(,"max_tokens":4,"max_completion_tokens":5)").shape.names.max_tokens,
            "max_completion_tokens");
}

TEST(OpenAiRequestTest, NoTokensAreForAnEchoAlone) {
  EXPECT_EQ(Completion(R"(,"echo":true,"max_tokens":0)").spec.stop().max_tokens(), 0);
  ExpectBodyRefused(OpenAiApi::kCompletions,
                    {R"({"prompt":"x","max_tokens":0})", "max_tokens",
                     "max_tokens is 0; expected at least 1, or 0 with echo"});
  ExpectBodyRefused(OpenAiApi::kCompletions,
                    {R"({"prompt":"x","echo":true,"max_tokens":-1})", "max_tokens", "is -1"});
  ExpectBodyRefused(OpenAiApi::kChat, {R"({"messages":[],"max_completion_tokens":0})",
                                       "max_completion_tokens", "is 0; expected at least 1"});
}

TEST(OpenAiRequestTest, ValuesOfAnotherTypeAreRefusedByName) {
  for (const auto& [field, value] :
       std::vector<std::pair<std::string, std::string>>{{"temperature", R"("hot")"},
                                                        {"max_tokens", "1.5"},
                                                        {"max_tokens", "1e30"},
                                                        {"max_tokens", "3000000000"},
                                                        {"seed", "-7"},
                                                        {"seed", "18446744073709551616"},
                                                        {"stream", "1"},
                                                        {"stop", "5"},
                                                        {"stop", R"({"a":5})"},
                                                        {"model", "[]"},
                                                        {"logit_bias", "[]"},
                                                        {"logit_bias", R"({"a":1})"},
                                                        {"logit_bias", R"({"1":"b"})"},
                                                        {"logprobs", "true"},
                                                        {"ignore_eos", R"("yes")"},
                                                        {"stop_token_ids", R"("1")"},
                                                        {"stream_options", "true"},
                                                        {"baton", "true"}}) {
    const std::string body = R"({"prompt":"x",")" + field + "\":" + value + "}";
    ExpectBodyRefused(OpenAiApi::kCompletions, {body, field, field});
  }
}

TEST(OpenAiRequestTest, OfAListTheWrongElementIsNamed) {
  for (const auto& [field, value, says] :
       std::vector<std::tuple<std::string, std::string, std::string>>{
           {"stop", R"(["a",3])", "stop[1] is 3; expected a string"},
           {"stop_token_ids", R"([4,"1"])",
            "stop_token_ids[1] is of the kind string; expected a whole number"},
           {"guided_choice", R"(["a","b",true])", "guided_choice[2] is true; expected a string"}}) {
    const std::string body = R"({"prompt":"x",")" + field + "\":" + value + "}";
    ExpectBodyRefused(OpenAiApi::kCompletions, {body, says.substr(0, says.find(' ')), says});
  }
  ExpectBodyRefused(OpenAiApi::kCompletions, {R"({"prompt":[1,2,0.5]})", "prompt[2]",
                                              "prompt[2] is 0.5; expected a whole number"});
}

TEST(OpenAiRequestTest, InputsThatAreNoneAreRefused) {
  const OpenAiApi plain = OpenAiApi::kCompletions;
  ExpectBodyRefused(plain, {"{}", "prompt", "no prompt"});
  ExpectBodyRefused(plain, {R"({"prompt":null})", "prompt", "no prompt"});
  ExpectBodyRefused(plain, {R"({"prompt":["a","b"]})", "prompt", "one request for each"});
  ExpectBodyRefused(plain, {R"({"prompt":[1,"b"]})", "prompt[1]", "whole number"});
  ExpectBodyRefused(plain, {R"({"prompt":["a",5]})", "prompt", "a list of different kinds"});
  ExpectBodyRefused(plain, {R"({"prompt":5})", "prompt", "a string"});
  const OpenAiApi chat = OpenAiApi::kChat;
  ExpectBodyRefused(chat, {"{}", "messages", "no messages"});
  ExpectBodyRefused(chat, {R"({"messages":"hi"})", "messages", "a list"});
  ExpectBodyRefused(chat, {R"({"messages":["hi"]})", "messages[0]", "an object"});
  ExpectBodyRefused(chat, {R"({"messages":[{"role":"user"}]})", "messages[0].content", "a string"});
  ExpectBodyRefused(chat, {R"({"messages":[{"content":"x"}]})", "messages[0].role", "a string"});
  ExpectBodyRefused(chat, {R"({"messages":[{"role":"tool","content":"x"}]})", "messages[0].role",
                           "messages[0].role is \"tool\", which is not supported; expected "});
  ExpectBodyRefused(chat, {R"({"messages":[{"role":"System","content":"x"}]})", "messages[0].role",
                           "is \"System\"; expected system, developer, user or assistant"});
  ExpectBodyRefused(chat, {R"({"messages":[{"role":"user","content":[{"type":"image_url"}]}]})",
                           "messages[0].content[0].type", "not implemented"});
  ExpectBodyRefused(chat, {R"({"messages":[{"role":"assistant","content":"x","tool_calls":[{}]}]})",
                           "messages[0].tool_calls", "not implemented"});
}

TEST(OpenAiRequestTest, FieldsThatContradictEachOtherAreRefused) {
  ExpectBodyRefused(OpenAiApi::kCompletions,
                    {R"({"prompt":"x","stream_options":{}})", "stream_options", "stream"});
  ExpectBodyRefused(
      OpenAiApi::kCompletions,
      {R"({"prompt":"x","ignore_eos":true,"baton":{"eos":"honor"}})", "ignore_eos", ""});
  ExpectBodyRefused(OpenAiApi::kChat, {R"({"messages":[],"top_logprobs":2})", "top_logprobs", ""});
  ExpectBodyRefused(OpenAiApi::kCompletions,
                    {R"({"prompt":"x","baton":{"eos":"never"}})", "baton.eos", "honor"});
  ExpectBodyRefused(OpenAiApi::kCompletions,
                    {R"({"prompt":"x","baton":{"eos_step":true}})", "baton.eos_step", "eos_steps"});
}

}  // namespace
}  // namespace baton
