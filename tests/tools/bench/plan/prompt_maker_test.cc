#include "tools/bench/plan/prompt_maker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <set>

#include "tests/common/text/test_files.h"
#include "tests/fakes/byte_tokenizer.h"

namespace baton::bench {
namespace {

using baton::ByteTokenizer;
using baton::testing::SourcePath;
using Ids = std::vector<int32_t>;

constexpr uint64_t kSeed = 4;

std::unique_ptr<PromptMaker> IdMaker(int32_t vocab_size, Ids excluded = {},
                                     PromptSharing sharing = {}) {
  auto maker = MakeIdPrompts({vocab_size, std::move(excluded)}, nullptr, kSeed, sharing);
  EXPECT_TRUE(maker.ok()) << maker.status();
  return *std::move(maker);
}

Ids MakeIds(const PromptMaker& maker, const PromptSpec& spec) {
  const auto prompt = maker.Make(spec);
  EXPECT_TRUE(prompt.ok()) << prompt.status();
  return std::get<Ids>(*prompt);
}

size_t CommonPrefix(const Ids& a, const Ids& b) {
  size_t n = 0;
  while (n < a.size() && n < b.size() && a[n] == b[n]) ++n;
  return n;
}

TEST(IdPromptsTest, HaveExactlyTheAskedLength) {
  const auto maker = IdMaker(1000);
  for (const int32_t n : {1, 2, 3, 4, 5, 127, 4096}) {
    EXPECT_EQ(MakeIds(*maker, {.index = 0, .tokens = n}).size(), static_cast<size_t>(n));
  }
}

TEST(IdPromptsTest, HoldEveryIdOfTheVocabularyButTheExcluded) {
  const auto maker = IdMaker(50, {0, 7, 49, 100000});
  const Ids prompt = MakeIds(*maker, {.index = 3, .tokens = 20000});
  const std::set<int32_t> used(prompt.begin(), prompt.end());
  EXPECT_EQ(used.size(), 47U);
  EXPECT_FALSE(used.contains(0) || used.contains(7) || used.contains(49));
  EXPECT_GE(*used.begin(), 0);
  EXPECT_LT(*used.rbegin(), 50);
}

TEST(IdPromptsTest, LeaveOutSpecialTokensOfALocalTokenizer) {
  const ByteTokenizer tokenizer({}, {"<s>", "</s>"});
  auto maker = MakeIdPrompts({300, {}}, &tokenizer, kSeed, {});
  ASSERT_TRUE(maker.ok()) << maker.status();
  const Ids prompt = MakeIds(**maker, {.index = 0, .tokens = 20000});
  EXPECT_LT(*std::max_element(prompt.begin(), prompt.end()), 256);
}

TEST(IdPromptsTest, ShareNoPrefixByThemselves) {
  const auto maker = IdMaker(32000);
  for (int64_t i = 1; i < 200; ++i) {
    const Ids one = MakeIds(*maker, {.index = 0, .tokens = 64});
    EXPECT_LT(CommonPrefix(one, MakeIds(*maker, {.index = i, .tokens = 64})), 3U) << i;
  }
}

TEST(IdPromptsTest, AreAFunctionOfSeedAndSpec) {
  const PromptSpec spec = {.index = 9, .tokens = 100};
  EXPECT_EQ(MakeIds(*IdMaker(500), spec), MakeIds(*IdMaker(500), spec));
  auto other = MakeIdPrompts({500, {}}, nullptr, kSeed + 1, {});
  ASSERT_TRUE(other.ok());
  EXPECT_NE(MakeIds(*IdMaker(500), spec), MakeIds(**other, spec));
}

TEST(IdPromptsTest, ShareThePrefixThatIsAskedFor) {
  const auto maker = IdMaker(32000, {}, {.prefix_tokens = 37});
  const Ids one = MakeIds(*maker, {.index = 0, .tokens = 100});
  const Ids two = MakeIds(*maker, {.index = 1, .tokens = 200});
  EXPECT_EQ(CommonPrefix(one, two), 37U);
  EXPECT_EQ(CommonPrefix(one, MakeIds(*maker, {.index = 2, .tokens = 20})), 20U);
}

TEST(IdPromptsTest, EqualHashIdsStandForEqualBlocks) {
  const auto maker = IdMaker(32000, {}, {.block_tokens = 16});
  const std::vector<uint64_t> a = {46, 47, 48}, b = {46, 47, 99}, c = {50, 47, 48};
  const Ids one = MakeIds(*maker, {.index = 0, .tokens = 45, .hash_ids = a});
  const Ids same = MakeIds(*maker, {.index = 1, .tokens = 45, .hash_ids = a});
  const Ids two = MakeIds(*maker, {.index = 2, .tokens = 45, .hash_ids = b});
  const Ids three = MakeIds(*maker, {.index = 3, .tokens = 45, .hash_ids = c});
  EXPECT_EQ(one, same);
  EXPECT_EQ(CommonPrefix(one, two), 32U);
  EXPECT_EQ(CommonPrefix(one, three), 0U);
  EXPECT_TRUE(std::equal(one.begin() + 16, one.end(), three.begin() + 16));
}

TEST(IdPromptsTest, TokensBeyondTheHashIdsAreTheRequestsOwn) {
  const auto maker = IdMaker(32000, {}, {.block_tokens = 16});
  const std::vector<uint64_t> ids = {46};
  const Ids one = MakeIds(*maker, {.index = 0, .tokens = 40, .hash_ids = ids});
  const Ids two = MakeIds(*maker, {.index = 1, .tokens = 40, .hash_ids = ids});
  EXPECT_EQ(CommonPrefix(one, two), 16U);
}

TEST(IdPromptsTest, RefuseAVocabularyWithNothingLeft) {
  EXPECT_FALSE(MakeIdPrompts({0, {}}, nullptr, kSeed, {}).ok());
  EXPECT_FALSE(MakeIdPrompts({2, {1}}, nullptr, kSeed, {}).ok());
}

// Tokenizers of every family that the text library is tested with.
class TextPromptsTest : public ::testing::TestWithParam<const char*> {};

TEST_P(TextPromptsTest, AreEncodedToExactlyTheAskedLength) {
  const auto tokenizer = LoadTokenizerFile(SourcePath(GetParam()));
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  const auto maker = MakeTextPrompts(tokenizer->get(), kSeed, {});
  ASSERT_TRUE(maker.ok()) << maker.status();
  for (const int32_t n : {3, 10, 64, 257, 1000}) {
    for (int64_t index = 0; index < 5; ++index) {
      const auto prompt = (*maker)->Make({.index = index, .tokens = n});
      ASSERT_TRUE(prompt.ok()) << prompt.status();
      const auto ids = (*tokenizer)->Encode(std::get<std::string>(*prompt), true);
      ASSERT_TRUE(ids.ok());
      EXPECT_EQ(ids->size(), static_cast<size_t>(n));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Families, TextPromptsTest,
                         ::testing::Values("models/demo/tokenizer.json",
                                           "tests/golden/text/tokenizers/llama2_style.json",
                                           "tests/golden/text/tokenizers/llama3_style.json",
                                           "tests/golden/text/tokenizers/qwen_style.json",
                                           "tests/golden/text/tokenizers/metaspace_unigram.json"));

TEST(TextPromptsTest, DifferBetweenRequestsAndShareAnAskedPrefix) {
  const ByteTokenizer tokenizer;
  const auto apart = MakeTextPrompts(&tokenizer, kSeed, {});
  const auto shared = MakeTextPrompts(&tokenizer, kSeed, {.prefix_tokens = 20});
  ASSERT_TRUE(apart.ok() && shared.ok());
  const auto text = [](const PromptMaker& maker, int64_t index) {
    return std::get<std::string>(*maker.Make({.index = index, .tokens = 50}));
  };
  EXPECT_NE(text(**apart, 0).substr(0, 10), text(**apart, 1).substr(0, 10));
  EXPECT_EQ(text(**shared, 0).substr(0, 20), text(**shared, 1).substr(0, 20));
  EXPECT_NE(text(**shared, 0), text(**shared, 1));
  EXPECT_EQ(text(**shared, 0).size(), 50U);
}

// Puts two tokens in front of every text.
class FramingTokenizer final : public Tokenizer {
 public:
  absl::StatusOr<std::vector<TokenId>> Encode(std::string_view text, bool add) const override {
    auto ids = *bytes_.Encode(text, add);
    if (add) ids.insert(ids.begin(), {1, 2});
    return ids;
  }
  std::string_view TokenBytes(TokenId id) const override { return bytes_.TokenBytes(id); }
  std::string_view TokenText(TokenId id) const override { return bytes_.TokenText(id); }
  bool IsSpecial(TokenId id) const override { return bytes_.IsSpecial(id); }
  bool IsValid(TokenId id) const override { return bytes_.IsValid(id); }
  int vocab_size() const override { return bytes_.vocab_size(); }
  std::optional<TokenId> TokenToId(std::string_view t) const override {
    return bytes_.TokenToId(t);
  }
  bool DecodeDropsLeadingSpace() const override { return false; }

 private:
  ByteTokenizer bytes_;
};

TEST(TextPromptsTest, CountWhatTheTokenizerAddsAndGiveUpBelowIt) {
  const FramingTokenizer tokenizer;
  const auto maker = MakeTextPrompts(&tokenizer, kSeed, {});
  ASSERT_TRUE(maker.ok()) << maker.status();
  EXPECT_EQ(std::get<std::string>(*(*maker)->Make({.index = 0, .tokens = 10})).size(), 8U);
  const auto impossible = (*maker)->Make({.index = 0, .tokens = 2});
  ASSERT_FALSE(impossible.ok());
  EXPECT_EQ(impossible.status().code(), absl::StatusCode::kOutOfRange);
  EXPECT_THAT(std::string(impossible.status().message()), ::testing::HasSubstr("exactly 2 tokens"));
}

}  // namespace
}  // namespace baton::bench
