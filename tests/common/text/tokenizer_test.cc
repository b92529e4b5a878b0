#include "common/text/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <limits>
#include <random>
#include <thread>

#include "common/base/status.h"
#include "nlohmann/json.hpp"
#include "tests/common/text/test_files.h"
#include "tests/fakes/scratch_folder.h"

namespace baton {
namespace {

using ::baton::testing::ReadFile;
using ::baton::testing::SourcePath;
using ::testing::HasSubstr;

// ---- goldens of the Python tokenizers library ----

class TokenizerGoldenTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    golden_ = nlohmann::json::parse(ReadFile(
        SourcePath("tests/golden/text/tokenizers/" + std::string(GetParam()) + ".golden.json")));
    auto loaded = LoadTokenizerFile(SourcePath(golden_["tokenizer"].get<std::string>()));
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    tokenizer_ = std::move(loaded).value();
    ASSERT_GT(golden_["cases"].size(), 20u);
  }

  nlohmann::json golden_;
  std::unique_ptr<Tokenizer> tokenizer_;
};

TEST_P(TokenizerGoldenTest, EncodesAsHuggingFace) {
  for (const auto& item : golden_["cases"]) {
    const auto text = item["text"].get<std::string>();
    const auto plain = tokenizer_->Encode(text, false);
    const auto special = tokenizer_->Encode(text, true);
    ASSERT_TRUE(plain.ok() && special.ok()) << text;
    EXPECT_EQ(*plain, item["ids"].get<std::vector<TokenId>>()) << text;
    EXPECT_EQ(*special, item["ids_with_special"].get<std::vector<TokenId>>()) << text;
  }
}

TEST_P(TokenizerGoldenTest, DecodesAsHuggingFace) {
  for (const auto& item : golden_["cases"]) {
    const auto ids = item["ids"].get<std::vector<TokenId>>();
    const auto with_special = item["ids_with_special"].get<std::vector<TokenId>>();
    EXPECT_EQ(tokenizer_->Decode(ids, false), item["decoded"].get<std::string>()) << item["text"];
    EXPECT_EQ(tokenizer_->Decode(with_special, true),
              item["decoded_skip_special"].get<std::string>())
        << item["text"];
  }
}

TEST_P(TokenizerGoldenTest, KnowsEveryTokenByIdAndByText) {
  int valid = 0;
  for (TokenId id = 0; id < tokenizer_->vocab_size(); ++id) {
    if (!tokenizer_->IsValid(id)) continue;
    ++valid;
    EXPECT_FALSE(tokenizer_->TokenText(id).empty()) << id;
    EXPECT_EQ(tokenizer_->TokenToId(tokenizer_->TokenText(id)), id);
  }
  EXPECT_GT(valid, 100);
  EXPECT_TRUE(tokenizer_->IsValid(tokenizer_->vocab_size() - 1));
}

INSTANTIATE_TEST_SUITE_P(Kinds, TokenizerGoldenTest,
                         ::testing::Values("demo", "llama2_style", "llama3_style", "qwen_style",
                                           "metaspace_unigram", "wordpiece"),
                         [](const auto& kind) { return std::string(kind.param); });

// ---- token bytes ----

std::unique_ptr<Tokenizer> Load(const std::string& json) {
  const ScratchFolder dir;
  dir.Write("tokenizer.json", json);
  auto loaded = LoadTokenizer(dir.path());
  EXPECT_TRUE(loaded.ok()) << loaded.status();
  return loaded.ok() ? std::move(loaded).value() : nullptr;
}

// A word-level tokenizer.json with the given vocabulary and decoder.
std::string WordLevel(const std::string& vocab, const std::string& decoder,
                      const std::string& extra = "\"added_tokens\":[]") {
  return R"({"version":"1.0",)" + extra +
         R"(,"normalizer":null,"pre_tokenizer":{"type":"Whitespace"},
    "post_processor":null,"decoder":)" +
         decoder + R"(,"model":{"type":"WordLevel","vocab":)" + vocab + R"(,"unk_token":"a"}})";
}

TEST(TokenBytes, ByteLevelAlphabetGivesRawBytes) {
  const auto tokenizer = Load(WordLevel(
      R"({"a":0,"Ġthe":1,"Ċ":2,"ä½":3,"漢":4})",
      R"({"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":true})"));
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_EQ(tokenizer->TokenBytes(1), " the");
  EXPECT_EQ(tokenizer->TokenBytes(2), "\n");
  EXPECT_EQ(tokenizer->TokenBytes(3), "\xE4\xBD");  // two thirds of a character
  EXPECT_EQ(tokenizer->TokenBytes(4), "漢");        // not of the alphabet: its own text
  EXPECT_FALSE(tokenizer->DecodeDropsLeadingSpace());
}

