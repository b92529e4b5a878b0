#include "tools/batch/batch_line.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::batch {
namespace {

using ::testing::HasSubstr;

std::string LineWith(const std::string& url, const std::string& body) {
  return R"({"custom_id":"a","method":"POST","url":")" + url + R"(","body":)" + body + "}";
}

std::string Nested(size_t levels) {
  return R"({"prompt":)" + std::string(levels, '[') + std::string(levels, ']') + "}";
}

std::string WhatIsWrong(const std::string& text) {
  const absl::Status wrong = ParseBatchLine(text).wrong;
  return {wrong.message().data(), wrong.message().size()};
}

TEST(BatchLine, ABodyKeepsTheOrderOfItsFields) {
  const BatchLine line = ParseBatchLine(LineWith("/v1/completions", R"({"prompt":"é","a":1.5})"));
  ASSERT_TRUE(line.wrong.ok()) << line.wrong;
  EXPECT_EQ(line.custom_id, "a");
  EXPECT_EQ(line.url, "/v1/completions");
  EXPECT_EQ(line.body.dump(), R"({"prompt":"é","a":1.5})");
}

TEST(BatchLine, SaysWhatIsWrong) {
  EXPECT_THAT(WhatIsWrong("{"), HasSubstr("no JSON object"));
  EXPECT_THAT(WhatIsWrong("[1]"), HasSubstr("no JSON object"));
  EXPECT_THAT(WhatIsWrong("{\"custom_id\":\"\xff\"}"), HasSubstr("no JSON object"));
  EXPECT_THAT(WhatIsWrong("{}"), HasSubstr("custom_id is none"));
  EXPECT_THAT(WhatIsWrong(R"({"custom_id":7})"), HasSubstr("custom_id is 7"));
  EXPECT_THAT(WhatIsWrong(R"({"custom_id":""})"), HasSubstr("custom_id is \"\""));
  EXPECT_THAT(WhatIsWrong(R"({"custom_id":")" + std::string(1025, 'x') + "\"}"),
              HasSubstr("1 to 1024 bytes"));
  EXPECT_THAT(WhatIsWrong(R"({"custom_id":"a","method":"GET"})"), HasSubstr("method is \"GET\""));
  EXPECT_THAT(WhatIsWrong(LineWith("/v1/embeddings", "{}")), HasSubstr("/v1/embeddings"));
  EXPECT_THAT(WhatIsWrong(LineWith("/v1/completions", "[]")), HasSubstr("body is []"));
  EXPECT_THAT(WhatIsWrong(LineWith("/v1/completions", R"({"stream":true})")), HasSubstr("stream"));
  EXPECT_EQ(WhatIsWrong(LineWith("/v1/completions", R"({"stream":null})")), "");
  EXPECT_EQ(WhatIsWrong(LineWith("/v1/completions", Nested(60))), "");
  EXPECT_THAT(WhatIsWrong(LineWith("/v1/completions", Nested(70))), HasSubstr("64 levels"));
  EXPECT_THAT(WhatIsWrong(LineWith("/v1/completions", Nested(3'000'000))), HasSubstr("64 levels"));
  EXPECT_THAT(WhatIsWrong(R"({"custom_id":)" + std::string(3'000'000, '[')), HasSubstr("levels"));
  EXPECT_THAT(WhatIsWrong(LineWith("/v1/completions", "{}") + std::string(1, '\0') + "{"),
              HasSubstr("a byte 0"));
  EXPECT_THAT(WhatIsWrong(std::string(kMaxLineBytes + 1, ' ')), HasSubstr("bytes"));
}

TEST(BatchLine, AWrongLineKeepsItsName) {
  EXPECT_EQ(ParseBatchLine(R"({"custom_id":"a","method":"GET"})").custom_id, "a");
}

LineLengths Lengths(const std::string& url, const std::string& body, int64_t bytes = 400) {
  return LengthsOf(ParseBatchLine(LineWith(url, body)), bytes);
}

TEST(LineLengths, LimitsAreThoseOfTheProtocol) {
  EXPECT_EQ(Lengths("/v1/completions", R"({"prompt":"x"})").limit, 16);
  EXPECT_EQ(Lengths("/v1/completions", R"({"prompt":"x","max_tokens":9})").limit, 9);
  EXPECT_EQ(Lengths("/v1/chat/completions", R"({"messages":[]})").limit, std::nullopt);
  EXPECT_EQ(Lengths("/v1/chat/completions", R"({"max_tokens":9})").limit, 9);
  EXPECT_EQ(Lengths("/v1/chat/completions", R"({"max_tokens":9,"max_completion_tokens":5})").limit,
            5);
  // What the service refuses sorts somewhere.
  EXPECT_EQ(Lengths("/v1/completions", R"({"max_tokens":-3})").limit, 0);
  EXPECT_EQ(Lengths("/v1/completions", R"({"max_tokens":"many"})").limit, 16);
}

TEST(LineLengths, IdsAreCountedAndTextIsGuessed) {
  EXPECT_EQ(Lengths("/v1/completions", R"({"prompt":[1,2,3]})").prompt, 3);
  EXPECT_EQ(Lengths("/v1/completions", R"({"prompt":"x"})", 400).prompt, 100);
}

}  // namespace
}  // namespace baton::batch
