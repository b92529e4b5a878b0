// Tokens that are named beside a tokenizer.json: in tokenizer_config.json, special_tokens_map.json
// and added_tokens.json.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "common/text/eos_set.h"
#include "common/text/special_tokens.h"
#include "common/text/text_fingerprint.h"
#include "common/text/tokenizer.h"
#include "nlohmann/json.hpp"
#include "tests/common/text/test_files.h"
#include "tests/fakes/scratch_folder.h"

namespace baton {
namespace {

using ::baton::testing::ReadFile;
using ::baton::testing::SourcePath;
using Json = ::nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The tokenizer.json of the goldens, of 380 tokens, of which <|bos|> is 0 and <|end|> is 1.
Json GoldenTokenizer() {
  return Json::parse(ReadFile(SourcePath("tests/golden/text/tokenizers/llama3_style.json")));
}

Json WithoutAddedTokens() {
  Json tokenizer = GoldenTokenizer();
  tokenizer["added_tokens"] = Json::array();
  return tokenizer;
}

class TokenSettingsTest : public ::testing::Test {
 protected:
  void Write(const std::string& file, const Json& content) { dir_.Write(file, content.dump()); }

  std::string Refusal() {
    const absl::Status status = LoadTokenizer(dir_.path()).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  }

  std::string Fingerprint() { return TextFingerprint(dir_.path(), 380, {}).value(); }

