#include "tools/batch/answer_line.h"

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace baton::batch {
namespace {

using Json = nlohmann::json;

TEST(AnswerLine, AnAnswerStandsInTheLineAsItCame) {
  const std::string body = R"({"b": 1.50, "a":"é\u00e9"})";
  const std::string line = ResponseLine({.number = 17, .custom_id = "a\"b"}, 200, "req-1", body);
  EXPECT_EQ(line, R"({"id":"line-17","custom_id":"a\"b","response":{"status_code":200,)"
                  R"("request_id":"req-1","body":)" +
                      body + "},\"error\":null}\n");
  EXPECT_TRUE(line.starts_with(kAnswerBegin));
}

TEST(AnswerLine, JsonOfSeveralLinesComesOnOne) {
  const std::string line =
      ResponseLine({.number = 1, .custom_id = "a"}, 200, "", "{\n  \"z\": 1,\n  \"a\": 2\n}\n");
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  EXPECT_NE(line.find(R"("z": 1)"), std::string::npos) << line;
  const Json json = Json::parse(line);
  EXPECT_EQ(json["response"]["body"], Json::parse(R"({"z":1,"a":2})"));
}

// Servers that write JSON into files put one there, and within a line it is no JSON.
TEST(AnswerLine, AByteOrderMarkIsLeftOut) {
  const std::string line =
      ResponseLine({.number = 1, .custom_id = "a"}, 200, "", "\xEF\xBB\xBF{\"a\":1}");
  EXPECT_NE(line.find(R"("body":{"a":1})"), std::string::npos) << line;
  EXPECT_TRUE(HeadOfAnswer(line)) << line;
}

TEST(AnswerLine, NumbersOfSeveralLinesStayAsTheyCame) {
  const std::string line = ResponseLine({.number = 1, .custom_id = "a"}, 200, "",
                                        "{\n\"a\": 1.50,\r\n\"b\": 123456789012345678901234}\n");
  EXPECT_NE(line.find("1.50"), std::string::npos) << line;
  EXPECT_NE(line.find("123456789012345678901234"), std::string::npos) << line;
  EXPECT_TRUE(HeadOfAnswer(line.substr(0, line.size() - 1))) << line;
}

TEST(AnswerLine, ALineWithoutAnAnswerHasAnError) {
  const Json json =
      Json::parse(ErrorLine({.number = 3, .custom_id = ""}, "invalid_line", "no \xff"));
  EXPECT_TRUE(json["custom_id"].is_null());
  EXPECT_TRUE(json["response"].is_null());
  EXPECT_EQ(json["error"]["code"], "invalid_line");
}

TEST(AnswerLine, ItsHeadIsReadBack) {
  const auto head = [](const std::string& text) { return HeadOfAnswer(text); };
  const auto good = head(ResponseLine({.number = 2, .custom_id = "x"}, 200, "r", "{}"));
  ASSERT_TRUE(good);
  EXPECT_EQ(good->key, KeyOf("x", 99));
  EXPECT_FALSE(good->failed);
  EXPECT_TRUE(head(ResponseLine({.number = 2, .custom_id = "x"}, 400, "r", "{}"))->failed);
  const auto error = head(ErrorLine({.number = 2, .custom_id = ""}, "invalid_line", "m"));
  ASSERT_TRUE(error);
  EXPECT_TRUE(error->failed);
  EXPECT_EQ(error->key, KeyOf("", 2));
}

TEST(AnswerLine, OtherTextIsNone) {
  for (const char* text : {"", "x", "[]", "{}", R"({"id":"line-1"})",
                           R"({"id":"x","custom_id":"a","response":null,"error":null})",
                           R"({"id":"line-0","custom_id":"a","response":null,"error":null})",
                           R"({"id":"line-1x","custom_id":"a","response":null,"error":null})",
                           R"({"id":"line-1","custom_id":7,"response":null,"error":null})"}) {
    EXPECT_FALSE(HeadOfAnswer(text)) << text;
  }
}

TEST(LineKey, NumbersAndNamesAreKeptApart) {
  EXPECT_EQ(KeyOf("a", 1), KeyOf("a", 2));
  EXPECT_FALSE(KeyOf("a", 1) == KeyOf("b", 1));
  EXPECT_FALSE(KeyOf("", 1) == KeyOf("", 2));
  EXPECT_FALSE(KeyOf("1", 1) == KeyOf("", 1));
  EXPECT_EQ(NumberOfAnswerId(AnswerId(17)), 17);
}

}  // namespace
}  // namespace baton::batch