TEST(TokenBytes, AddedTokensOfByteLevelStandForTheirText) {
  const auto tokenizer = Load(WordLevel(
      R"({"a":0})",
      R"({"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":true})",
      R"("added_tokens":[{"id":1,"content":"<é｜>","single_word":false,"lstrip":false,
          "rstrip":false,"normalized":false,"special":true}])"));
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_EQ(tokenizer->TokenBytes(1), "<é｜>");
  EXPECT_TRUE(tokenizer->IsSpecial(1));
  EXPECT_FALSE(tokenizer->IsSpecial(0));
}

TEST(TokenBytes, ByteFallbackAndMetaspaceGiveBytesAndSpaces) {
  const auto tokenizer = Load(WordLevel(
      R"({"a":0,"▁the":1,"<0x0A>":2,"<0xE4>":3,"<0xZZ>":4,"▁▁":5})",
      R"({"type":"Sequence","decoders":[{"type":"Replace","pattern":{"String":"▁"},"content":" "},
          {"type":"ByteFallback"},{"type":"Fuse"},
          {"type":"Strip","content":" ","start":1,"stop":0}]})"));
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_EQ(tokenizer->TokenBytes(1), " the");
  EXPECT_EQ(tokenizer->TokenBytes(2), "\n");
  EXPECT_EQ(tokenizer->TokenBytes(3), "\xE4");
  EXPECT_EQ(tokenizer->TokenBytes(4), "<0xZZ>");
  EXPECT_EQ(tokenizer->TokenBytes(5), "  ");
  EXPECT_EQ(tokenizer->TokenText(1), "▁the");
  EXPECT_TRUE(tokenizer->DecodeDropsLeadingSpace());
}

