#include "common/text/special_tokens.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/fakes/scratch_folder.h"

namespace baton {
namespace {

using ::testing::HasSubstr;

TEST(SpecialTokens, ReadsStringsObjectsAndNull) {
  const ScratchFolder dir;
  dir.Write(
      "tokenizer_config.json",
      R"({"bos_token":{"content":"<s>","lstrip":false},"eos_token":"</s>","pad_token":null})");
  const auto tokens = LoadSpecialTokens(dir.path());
  ASSERT_TRUE(tokens.ok()) << tokens.status();
  EXPECT_EQ(tokens->bos_token, "<s>");
  EXPECT_EQ(tokens->eos_token, "</s>");
  EXPECT_EQ(tokens->pad_token, std::nullopt);
  EXPECT_EQ(tokens->unk_token, std::nullopt);
}

TEST(SpecialTokens, TakesSpecialTokensMapFirst) {
  const ScratchFolder dir;
  dir.Write("tokenizer_config.json", R"({"bos_token":"<s>","eos_token":"first"})");
  dir.Write("special_tokens_map.json", R"({"eos_token":"second","unk_token":{"content":"<unk>"}})");
  const auto tokens = LoadSpecialTokens(dir.path());
  ASSERT_TRUE(tokens.ok()) << tokens.status();
  EXPECT_EQ(tokens->bos_token, "<s>");
  EXPECT_EQ(tokens->eos_token, "second");
  EXPECT_EQ(tokens->unk_token, "<unk>");
}

TEST(SpecialTokens, TakesNoSpecialTokensMapBesideAnAddedTokensDecoder) {
  const ScratchFolder dir;
  dir.Write("tokenizer_config.json", R"({"eos_token":"first","added_tokens_decoder":{}})");
  dir.Write("special_tokens_map.json", R"({"eos_token":"second","unk_token":{"content":"<unk>"}})");
  const auto tokens = LoadSpecialTokens(dir.path());
  ASSERT_TRUE(tokens.ok()) << tokens.status();
  EXPECT_EQ(tokens->eos_token, "first");
  EXPECT_EQ(tokens->unk_token, std::nullopt);
}

TEST(SpecialTokens, AreEmptyWithoutFiles) {
  const ScratchFolder dir;
  const auto tokens = LoadSpecialTokens(dir.path());
  ASSERT_TRUE(tokens.ok()) << tokens.status();
  EXPECT_EQ(tokens->eos_token, std::nullopt);
}

TEST(SpecialTokens, RefuseWrongFiles) {
  for (const char* config :
       {"", "{", "[]", "{\"eos_token\":3}", "{\"eos_token\":{\"text\":\"a\"}}"}) {
    const ScratchFolder dir;
    dir.Write("tokenizer_config.json", config);
    const absl::Status status = LoadSpecialTokens(dir.path()).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << config;
    EXPECT_THAT(std::string(status.message()), HasSubstr("tokenizer_config.json"));
  }
}

}  // namespace
}  // namespace baton
