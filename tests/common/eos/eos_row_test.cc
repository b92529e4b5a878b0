#include "common/eos/eos_row.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "nlohmann/json.hpp"
#include "tests/common/eos/sample_eos_row.h"

namespace baton {
namespace {

TEST(EosRowTest, LineIsExactlyAsDocumented) {
  EXPECT_EQ(EosLineOf(SampleEosRow()),
            "{\"request_id\":\"r1\",\"timestamp\":1234567890.125000,\"step\":5,"
            "\"current_token_id\":123,\"eos_token_id\":2,\"eos_logprob\":-2.302584887,"
            "\"eos_prob\":0.1000000206,\"is_finished\":false,\"finish_reason\":null,"
            "\"prompt_length\":20,\"output_length\":5,\"total_length\":25,"
            "\"eos_prob_sampling\":0.25,\"eos_rank\":3,\"entropy\":1.5,\"top1_prob\":0.75,"
            "\"eos_policy\":\"honor\",\"natural_end_step\":null,\"attempt\":1,\"index\":0}\n");
}

TEST(EosRowTest, LastRowSaysHowTheRequestEnded) {
  EosRow row = SampleEosRow();
  row.finish_reason = FinishReason::kStopEos;
  row.natural_end_step = 5;
  row.attempt = 2;
  const auto json = nlohmann::json::parse(EosLineOf(row));
  EXPECT_EQ(json["is_finished"], true);
  EXPECT_EQ(json["finish_reason"], "stop_eos");
  EXPECT_EQ(json["natural_end_step"], 5);
  EXPECT_EQ(json["attempt"], 2);
}

TEST(EosRowTest, WhatIsNotFiniteOrNotThereIsNull) {
  EosRow row = SampleEosRow();
  auto facts = *row.request;
  facts.eos_token_id.reset();
  row.request = std::make_shared<const EosRequestFacts>(facts);
  row.signal.eos_logprob = std::numeric_limits<float>::quiet_NaN();
  row.signal.entropy = std::numeric_limits<float>::infinity();
  row.signal.eos_rank = 0;
  const auto json = nlohmann::json::parse(EosLineOf(row));
  for (const char* key : {"eos_token_id", "eos_logprob", "eos_prob", "entropy", "eos_rank"}) {
    EXPECT_TRUE(json[key].is_null()) << key;
  }
}

TEST(EosRowTest, ImpossibleEosHasNoLogprobAndProbabilityZero) {
  EosRow row = SampleEosRow();
  row.signal.eos_logprob = -std::numeric_limits<float>::infinity();
  const auto json = nlohmann::json::parse(EosLineOf(row));
  EXPECT_TRUE(json["eos_logprob"].is_null());
  EXPECT_EQ(json["eos_prob"], 0.0);
}

TEST(EosRowTest, FloatsComeBackBitForBit) {
  float value = 1.0F;
  for (int i = 0; i < 200; ++i) {
    value *= -0.7315F;
    std::string text;
    AppendJsonNumber(value, &text);
    EXPECT_EQ(std::strtof(text.c_str(), nullptr), value) << text;
  }
}

TEST(EosRowTest, RequestIdIsEscaped) {
  EosRow row = SampleEosRow();
  auto facts = *row.request;
  facts.request_id = "a\"b\n\x01";
  row.request = std::make_shared<const EosRequestFacts>(facts);
  const std::string line = EosLineOf(row);
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  EXPECT_EQ(nlohmann::json::parse(line)["request_id"], facts.request_id);
}

}  // namespace
}  // namespace baton
