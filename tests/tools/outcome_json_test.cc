#include "tools/generate/outcome_json.h"

#include "common/base/status.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/tools/answers.h"

namespace baton {
namespace {

using Json = nlohmann::ordered_json;

Outcome Good() {
  Outcome outcome;
  outcome.request_id = "r";
  outcome.text = "a \"b\"\n";
  outcome.token_ids = {7, 2};
  outcome.final = GoodAnswer({}, "").events[3].final();
  return outcome;
}

std::vector<std::string> KeysOf(const Json& json) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : json.items()) keys.push_back(key);
  return keys;
}

TEST(OutcomeAsJson, HasTheDocumentedKeysInOrder) {
  Outcome foreseen = Good();
  foreseen.predict = true;
  EXPECT_EQ(Json::parse(OutcomeAsJson(foreseen))["predictions"], Json::array());
  Outcome preset = Good();
  preset.sampling.emplace().set_temperature(0.3F);
  EXPECT_EQ(Json::parse(OutcomeAsJson(preset))["sampling"], Json({{"temperature", 0.3}}));
  const std::string line = OutcomeAsJson(Good());
  EXPECT_EQ(line.find('\n'), std::string::npos);
  const Json json = Json::parse(line);
  EXPECT_EQ(KeysOf(json),
            (std::vector<std::string>{"request_id", "text", "token_ids", "finish_reason",
                                      "stop_cause", "stop_match", "usage", "timings_ms", "logprobs",
                                      "eos", "attempts", "workers"}));
  EXPECT_EQ(KeysOf(json["usage"]),
            (std::vector<std::string>{"prompt_tokens", "cached_tokens", "completion_tokens",
                                      "natural_end_step"}));
  EXPECT_EQ(KeysOf(json["timings_ms"]),
            (std::vector<std::string>{"queue", "prefill", "kv_transfer", "ttft", "total"}));
  EXPECT_EQ(json["text"], "a \"b\"\n");
  EXPECT_EQ(json["token_ids"], Json({7, 2}));
  EXPECT_EQ(json["finish_reason"], "stop_eos");
  EXPECT_EQ(json["stop_cause"], "eos");
  EXPECT_EQ(json["stop_match"], 2);
  EXPECT_TRUE(json["usage"]["natural_end_step"].is_null());
  EXPECT_EQ(json["workers"]["decode"], "127.0.0.1:2");
  EXPECT_TRUE(json["logprobs"].empty());
}

TEST(OutcomeAsJson, SeveralAnswersStandInAList) {
  Outcome outcome = Good();
  outcome.final.set_seed(11);
  outcome.further.resize(1);
  outcome.further[0].text = "other";
  outcome.further[0].final = outcome.final;
  outcome.further[0].final.set_index(1);
  outcome.further[0].final.set_seed(12);
  outcome.further[0].final.set_score(-0.5);
  outcome.further[0].final.mutable_total_usage()->set_completion_tokens(9);
  const Json json = Json::parse(OutcomeAsJson(outcome));
  EXPECT_EQ(KeysOf(json), (std::vector<std::string>{"request_id", "usage", "answers"}));
  EXPECT_EQ(json["usage"]["completion_tokens"], 9);
  ASSERT_EQ(json["answers"].size(), 2U);
  EXPECT_EQ(json["answers"][0]["text"], "a \"b\"\n");
  EXPECT_EQ(json["answers"][0]["seed"], 11);
  EXPECT_FALSE(json["answers"][0].contains("score"));
  EXPECT_EQ(json["answers"][1]["index"], 1);
  EXPECT_EQ(json["answers"][1]["text"], "other");
  EXPECT_EQ(json["answers"][1]["score"], -0.5);
}

TEST(OutcomeAsJson, ShowsWhatWasAskedFor) {
  Outcome outcome = Good();
  outcome.logprobs.resize(2);
  outcome.logprobs[0].set_logprob(-0.5);
  auto* top = outcome.logprobs[0].add_top();
  top->set_token_id(9);
  top->set_logprob(-0.25);
  top->set_text(" a");
  outcome.logprobs[0].set_text("\uFFFD");
  outcome.logprobs[0].set_raw_bytes("\xC3");
  outcome.eos_steps.resize(2);
  outcome.eos_steps[0].set_step(1);
  outcome.eos_steps[1].add_probe(0.5);
  outcome.eos_steps[1].add_probe(-2);
  outcome.predict = true;
  auto& prediction = outcome.predictions.emplace_back();
  prediction.set_at_step(1);
  prediction.set_expected_remaining(12.5);
  prediction.set_p50(9);
  prediction.set_p90(31);
  prediction.add_within()->set_horizon(4);
  prediction.mutable_within(0)->set_probability(0.25);
  outcome.final.mutable_usage()->set_natural_end_step(3);
  outcome.final.set_stop_string("end");
  outcome.final.clear_prefill_worker();
  const Json json = Json::parse(OutcomeAsJson(outcome));
  EXPECT_EQ(json["logprobs"][0],
            Json::parse("{\"token_id\":7,\"text\":\"\uFFFD\",\"bytes\":[195],\"logprob\":-0.5,"
                        R"("top":[{"token_id":9,"text":" a","logprob":-0.25}]})"));
  EXPECT_EQ(json["eos"][0]["step"], 1);
  EXPECT_TRUE(json["eos"][0]["eos_prob"].is_null()) << "a model without EOS has none";
  EXPECT_FALSE(json["eos"][0].contains("probe"));
  EXPECT_EQ(json["eos"][1]["probe"], Json::parse("[0.5, -2.0]"));
  EXPECT_EQ(json["predictions"][0],
            Json::parse(R"({"at_step":1,"expected_remaining":12.5,"p50":9.0,"p90":31.0,)"
                        R"("within":{"4":0.25}})"));
  EXPECT_EQ(json["usage"]["natural_end_step"], 3);
  EXPECT_EQ(json["stop_match"], "end");
  EXPECT_TRUE(json["workers"]["prefill"].is_null());
}

TEST(OutcomeAsJson, AFailureIsItsError) {
  Outcome outcome;
  outcome.request_id = "r";
  outcome.text = "half of";
  outcome.status = InvalidArgument(Reason::kTooLong, "prompt", "have 9, limit 4");
  EXPECT_EQ(OutcomeAsJson(outcome),
            R"({"request_id":"r","error":{"code":"INVALID_ARGUMENT","reason":"TOO_LONG",)"
            R"("message":"have 9, limit 4"}})");
  outcome.request_id.clear();
  outcome.status = absl::UnavailableError("nobody there");
  EXPECT_EQ(OutcomeAsJson(outcome),
            R"({"request_id":null,"error":{"code":"UNAVAILABLE","reason":"",)"
            R"("message":"nobody there"}})");
}

}  // namespace
}  // namespace baton