  const ScratchFolder dir_;
};

std::map<std::string, std::string> Named(const SpecialTokens& tokens) {
  std::map<std::string, std::string> named;
  for (const auto& [name, token] :
       {std::pair("bos_token", tokens.bos_token), std::pair("eos_token", tokens.eos_token),
        std::pair("pad_token", tokens.pad_token), std::pair("unk_token", tokens.unk_token)}) {
    if (token) named[name] = *token;
  }
  return named;
}

TEST(TokenSettings, AreReadAsTransformersReadsThem) {
  const Json golden = Json::parse(ReadFile(SourcePath("tests/golden/text/settings.golden.json")));
  ASSERT_GT(golden["cases"].size(), 10u);
  for (const Json& item : golden["cases"]) {
    const ScratchFolder dir;
    Json file = Json::parse(ReadFile(SourcePath(golden["tokenizer"].get<std::string>())));
    file.update(item["tokenizer_changes"]);
    dir.Write("tokenizer.json", file.dump());
    for (const auto& [name, content] : item["files"].items()) dir.Write(name, content.dump());
    const auto tokenizer = LoadTokenizer(dir.path());
    ASSERT_TRUE(tokenizer.ok()) << item["name"] << tokenizer.status();
    const auto ids = (*tokenizer)->Encode(item["text"].get<std::string>(), false);
    ASSERT_TRUE(ids.ok()) << item["name"] << ids.status();
    EXPECT_EQ(*ids, item["ids"].get<std::vector<TokenId>>()) << item["name"];
    EXPECT_EQ((*tokenizer)->Decode(*ids, true), item["decoded_skip_special"].get<std::string>())
        << item["name"];
    auto special = item["special"].get<std::map<std::string, std::string>>();
    std::erase_if(special, [](const auto& entry) {
      return entry.first == "image_token" || entry.first == "user_token";
    });
    EXPECT_EQ(Named(LoadSpecialTokens(dir.path()).value()), special) << item["name"];
  }
}

TEST_F(TokenSettingsTest, TokensOfTheVocabularyKeepTheirIds) {
  Write("tokenizer.json", WithoutAddedTokens());
  Write("tokenizer_config.json", {{"eos_token", "<|end|>"}, {"pad_token", "<|pad|>"}});
  const auto tokenizer = LoadTokenizer(dir_.path());
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_THAT((*tokenizer)->Encode("<|end|><|pad|>", false).value(), ElementsAre(1, 380));
  EXPECT_EQ((*tokenizer)->vocab_size(), 381);
  EXPECT_TRUE((*tokenizer)->IsSpecial(1));
  EXPECT_TRUE((*tokenizer)->IsSpecial(380));
  EXPECT_EQ((*tokenizer)->TokenBytes(380), "<|pad|>");
}

TEST_F(TokenSettingsTest, EveryTokenOfSpecialTokensMapIsSpecial) {
  Write("tokenizer.json", WithoutAddedTokens());
  Write("special_tokens_map.json", {{"additional_special_tokens", {{{"content", "<|end|>"}}}}});
  const auto tokenizer = LoadTokenizer(dir_.path());
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_THAT((*tokenizer)->Encode("<|end|>", false).value(), ElementsAre(1));
  EXPECT_TRUE((*tokenizer)->IsSpecial(1));
}

TEST_F(TokenSettingsTest, AnIdOtherThanThatOfTheTokenizerIsRefused) {
  Write("tokenizer.json", WithoutAddedTokens());
  Write("tokenizer_config.json", {{"added_tokens_decoder", {{"7", {{"content", "<|end|>"}}}}}});
  EXPECT_THAT(Refusal(), AllOf(HasSubstr(dir_.path() + "/tokenizer_config.json"),
                               HasSubstr("\"<|end|>\" has id 7"), HasSubstr("its id is 1;")));
  Write("tokenizer_config.json", Json::object());
  Write("added_tokens.json", {{"<|new|>", 400}});
  EXPECT_THAT(Refusal(), AllOf(HasSubstr("/added_tokens.json"), HasSubstr("id 400"),
                               HasSubstr("its id is 380;")));
}

TEST_F(TokenSettingsTest, FilesThatAreWrongAreRefusedByName) {
  Write("tokenizer.json", GoldenTokenizer());
  for (const Json& config : std::vector<Json>{
           {{"added_tokens_decoder", 1}},
           {{"added_tokens_decoder", {{"x", {{"content", "a"}}}}}},
           {{"added_tokens_decoder", {{"1", "<|end|>"}}}},
           {{"added_tokens_decoder", {{"1", {{"content", "<|end|>"}, {"lstrip", 3}}}}}},
           {{"additional_special_tokens", {7}}},
           {{"extra_special_tokens", "a"}},
           {{"extra_special_tokens", {{"image_token", 7}}}}}) {
    Write("tokenizer_config.json", config);
    EXPECT_THAT(Refusal(), HasSubstr("tokenizer_config.json")) << config;
  }
  Write("tokenizer_config.json", Json::object());
  Write("special_tokens_map.json", {{"eos_token", 1}});
  EXPECT_THAT(Refusal(), HasSubstr("special_tokens_map.json"));
  Write("special_tokens_map.json", Json::object());
  Write("added_tokens.json", {{"<|end|>", -1}});
  EXPECT_THAT(Refusal(), HasSubstr("added_tokens.json"));
}

TEST_F(TokenSettingsTest, AnEndBeyondTheLogitsEndsNothing) {
  Write("tokenizer.json", GoldenTokenizer());
  Write("tokenizer_config.json", {{"eos_token", "<|nowhere|>"}});
  const auto tokenizer = LoadTokenizer(dir_.path());
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  ModelConfig config;
  config.vocab = 380;
  EXPECT_TRUE(LoadEosSet(dir_.path(), config, {}, tokenizer->get()).value().empty());
  config.vocab = 381;
  EXPECT_EQ(LoadEosSet(dir_.path(), config, {}, tokenizer->get()).value().size(), 1u);
}

TEST_F(TokenSettingsTest, TheFingerprintCoversWhatTheyAddAndNothingElse) {
  Write("tokenizer.json", WithoutAddedTokens());
  const std::string bare = Fingerprint();
  Write("tokenizer_config.json", {{"chat_template", "x"}, {"model_max_length", 5}});
  EXPECT_EQ(Fingerprint(), bare);
  Write("tokenizer_config.json", {{"additional_special_tokens", {"<|end|>"}}});
  const std::string additional = Fingerprint();
  EXPECT_NE(additional, bare);
  Write("tokenizer_config.json", {{"extra_special_tokens", {"<|end|>"}}, {"chat_template", "x"}});
  EXPECT_EQ(Fingerprint(), additional);
  Write("tokenizer_config.json",
        {{"added_tokens_decoder", {{"1", {{"content", "<|end|>"}, {"lstrip", true}}}}}});
  EXPECT_NE(Fingerprint(), additional);
}

TEST_F(TokenSettingsTest, TheFingerprintIsThatOfTokenizerJsonWhereItSaysAll) {
  Write("tokenizer.json", GoldenTokenizer());
  const std::string bare = Fingerprint();
  Write("tokenizer_config.json", {{"eos_token", "<|end|>"}, {"bos_token", "<|bos|>"}});
  EXPECT_EQ(Fingerprint(), bare);
}

// ---- add_prefix_space ----

TEST_F(TokenSettingsTest, APrefixSpaceThatTheTokenizerLacksIsRefusedWhereItsClassAddsIt) {
  Write("tokenizer.json", GoldenTokenizer());
  for (const char* name : {"GPT2Tokenizer", "GPT2TokenizerFast", "Qwen2Tokenizer"}) {
    Write("tokenizer_config.json", {{"tokenizer_class", name}, {"add_prefix_space", true}});
    EXPECT_THAT(Refusal(), AllOf(HasSubstr("tokenizer_config.json"),
                                 HasSubstr("add_prefix_space is true"), HasSubstr("does not put")))
        << name;
    Write("tokenizer_config.json", {{"tokenizer_class", name}, {"add_prefix_space", false}});
    EXPECT_TRUE(LoadTokenizer(dir_.path()).ok()) << name;
  }
  // These leave the tokenizer.json as it is.
  for (const char* name : {"PreTrainedTokenizerFast", "LlamaTokenizerFast", "TokenizersBackend"}) {
    Write("tokenizer_config.json", {{"tokenizer_class", name}, {"add_prefix_space", true}});
    EXPECT_TRUE(LoadTokenizer(dir_.path()).ok()) << name;
  }
}

TEST_F(TokenSettingsTest, ThePrefixSpaceIsLookedForInNormalizersToo) {
  Write("tokenizer.json",
        Json::parse(ReadFile(SourcePath("tests/golden/text/tokenizers/llama2_style.json"))));
  Write("tokenizer_config.json",
        {{"tokenizer_class", "LlamaTokenizer"}, {"add_prefix_space", false}});
  EXPECT_THAT(Refusal(), AllOf(HasSubstr("add_prefix_space is false"), HasSubstr("json puts")));
  Write("tokenizer_config.json",
        {{"tokenizer_class", "LlamaTokenizer"}, {"add_prefix_space", true}});
  EXPECT_TRUE(LoadTokenizer(dir_.path()).ok());
}

TEST_F(TokenSettingsTest, ATokenizerThatSaysNothingOfASpacePutsNoneForALlama) {
  Json tokenizer =
      Json::parse(ReadFile(SourcePath("tests/golden/text/tokenizers/llama2_style.json")));
  const Json replace = tokenizer["normalizer"]["normalizers"][1];
  for (const Json& normalizer :
       {replace, Json{{"type", "Sequence"}, {"normalizers", {replace}}}, Json(nullptr)}) {
    tokenizer["normalizer"] = normalizer;
    Write("tokenizer.json", tokenizer);
    for (const char* name : {"LlamaTokenizer", "LlamaTokenizerFast", "CodeLlamaTokenizer"}) {
      Write("tokenizer_config.json", {{"tokenizer_class", name}, {"add_prefix_space", true}});
      EXPECT_THAT(Refusal(), AllOf(HasSubstr("add_prefix_space is true"), HasSubstr("does not put"),
                                   HasSubstr("\"add_prefix_space\": false")))
          << name;
      for (const Json& absent : {Json{{"tokenizer_class", name}},
                                 Json{{"tokenizer_class", name}, {"add_prefix_space", nullptr}}}) {
        Write("tokenizer_config.json", absent);
        EXPECT_THAT(Refusal(), AllOf(HasSubstr("add_prefix_space is absent, which is true to"),
                                     HasSubstr("LlamaTokenizer"), HasSubstr("does not put")))
            << name;
      }
      Write("tokenizer_config.json", {{"tokenizer_class", name}, {"add_prefix_space", false}});
      EXPECT_TRUE(LoadTokenizer(dir_.path()).ok()) << name;
    }
    Write("tokenizer_config.json", {{"tokenizer_class", "PreTrainedTokenizerFast"}});
    EXPECT_TRUE(LoadTokenizer(dir_.path()).ok());
  }
}

TEST_F(TokenSettingsTest, ALlamaWithoutAddPrefixSpaceIsTakenWhereItsTokenizerPutsOne) {
  const Json style =
      Json::parse(ReadFile(SourcePath("tests/golden/text/tokenizers/llama2_style.json")));
  const auto metaspace = [&](const char* scheme) {
    Json tokenizer = style;
    tokenizer["normalizer"] = nullptr;
    tokenizer["pre_tokenizer"] = {
        {"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", scheme}, {"split", false}};
    return tokenizer;
  };
  for (const Json& settings :
       {Json{{"tokenizer_class", "LlamaTokenizer"}},
        Json{{"tokenizer_class", "LlamaTokenizerFast"}},
        Json{{"tokenizer_class", "CodeLlamaTokenizer"}, {"add_prefix_space", nullptr}}}) {
    Write("tokenizer_config.json", settings);
    for (const Json& tokenizer : {style, metaspace("first"), metaspace("always")}) {
      Write("tokenizer.json", tokenizer);
      EXPECT_TRUE(LoadTokenizer(dir_.path()).ok()) << settings;
    }
    Write("tokenizer.json", metaspace("never"));
    EXPECT_THAT(Refusal(), HasSubstr("add_prefix_space is absent"));
  }
  // A tokenizer of bytes is read as it is, as Llama 3 has one.
  Write("tokenizer.json", GoldenTokenizer());
  for (const char* name : {"LlamaTokenizer", "LlamaTokenizerFast", "PreTrainedTokenizerFast"}) {
    Write("tokenizer_config.json", {{"tokenizer_class", name}});
    EXPECT_TRUE(LoadTokenizer(dir_.path()).ok()) << name;
  }
}

// Where transformers 5 makes the pre-tokenizer of a LlamaTokenizer anew, "legacy" says whether it
// does so. Baton does, whatever "legacy" says, as llama.cpp and transformers 4 do.
TEST_F(TokenSettingsTest, TextBehindASpecialTokenGetsTheSpaceThatTokenizerJsonPuts) {
  Write("tokenizer.json",
        Json::parse(ReadFile(SourcePath("tests/golden/text/tokenizers/llama2_style.json"))));
  for (const Json& settings : {Json{{"tokenizer_class", "LlamaTokenizer"}},
                               Json{{"tokenizer_class", "LlamaTokenizer"}, {"legacy", false}},
                               Json{{"tokenizer_class", "LlamaTokenizer"}, {"legacy", true}}}) {
    Write("tokenizer_config.json", settings);
    const auto tokenizer = LoadTokenizer(dir_.path());
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
    const auto ids = (*tokenizer)->Encode("the</s>\ncat", false);
    ASSERT_TRUE(ids.ok()) << ids.status();
    std::vector<std::string> texts;
    for (const TokenId id : *ids) texts.emplace_back((*tokenizer)->TokenText(id));
    EXPECT_THAT(texts, ElementsAre("▁the", "</s>", "▁", "\n", "c", "a", "t")) << settings;
  }
}

TEST_F(TokenSettingsTest, TheClassDependsOnTheFamily) {
  Write("tokenizer.json", GoldenTokenizer());
  Write("tokenizer_config.json",
        {{"tokenizer_class", "GPT2Tokenizer"}, {"add_prefix_space", true}});
  Write("config.json", {{"model_type", "mistral"}});
  EXPECT_TRUE(LoadTokenizer(dir_.path()).ok());
  Write("tokenizer_config.json", {{"add_prefix_space", true}});
  for (const char* family : {"qwen2", "qwen3"}) {
    Write("config.json", {{"model_type", family}});
    EXPECT_THAT(Refusal(), HasSubstr("add_prefix_space")) << family;
  }
  Write("config.json", {{"model_type", "llama"}});
  EXPECT_TRUE(LoadTokenizer(dir_.path()).ok());
}

TEST_F(TokenSettingsTest, ATokenizerThatCannotBeReachedHasNoFingerprint) {
  const std::string path = dir_ / "tokenizer.json";
  std::filesystem::create_symlink(path, path);
  const absl::Status failed = TextFingerprint(dir_.path(), 380, {}).status();
  EXPECT_TRUE(absl::IsNotFound(failed)) << failed;
  EXPECT_THAT(std::string(failed.message()), AllOf(HasSubstr(path), HasSubstr("symbolic links")));
}

}  // namespace
}  // namespace baton
