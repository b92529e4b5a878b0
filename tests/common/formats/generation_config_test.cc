#include "common/formats/generation_config.h"

#include <filesystem>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/scratch_folder.h"

namespace baton {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class GenerationConfigTest : public testing::Test {
 protected:
  absl::StatusOr<GenerationConfig> Load(const std::string& text) {
    folder_.Write("generation_config.json", text);
    return LoadGenerationConfig(folder_.path());
  }

  const ScratchFolder folder_;
};

TEST_F(GenerationConfigTest, IsEmptyWithoutTheFile) {
  const auto config = LoadGenerationConfig(folder_.path());
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_FALSE(config->temperature.has_value());
  EXPECT_THAT(config->eos_ids, IsEmpty());
}

TEST_F(GenerationConfigTest, RefusesALinkToNothing) {
  std::filesystem::create_symlink("../blobs/5d0a", folder_ / "generation_config.json");
  const absl::Status status = LoadGenerationConfig(folder_.path()).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("is a link to ../blobs/5d0a"));
}

TEST_F(GenerationConfigTest, TakesEveryValueThatStandsInTheFile) {
  const auto config = Load(R"({"do_sample": true, "temperature": 0.6, "top_p": 0.9, "top_k": 20,
      "min_p": 0.05, "repetition_penalty": 1.1, "max_new_tokens": 2048, "eos_token_id": [7, 9]})");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_FLOAT_EQ(*config->temperature, 0.6F);
  EXPECT_FLOAT_EQ(*config->top_p, 0.9F);
  EXPECT_EQ(config->top_k, 20);
  EXPECT_FLOAT_EQ(*config->min_p, 0.05F);
  EXPECT_FLOAT_EQ(*config->repetition_penalty, 1.1F);
  EXPECT_EQ(config->max_new_tokens, 2048);
  EXPECT_THAT(config->eos_ids, ElementsAre(7, 9));
}

TEST_F(GenerationConfigTest, CountsNullAsAbsentAndMinusOneAsOff) {
  const auto config = Load(R"({"temperature": null, "top_k": -1, "eos_token_id": null})");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_FALSE(config->temperature.has_value());
  EXPECT_EQ(config->top_k, 0);
  EXPECT_THAT(config->eos_ids, IsEmpty());
}

TEST_F(GenerationConfigTest, RefusesValuesThatNoRequestCouldHave) {
  for (const char* text : {R"({"temperature": -1})", R"({"top_p": 0})", R"({"top_p": 1.5})",
                           R"({"top_k": -2})", R"({"repetition_penalty": 0})", R"({"min_p": 2})",
                           R"({"max_new_tokens": 0})", R"({"eos_token_id": "</s>"})", "[1]"}) {
    EXPECT_EQ(Load(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
}

ModelConfig ConfigWithEos(std::vector<TokenId> eos_ids) {
  ModelConfig config;
  config.vocab = 100;
  config.eos_ids = std::move(eos_ids);
  return config;
}

std::string Spell(TokenId id) { return "t" + std::to_string(id); }

TEST(EosSetTest, IsTheUnionWithTheTokenizersFirst) {
  const auto set = BuildEosSet(ConfigWithEos({5, 6}), GenerationConfig{.eos_ids = {6, 7}},
                               TokenizerEos{7, "<|end|>"}, Spell);
  ASSERT_TRUE(set.ok()) << set.status();
  ASSERT_EQ(set->size(), 3U);
  EXPECT_EQ((*set)[0].id, 7);
  EXPECT_EQ((*set)[0].text, "<|end|>");
  EXPECT_THAT((*set)[0].sources, ElementsAre("tokenizer", "generation_config.json"));
  EXPECT_EQ((*set)[1].id, 5);
  EXPECT_EQ((*set)[1].text, "t5");
  EXPECT_THAT((*set)[1].sources, ElementsAre("config.json"));
  EXPECT_THAT((*set)[2].sources, ElementsAre("config.json", "generation_config.json"));
}

TEST(EosSetTest, NamesARepeatedIdOnce) {
  const auto set = BuildEosSet(ConfigWithEos({5, 5}), {}, std::nullopt, nullptr);
  ASSERT_TRUE(set.ok()) << set.status();
  ASSERT_EQ(set->size(), 1U);
  EXPECT_THAT((*set)[0].sources, ElementsAre("config.json"));
}

TEST(EosSetTest, MayBeEmpty) {
  const auto set = BuildEosSet(ConfigWithEos({}), {}, std::nullopt, nullptr);
  ASSERT_TRUE(set.ok()) << set.status();
  EXPECT_THAT(*set, IsEmpty());
}

TEST(EosSetTest, RefusesAnIdOutsideTheVocabulary) {
  const auto set =
      BuildEosSet(ConfigWithEos({}), GenerationConfig{.eos_ids = {100}}, std::nullopt, nullptr);
  EXPECT_EQ(set.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(set.status().message()), HasSubstr("generation_config.json"));
}

}  // namespace
}  // namespace baton
