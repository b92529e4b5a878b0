#include "tools/eos/collect/collect_prompts.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/tools/eos/log_files.h"

namespace baton {
namespace {

using ::testing::HasSubstr;

class CollectPromptsTest : public LogFilesTest {
 protected:
  std::string ErrorOf(const std::string& text) const {
    const auto read = ReadCollectPrompts(File("prompts", text));
    return read.ok() ? "" : std::string(read.status().message());
  }
};

TEST_F(CollectPromptsTest, ReadsTextsConversationsAndIds) {
  const auto read = ReadCollectPrompts(File(
      "prompts",
      "{\"prompt\": \"Once\", \"family\": \"story\", \"max_tokens\": 9}\n\n"
      "{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}]}\n{\"token_ids\": [1, 2]}\n"));
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_EQ(read->prompts.size(), 3);
  EXPECT_EQ(read->prompts[0].family, "story");
  EXPECT_EQ(read->prompts[0].max_tokens, 9);
  EXPECT_EQ(std::get<std::string>(read->prompts[0].request.input), "Once");
  EXPECT_EQ(read->prompts[1].family, "prompt");
  EXPECT_EQ(read->prompts[1].max_tokens, std::nullopt);
  EXPECT_EQ(std::get<PromptRequest::Messages>(read->prompts[1].request.input)[0].content(), "Hi");
  EXPECT_EQ(std::get<std::vector<int32_t>>(read->prompts[2].request.input),
            (std::vector<int32_t>{1, 2}));
}

TEST_F(CollectPromptsTest, TheHashIsThatOfThePromptAlone) {
  const auto read = ReadCollectPrompts(File(
      "prompts",
      "{\"prompt\": \"Once\"}\n{\"family\": \"x\", \"prompt\":\"Once\"}\n{\"prompt\": \"No\"}\n"));
  ASSERT_TRUE(read.ok()) << read.status();
  // printf '{"prompt":"Once"}' | sha256sum
  EXPECT_EQ(read->prompts[0].sha256,
            "9cf2329c28b52b51310ec6b810e2564e3b9498ffb835a89d09588231507a8faa");
  EXPECT_EQ(read->prompts[1].sha256, read->prompts[0].sha256);
  EXPECT_NE(read->prompts[2].sha256, read->prompts[0].sha256);
}

TEST_F(CollectPromptsTest, SaysWhatIsWrongAndWhere) {
  EXPECT_THAT(ErrorOf("{\"prompt\": \"a\"}\nno\n"), HasSubstr("prompts:2: found no JSON object"));
  EXPECT_THAT(ErrorOf("{\"family\": \"a\"}\n"), HasSubstr("prompts:1: found no prompt"));
  EXPECT_THAT(ErrorOf("{\"prompt\": \"a\", \"temperature\": 1}\n"),
              HasSubstr("found the key 'temperature'"));
  EXPECT_THAT(ErrorOf("{\"prompt\": \"a\", \"famly\": \"b\"}\n"), HasSubstr("Try: family"));
  EXPECT_THAT(ErrorOf("{\"prompt\": \"a\", \"family\": \"a-b\"}\n"),
              HasSubstr("found the family \"a-b\""));
  EXPECT_THAT(ErrorOf("{\"prompt\": \"a\", \"max_tokens\": 0}\n"), HasSubstr("found max_tokens 0"));
  EXPECT_THAT(ErrorOf("{\"prompt\": 1}\n"), HasSubstr("prompt is 1; expected a string"));
  EXPECT_THAT(ErrorOf("{\"prompt\": \"a\", \"token_ids\": [1]}\n"), HasSubstr("found several of"));
  EXPECT_THAT(ErrorOf("\n"), HasSubstr("found 0 prompts"));
  const std::string deep = std::string(200'000, '[') + std::string(200'000, ']');
  EXPECT_THAT(ErrorOf("{\"prompt\": " + deep + "}\n"), HasSubstr("nests more than 100 levels"));
  EXPECT_THAT(std::string(ReadCollectPrompts(Path("none")).status().message()),
              HasSubstr("cannot read"));
  EXPECT_THAT(std::string(ReadCollectPrompts("/").status().message()), HasSubstr("Is a directory"));
}

}  // namespace
}  // namespace baton
