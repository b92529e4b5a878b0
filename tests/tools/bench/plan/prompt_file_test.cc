#include "tools/bench/plan/prompt_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/fakes/scratch_folder.h"

namespace baton::bench {
namespace {

using ::testing::HasSubstr;

TEST(PromptFileTest, ReadsTextsIdsAndLengths) {
  const ScratchFolder dir;
  const std::string path = dir.Write("p.jsonl",
                                     "{\"prompt\": \"Once\", \"max_tokens\": 7}\n"
                                     "\n"
                                     "{\"token_ids\": [5, 6], \"output_tokens\": 8}\n"
                                     "{\"prompt\": \"Twice\", \"preset\": \"qa\"}");
  const auto prompts = ReadPromptFile(path);
  ASSERT_TRUE(prompts.ok()) << prompts.status();
  ASSERT_EQ(prompts->size(), 3U);
  EXPECT_EQ(std::get<std::string>((*prompts)[0].prompt), "Once");
  EXPECT_EQ((*prompts)[0].max_tokens, 7);
  EXPECT_EQ(std::get<std::vector<int32_t>>((*prompts)[1].prompt), (std::vector<int32_t>{5, 6}));
  EXPECT_EQ((*prompts)[1].max_tokens, 8);
  EXPECT_EQ((*prompts)[1].line, 3);
  EXPECT_EQ((*prompts)[2].max_tokens, 0);
  EXPECT_EQ((*prompts)[0].preset, "");
  EXPECT_EQ((*prompts)[2].preset, "qa");
}

TEST(PromptFileTest, RefusesWhatItWouldHaveToIgnore) {
  const struct {
    const char* line;
    const char* found;
  } kDefects[] = {
      {"not json", "no JSON object"},
      {"[1]", "no JSON object"},
      {"{}", "no prompt"},
      {R"({"prompt": "a", "token_ids": [1]})", "both"},
      {R"({"prompt": ""})", "\"\""},
      {R"({"prompt": 3})", "3"},
      {R"({"token_ids": []})", "no token ids"},
      {R"({"token_ids": [-1]})", "-1"},
      {R"({"token_ids": "1 2"})", "1 2"},
      {R"({"prompt": "a", "max_tokens": 0})", "0"},
      {R"({"prompt": "a", "max_tokens": "7"})", "7"},
      {R"({"prompt": "a", "max_tokens": 7, "output_tokens": 7})", "both"},
      {R"({"prompt": "a", "temperature": 1})", "'temperature'"},
      {R"({"prompt": "a", "preset": ""})", "\"\""},
      {R"({"prompt": "a", "messages": []})", "'messages'"},
  };
  const ScratchFolder dir;
  for (const auto& defect : kDefects) {
    const std::string path =
        dir.Write("p.jsonl", "{\"prompt\": \"fine\"}\n" + std::string(defect.line) + "\n");
    const auto prompts = ReadPromptFile(path);
    ASSERT_FALSE(prompts.ok()) << defect.line;
    EXPECT_THAT(std::string(prompts.status().message()), HasSubstr(path + ":2: found "));
    EXPECT_THAT(std::string(prompts.status().message()), HasSubstr(defect.found));
  }
  const std::string deep = R"({"prompt": )" + std::string(200'000, '[') + std::string(200'000, ']');
  EXPECT_THAT(std::string(ReadPromptFile(dir.Write("deep", deep + "}")).status().message()),
              HasSubstr("nests more than 100 levels"));
  const std::string zero("{\"prompt\": \"a\"}\0{", 17);
  EXPECT_THAT(std::string(ReadPromptFile(dir.Write("zero", zero)).status().message()),
              HasSubstr("a byte 0"));
  EXPECT_FALSE(ReadPromptFile(dir.Write("empty", "\n\n")).ok());
  EXPECT_EQ(ReadPromptFile(dir.path() + "/absent").status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(ReadPromptFile(dir.path()).status().message()),
              HasSubstr("Is a directory"));
}

}  // namespace
}  // namespace baton::bench
