// Tokenizers, templates and ends out of GGUF files, against those of the tokenizer.json that the
// files were made from.
#include <cmath>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/formats/gguf/gguf_file.h"
#include "common/formats/gguf/gguf_tokenizer.h"
#include "common/text/chat_template.h"
#include "common/text/eos_set.h"
#include "common/text/special_tokens.h"
#include "common/text/text_fingerprint.h"
#include "common/text/tokenizer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/fakes/gguf_maker.h"
#include "tests/fakes/scratch_folder.h"

namespace baton {
namespace {

using Json = nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

Json ParseSource(const std::string& path) {
  std::ifstream file(std::string(BATON_SOURCE_DIR) + "/" + path);
  return Json::parse(file);
}

// A tokenizer of GGUF beside the tokenizer.json that it was made from.
struct Kind {
  std::string name;  // of the golden file
  std::string pre;
};

class GgufTokenizerTest : public ::testing::TestWithParam<Kind> {
 protected:
  GgufTokenizerTest() {
    GgufWriter writer;
    AddGgufTokenizer(ParseSource(golden_["tokenizer"]), GetParam().pre, "<|end|>", &writer);
    path_ = folder_.Write("m.gguf", writer.Bytes());
  }

  const Json golden_ =
      ParseSource("tests/golden/text/tokenizers/" + GetParam().name + ".golden.json");
  const ScratchFolder folder_;
  std::string path_;
};

TEST_P(GgufTokenizerTest, EncodesAndDecodesAsTheOriginal) {
  const auto loaded = LoadTokenizer(path_);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  const Tokenizer& tokenizer = **loaded;
  for (const Json& entry : golden_["cases"]) {
    const std::string text = entry["text"];
    SCOPED_TRACE(text);
    const auto plain = tokenizer.Encode(text, false);
    const auto framed = tokenizer.Encode(text, true);
    ASSERT_TRUE(plain.ok() && framed.ok());
    EXPECT_EQ(*plain, entry["ids"].get<std::vector<TokenId>>());
    EXPECT_EQ(*framed, entry["ids_with_special"].get<std::vector<TokenId>>());
    EXPECT_EQ(tokenizer.Decode(*plain, false), entry["decoded"].get<std::string>());
    EXPECT_EQ(tokenizer.Decode(*framed, true), entry["decoded_skip_special"].get<std::string>());
  }
}

TEST_P(GgufTokenizerTest, EveryIdStandsForTheSame) {
  const auto loaded = LoadTokenizer(path_);
  const auto original = LoadTokenizerFile(std::string(BATON_SOURCE_DIR) + "/" +
                                          golden_["tokenizer"].get<std::string>());
  ASSERT_TRUE(loaded.ok() && original.ok()) << loaded.status() << original.status();
  ASSERT_EQ((*loaded)->vocab_size(), (*original)->vocab_size());
  for (TokenId id = 0; id < (*original)->vocab_size(); ++id) {
    EXPECT_EQ((*loaded)->IsValid(id), (*original)->IsValid(id)) << id;
    EXPECT_EQ((*loaded)->TokenText(id), (*original)->TokenText(id)) << id;
    EXPECT_EQ((*loaded)->TokenBytes(id), (*original)->TokenBytes(id)) << id;
    EXPECT_EQ((*loaded)->IsSpecial(id), (*original)->IsSpecial(id)) << id;
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, GgufTokenizerTest,
                         ::testing::Values(Kind{"demo", "gpt-2"}, Kind{"llama3_style", "llama-bpe"},
                                           Kind{"qwen_style", "qwen2"}, Kind{"llama2_style", ""}),
                         [](const auto& test) { return test.param.name; });

TEST(GgufPiecesTest, AreJoinedAsSentencePieceJoinsThem) {
  const Json golden = ParseSource("tests/golden/gguf_pieces.json");
  GgufWriter writer;
  writer.Add("tokenizer.ggml.model", "llama");
  writer.Add("tokenizer.ggml.tokens", golden["tokens"].get<std::vector<std::string>>());
  writer.Add("tokenizer.ggml.token_type", golden["types"].get<std::vector<int32_t>>());
  writer.Add("tokenizer.ggml.scores", golden["scores"].get<std::vector<float>>());
  writer.Add("tokenizer.ggml.unknown_token_id", uint32_t{0});
  writer.Add("tokenizer.ggml.bos_token_id", uint32_t{1});
  writer.Add("tokenizer.ggml.eos_token_id", uint32_t{2});
  const ScratchFolder folder;
  const auto tokenizer = LoadTokenizer(folder.Write("m.gguf", writer.Bytes()));
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  for (const Json& entry : golden["cases"]) {
    const std::string text = entry["text"];
    std::vector<TokenId> ids = entry["ids"];
    EXPECT_EQ(*(*tokenizer)->Encode(text, false), ids) << text;
    EXPECT_EQ((*tokenizer)->Decode(ids, false), entry["decoded"].get<std::string>());
    ids.insert(ids.begin(), 1);
    EXPECT_EQ(*(*tokenizer)->Encode(text, true), ids) << text;
  }
}

TEST(GgufPiecesTest, ASpaceGoesInFrontUnlessTheFileSaysNot) {
  const auto with = [](bool prefix) {
    GgufWriter writer;
    writer.Add("tokenizer.ggml.model", "llama");
    writer.Add("tokenizer.ggml.tokens", std::vector<std::string>{"a", "▁", "▁a"});
    writer.Add("tokenizer.ggml.token_type", std::vector<int32_t>{1, 1, 1});
    writer.Add("tokenizer.ggml.scores", std::vector<float>{-2, -3, -1});
    writer.Add("tokenizer.ggml.add_bos_token", false);
    writer.Add("tokenizer.ggml.add_space_prefix", prefix);
    return writer;
  };
  const ScratchFolder folder;
  const auto prefixed = LoadTokenizer(folder.Write("p.gguf", with(true).Bytes()));
  const auto plain = LoadTokenizer(folder.Write("q.gguf", with(false).Bytes()));
  ASSERT_TRUE(prefixed.ok() && plain.ok()) << prefixed.status() << plain.status();
  EXPECT_THAT(*(*prefixed)->Encode("a a", true), ElementsAre(2, 2));
  EXPECT_THAT(*(*plain)->Encode("a a", true), ElementsAre(0, 2));
  EXPECT_TRUE((*prefixed)->DecodeDropsLeadingSpace());
  EXPECT_FALSE((*plain)->DecodeDropsLeadingSpace());
  EXPECT_EQ((*plain)->Decode(std::vector<TokenId>{0, 2}, false), "a a");
}

class GgufHostilePiecesTest : public ::testing::Test {
 protected:
  // A tokenizer of normal pieces; `scores` are zeros unless they are given.
  std::string Defect(const std::vector<std::string>& pieces, std::vector<float> scores = {}) const {
    GgufWriter writer = Begin(pieces);
    scores.resize(pieces.size());
    writer.Add("tokenizer.ggml.scores", scores);
    return DefectOf(writer);
  }
  static GgufWriter Begin(const std::vector<std::string>& pieces) {
    GgufWriter writer;
    writer.Add("tokenizer.ggml.model", "llama");
    writer.Add("tokenizer.ggml.tokens", pieces);
    writer.Add("tokenizer.ggml.token_type", std::vector<int32_t>(pieces.size(), 1));
    writer.Add("tokenizer.ggml.add_bos_token", false);
    return writer;
  }
  std::string DefectOf(const GgufWriter& writer) const {
    const auto loaded = LoadTokenizer(folder_.Write("m.gguf", writer.Bytes()));
    return loaded.ok() ? "" : std::string(loaded.status().message());
  }

  const ScratchFolder folder_;
};

TEST_F(GgufHostilePiecesTest, LongPiecesAndTooManyMergesAreRefused) {
  EXPECT_EQ(Defect({"a", std::string(128, 'a')}), "");
  EXPECT_THAT(Defect({"a", std::string(129, 'a')}), AllOf(HasSubstr("m.gguf"), HasSubstr("129")));
  // Each divides at each of its characters.
  std::vector<std::string> pieces;
  for (const auto& [left, right] : {std::pair('a', 'b'), std::pair('c', 'd')}) {
    for (size_t i = 0; i <= 128; ++i) {
      for (size_t j = 0; i + j <= 128; ++j) {
        if (i + j > 0) pieces.push_back(std::string(i, left) + std::string(j, right));
      }
    }
  }
  EXPECT_THAT(Defect(pieces), AllOf(HasSubstr("m.gguf"), HasSubstr("134217728 bytes")));
}

TEST_F(GgufHostilePiecesTest, ScoresAreFiniteFloats) {
  for (const float bad : {NAN, INFINITY, -INFINITY}) {
    EXPECT_THAT(Defect({"a", "b"}, {0, bad}), HasSubstr("token 1 has the score"));
  }
  GgufWriter writer = Begin({"a", "b"});
  writer.Add("tokenizer.ggml.scores", std::vector<int32_t>{0, 0});
  EXPECT_THAT(DefectOf(writer), HasSubstr("floats of 32 bits"));
}

class GgufTextTest : public ::testing::Test {
 protected:
  // A vocabulary of a few tokens, which a test goes on with.
  static GgufWriter Small() {
    GgufWriter writer;
    writer.Add("tokenizer.ggml.model", "gpt2");
    writer.Add("tokenizer.ggml.pre", "gpt-2");
    writer.Add("tokenizer.ggml.tokens", std::vector<std::string>{"<s>", "</s>", "a", "b", "ab",
                                                                 "<|im_end|>", "<tool>", "[PAD]"});
    writer.Add("tokenizer.ggml.token_type", std::vector<int32_t>{3, 3, 1, 1, 1, 3, 4, 5});
    writer.Add("tokenizer.ggml.merges", std::vector<std::string>{"a b"});
    writer.Add("tokenizer.ggml.bos_token_id", uint32_t{0});
    writer.Add("tokenizer.ggml.eos_token_id", uint32_t{1});
    return writer;
  }
  std::string Write(const GgufWriter& writer) const {
    return folder_.Write("m.gguf", writer.Bytes());
  }
  std::string Defect(const GgufWriter& writer) const {
    const auto loaded = LoadTokenizer(Write(writer));
    return loaded.ok() ? "" : std::string(loaded.status().message());
  }

  // The ids that end an answer.
  static std::vector<TokenId> EndsOf(const std::string& path) {
    const auto file = GgufFile::Open(path);
    EXPECT_TRUE(file.ok()) << file.status();
    const auto text = ReadGgufText(**file);
    EXPECT_TRUE(text.ok()) << text.status();
    std::vector<TokenId> ids;
    for (const auto& [id, source] : text->ends) ids.push_back(id);
    return ids;
  }

  const ScratchFolder folder_;
};

TEST_F(GgufTextTest, TokensHaveTheirKinds) {
  const auto loaded = LoadTokenizer(Write(Small()));
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  const Tokenizer& tokenizer = **loaded;
  EXPECT_THAT(*tokenizer.Encode("ab<tool>a<|im_end|>", true), ElementsAre(4, 6, 2, 5));
  EXPECT_TRUE(tokenizer.IsSpecial(5));
  EXPECT_FALSE(tokenizer.IsSpecial(6));
  EXPECT_EQ(tokenizer.TokenBytes(6), "<tool>");
  EXPECT_FALSE(tokenizer.IsValid(7));
}

TEST_F(GgufTextTest, FlagsSayWhatStandsAroundATextAndKindsWhereTheyDoNot) {
  GgufWriter both = Small();
  both.Add("tokenizer.ggml.add_bos_token", true);
  both.Add("tokenizer.ggml.add_eos_token", true);
  EXPECT_THAT(*(*LoadTokenizer(Write(both)))->Encode("a", true), ElementsAre(0, 2, 1));
  EXPECT_THAT(*(*LoadTokenizer(Write(both)))->Encode("a", false), ElementsAre(2));
  EXPECT_THAT(*(*LoadTokenizer(Write(Small())))->Encode("a", true), ElementsAre(2));
}

TEST_F(GgufTextTest, EndsAreTheKeysAndTheTextsThatEndATurn) {
  GgufWriter writer = Small();
  writer.Add("tokenizer.ggml.eot_token_id", uint32_t{5});
  const std::string path = Write(writer);
  const auto tokenizer = LoadTokenizer(path);
  ModelConfig config;
  config.vocab = 8;
  const auto set = LoadEosSet(path, config, {}, tokenizer->get());
  ASSERT_TRUE(set.ok()) << set.status();
  ASSERT_EQ(set->size(), 2u);
  EXPECT_EQ((*set)[0].id, 1);
  EXPECT_EQ((*set)[0].text, "</s>");
  EXPECT_THAT((*set)[0].sources, ElementsAre("tokenizer.ggml.eos_token_id", "its text"));
  EXPECT_EQ((*set)[1].id, 5);
  EXPECT_THAT((*set)[1].sources, ElementsAre("tokenizer.ggml.eot_token_id", "its text"));
  config.vocab = 5;
  EXPECT_THAT(std::string(LoadEosSet(path, config, {}, tokenizer->get()).status().message()),
              HasSubstr("outside the model's vocabulary"));
}

TEST_F(GgufTextTest, TextsThatEndATurnDoSoWhateverTheirType) {
  const std::vector<std::string> tokens = {"<s>",           "</x>",    "a",     "<|im_end|>",
                                           "<end_of_turn>", "<|end|>", "<tool>"};
  for (const int32_t type : {1, 3, 4}) {
    GgufWriter writer;
    writer.Add("tokenizer.ggml.model", "gpt2");
    writer.Add("tokenizer.ggml.pre", "gpt-2");
    writer.Add("tokenizer.ggml.tokens", tokens);
    writer.Add("tokenizer.ggml.token_type", std::vector<int32_t>{3, 3, 1, type, type, type, 4});
    writer.Add("tokenizer.ggml.merges", std::vector<std::string>{});
    writer.Add("tokenizer.ggml.eos_token_id", uint32_t{1});
    const std::string path = Write(writer);
    EXPECT_THAT(EndsOf(path), UnorderedElementsAre(1, 3, 4, 5)) << type;
    const auto tokenizer = LoadTokenizer(path);
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
    EXPECT_THAT(*(*tokenizer)->Encode("a<|im_end|>a", false), ElementsAre(2, 3, 2)) << type;
    EXPECT_TRUE((*tokenizer)->IsSpecial(3)) << type;
    EXPECT_FALSE((*tokenizer)->IsSpecial(6)) << type;
  }
}

// In a format with channels `<|end|>` ends one of them, and the answer goes on.
TEST_F(GgufTextTest, EndOfAChannelIsNoEndOfAnAnswer) {
  for (const auto& [one, other] :
       {std::pair("<|return|>", "<|call|>"), std::pair("<|flush|>", "<|calls|>")}) {
    GgufWriter writer;
    writer.Add("tokenizer.ggml.tokens", std::vector<std::string>{"a", "<|end|>", one, other});
    writer.Add("tokenizer.ggml.token_type", std::vector<int32_t>{1, 3, 3, 3});
    EXPECT_THAT(EndsOf(Write(writer)), UnorderedElementsAre(2, 3)) << one;
  }
}

TEST_F(GgufTextTest, TemplateAndSpecialTokensComeFromTheFile) {
  GgufWriter writer = Small();
  writer.Add("tokenizer.chat_template",
             "{{ bos_token }}{% for m in messages %}{{ m.content }}{{ eos_token }}{% endfor %}");
  const std::string path = Write(writer);
  const auto chat = ChatTemplate::Load(path);
  ASSERT_TRUE(chat.ok()) << chat.status();
  EXPECT_EQ(*(*chat)->Render(std::vector<ChatMessage>{{"user", "ab"}}, {}), "<s>ab</s>");
  const auto special = LoadSpecialTokens(path);
  ASSERT_TRUE(special.ok()) << special.status();
  EXPECT_EQ(special->bos_token, "<s>");
  EXPECT_EQ(special->eos_token, "</s>");
  EXPECT_EQ(ChatTemplate::Load(Write(Small())).status().code(), absl::StatusCode::kNotFound);
  GgufWriter broken = Small();
  broken.Add("tokenizer.chat_template", "{% if %}");
  EXPECT_THAT(std::string(ChatTemplate::Load(Write(broken)).status().message()),
              HasSubstr("m.gguf"));
}

TEST_F(GgufTextTest, FingerprintIsThatOfTheTokenizerAlone) {
  const auto fingerprint = [&](const GgufWriter& writer) {
    return TextFingerprint(Write(writer), 8, {}).value();
  };
  GgufWriter other_weights = Small();
  other_weights.Add("general.name", "another");
  other_weights.AddTensor("some", 0, {1}, "abcd");
  GgufWriter other_tokenizer = Small();
  other_tokenizer.Add("tokenizer.ggml.add_bos_token", true);
  EXPECT_EQ(fingerprint(Small()), fingerprint(other_weights));
  EXPECT_NE(fingerprint(Small()), fingerprint(other_tokenizer));
  GgufWriter other_type = Small();  // the same byte as a number
  other_type.AddRaw("tokenizer.ggml.add_bos_token", std::string("\0\0\0\0\1", 5));
  EXPECT_NE(fingerprint(other_type), fingerprint(other_tokenizer));
}

TEST_F(GgufTextTest, WhatIsUnknownOrDoesNotFitIsRefused) {
  const auto with = [](const char* key, auto value, const char* model = "gpt2") {
    GgufWriter writer;
    writer.Add("tokenizer.ggml.model", model);
    const std::vector<std::string> tokens = {"a", "b"};
    if (std::string_view(key) != "tokenizer.ggml.tokens") {
      writer.Add("tokenizer.ggml.tokens", tokens);
    }
    if (std::string_view(key) != "tokenizer.ggml.token_type") {
      writer.Add("tokenizer.ggml.token_type", std::vector<int32_t>{1, 1});
    }
    if (std::string_view(key) != "tokenizer.ggml.pre") writer.Add("tokenizer.ggml.pre", "gpt-2");
    if (*key != '\0') writer.Add(key, value);
    return writer;
  };
  EXPECT_EQ(Defect(with("", 0u)), "");
  EXPECT_THAT(Defect(with("", 0u, "bert")), AllOf(HasSubstr("bert"), HasSubstr("llama")));
  EXPECT_THAT(Defect(with("", 0u, "llama")), HasSubstr("scores"));
  EXPECT_THAT(Defect(with("tokenizer.ggml.pre", "deepseek-coder")),
              AllOf(HasSubstr("deepseek-coder"), HasSubstr("llama-bpe"), HasSubstr("tekken")));
  EXPECT_THAT(Defect(with("tokenizer.ggml.token_type", std::vector<int32_t>{1})),
              HasSubstr("2 tokens"));
  EXPECT_THAT(Defect(with("tokenizer.ggml.token_type", std::vector<int32_t>{1, 9})),
              HasSubstr("type 9"));
  GgufWriter many = with("tokenizer.ggml.token_type", std::vector<int32_t>{1, 1});
  const std::string count("\1\0\100\0\0\0\0\0", 8);  // 4194305, of bytes in an array
  many.AddRaw("tokenizer.ggml.scores",
              std::string("\11\0\0\0\0\0\0\0", 8) + count + std::string(4194305, '\0'));
  EXPECT_THAT(Defect(many), AllOf(HasSubstr("scores"), HasSubstr("at most 4194304")));
  EXPECT_THAT(Defect(with("tokenizer.ggml.tokens", std::vector<std::string>{"a", "a"})),
              HasSubstr("same text"));
  EXPECT_NE(Defect(with("tokenizer.ggml.tokens", std::vector<std::string>{"a", "\xff"})), "");
  EXPECT_THAT(Defect(with("tokenizer.ggml.merges", std::vector<std::string>{"ab"})),
              HasSubstr("no pair"));
  EXPECT_NE(Defect(with("tokenizer.ggml.merges", std::vector<std::string>{"a c"})), "");
  EXPECT_THAT(Defect(with("tokenizer.ggml.add_bos_token", true)), HasSubstr("bos_token_id"));
  EXPECT_EQ(LoadTokenizer(folder_.Write("n.gguf", GgufWriter().Bytes())).status().code(),
            absl::StatusCode::kNotFound);
  // An array of strings is none of the values that are read: it must not count as absent.
  GgufWriter templates = Small();
  templates.Add("tokenizer.chat_template", std::vector<std::string>{"{{ bos_token }}", "b"});
  EXPECT_THAT(std::string(ChatTemplate::Load(Write(templates)).status().message()),
              AllOf(HasSubstr("chat_template"), HasSubstr("array of 2 strings")));
  EXPECT_THAT(Defect(with("tokenizer.ggml.add_bos_token", std::vector<std::string>{"true"})),
              AllOf(HasSubstr("add_bos_token"), HasSubstr("array of 1 strings")));
  GgufWriter outside = Small();
  outside.Add("tokenizer.ggml.eot_token_id", uint32_t{8});
  EXPECT_THAT(std::string(LoadSpecialTokens(Write(outside)).status().message()),
              HasSubstr("eot_token_id"));
  GgufWriter unused = Small();
  unused.Add("tokenizer.ggml.eom_token_id", uint32_t{7});
  EXPECT_THAT(std::string(LoadSpecialTokens(Write(unused)).status().message()),
              HasSubstr("in use"));
}

}  // namespace
}  // namespace baton