TEST(TokenBytes, OtherDecodersGiveTheTextBetweenNeighbours) {
  const std::string vocab = R"({"a":0,"hello":1,"##ing":2,"low</w>":3})";
  const auto wordpiece =
      Load(WordLevel(vocab, R"({"type":"WordPiece","prefix":"##","cleanup":true})"));
  ASSERT_NE(wordpiece, nullptr);
  EXPECT_EQ(wordpiece->TokenBytes(1), " hello");
  EXPECT_EQ(wordpiece->TokenBytes(2), "ing");
  EXPECT_TRUE(wordpiece->DecodeDropsLeadingSpace());
  const auto bpe = Load(WordLevel(vocab, R"({"type":"BPEDecoder","suffix":"</w>"})"));
  ASSERT_NE(bpe, nullptr);
  EXPECT_EQ(bpe->TokenBytes(3), "low ");
  EXPECT_EQ(bpe->TokenBytes(1), "hello");
  const auto none = Load(WordLevel(vocab, "null"));
  ASSERT_NE(none, nullptr);
  EXPECT_EQ(none->TokenBytes(0), " a");
  EXPECT_EQ(none->TokenBytes(1), " hello");
  const auto ctc = Load(
      WordLevel(R"({"a":0,"|":1,"<pad>":2})",
                R"({"type":"CTC","pad_token":"<pad>","word_delimiter_token":"|","cleanup":true})"));
  ASSERT_NE(ctc, nullptr);
  EXPECT_EQ(ctc->TokenBytes(0), "a");
  EXPECT_EQ(ctc->TokenBytes(1), " ");
  EXPECT_EQ(ctc->TokenBytes(2), "");
}

TEST(Tokenizer, IdsWithoutTokenAreNotValidAndEmpty) {
  const auto tokenizer = Load(WordLevel(R"({"a":0,"far":9})", "null"));
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_EQ(tokenizer->vocab_size(), 10);
  for (const TokenId id : {-1, 5, 10, 1'000'000, std::numeric_limits<TokenId>::min()}) {
    EXPECT_FALSE(tokenizer->IsValid(id)) << id;
    EXPECT_FALSE(tokenizer->IsSpecial(id)) << id;
    EXPECT_EQ(tokenizer->TokenBytes(id), "") << id;
  }
  EXPECT_TRUE(tokenizer->IsValid(9));
  EXPECT_EQ(tokenizer->TokenToId("nowhere"), std::nullopt);
  EXPECT_EQ(tokenizer->TokenToId("\xFF"), std::nullopt);
}

TEST(Tokenizer, IgnoresTruncationAndPaddingOfTheFile) {
  const auto tokenizer = Load(WordLevel(R"({"a":0,"b":1})", "null",
                                        R"("truncation":{"max_length":2,"strategy":"LongestFirst",
      "stride":0,"direction":"Right"},"padding":{"strategy":{"Fixed":64},"direction":"Right",
      "pad_to_multiple_of":null,"pad_id":0,"pad_type_id":0,"pad_token":"a"},"added_tokens":[])"));
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_THAT(tokenizer->Encode("b b b b", true).value(), ::testing::ElementsAre(1, 1, 1, 1));
}

TEST(Tokenizer, RefusesTextThatIsNotUtf8) {
  const auto tokenizer = Load(WordLevel(R"({"a":0})", "null"));
  ASSERT_NE(tokenizer, nullptr);
  for (const std::string_view text :
       {"ab\xFF", "\xC0\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xE4\xBD"}) {
    const auto ids = tokenizer->Encode(text, false);
    ASSERT_FALSE(ids.ok());
    EXPECT_EQ(ids.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(ReasonOf(ids.status()), Reason::kInvalidText);
    EXPECT_THAT(std::string(ids.status().message()), HasSubstr("UTF-8"));
  }
}

TEST(Tokenizer, ServesManyThreadsAtOnce) {
  const auto loaded = LoadTokenizerFile(SourcePath("models/demo/tokenizer.json"));
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  const Tokenizer& tokenizer = **loaded;
  const std::string text = "Once upon a time there were 3 foxes. ";
  const auto expected = tokenizer.Encode(text, false).value();
  std::vector<std::thread> threads;
  std::atomic<int> equal = 0;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) equal += tokenizer.Encode(text, false).value() == expected;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(equal, 200);
}

// ---- files that cannot be used ----

absl::Status LoadError(const std::string& json) {
  const ScratchFolder dir;
  dir.Write("tokenizer.json", json);
  return LoadTokenizer(dir.path()).status();
}

TEST(LoadTokenizer, SaysWhatIsMissing) {
  const ScratchFolder dir;
  const absl::Status status = LoadTokenizer(dir.path()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr(dir.path() + "/tokenizer.json"));
}

TEST(LoadTokenizer, RefusesADirectoryInPlaceOfTheFile) {
  const ScratchFolder dir;
  std::filesystem::create_directory(dir.path() + "/tokenizer.json");
  const absl::Status status = LoadTokenizer(dir.path()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("not a file"));
}

TEST(LoadTokenizer, RefusesHostileFiles) {
  const std::string deep(100'000, '[');
  for (const std::string& json :
       {std::string(), std::string("{}"), std::string("null"), std::string("\xFF\xFE"), deep,
        WordLevel("{}", "null"), WordLevel(R"({"a":4294967295})", "null"),
        WordLevel(R"({"a":"b"})", "null"), WordLevel(R"({"a":0})", R"({"type":"Nonsense"})")}) {
    const absl::Status status = LoadError(json);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << json.substr(0, 80);
    EXPECT_THAT(std::string(status.message()), HasSubstr("tokenizer.json")) << json.substr(0, 80);
  }
}

// Changes digits, names and structure. Whatever results, loading answers and what loads encodes.
TEST(LoadTokenizer, SurvivesMutatedFiles) {
  const std::string original = ReadFile(SourcePath("tests/golden/text/tokenizers/wordpiece.json"));
  const std::string tokens = "0123456789{}[]\",:-e.\\utrfl";
  int loaded = 0;
  for (uint32_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    std::string json = original;
    // The configuration stands in the first part; the vocabulary fills the rest.
    const size_t range = random() % 2 == 0 ? json.size() : json.size() / 3;
    for (uint32_t edits = 1 + random() % 3; edits > 0; --edits) {
      const size_t at = random() % range;
      if (random() % 2 == 0) {
        json[at] = tokens[random() % tokens.size()];
      } else {
        json.erase(at, 1 + random() % 3);
      }
    }
    const ScratchFolder dir;
    dir.Write("tokenizer.json", json);
    const auto tokenizer = LoadTokenizer(dir.path());
    if (!tokenizer.ok()) {
      EXPECT_EQ(tokenizer.status().code(), absl::StatusCode::kInvalidArgument);
      continue;
    }
    ++loaded;
    const auto ids = (*tokenizer)->Encode("Hello [SEP] world", true);
    if (ids.ok()) (*tokenizer)->Decode(*ids, false);
  }
  EXPECT_GT(loaded, 20);
}

TEST(LoadTokenizer, RefusesEveryTruncationOfAFile) {
  const std::string whole = ReadFile(SourcePath("tests/golden/text/tokenizers/wordpiece.json"));
  for (size_t size = 0; size + 2 < whole.size(); size += whole.size() / 40) {
    EXPECT_EQ(LoadError(whole.substr(0, size)).code(), absl::StatusCode::kInvalidArgument) << size;
  }
  EXPECT_TRUE(LoadError(whole).ok());
}

}  // namespace
}  // namespace baton
