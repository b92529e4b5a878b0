#include "common/text/detokenizer.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <random>
#include <string>

#include "tests/fakes/byte_tokenizer.h"

namespace baton {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

// Decodes one code point strictly; 0 bytes when there is none. Written differently from the code
// under test: by value, not by byte ranges.
size_t StrictCharacter(std::string_view text) {
  const auto byte = [text](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t lead = byte(0);
  if (lead < 0x80) return 1;
  const size_t length = lead >= 0xF8   ? 0
                        : lead >= 0xF0 ? 4
                        : lead >= 0xE0 ? 3
                        : lead >= 0xC0 ? 2
                                       : 0;
  if (length == 0 || text.size() < length) return 0;
  uint32_t value = lead & (0xFFu >> (length + 1));
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
    value = value << 6 | (byte(i) & 0x3Fu);
  }
  constexpr uint32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = value >= 0xD800 && value <= 0xDFFF;
  return value < kSmallest[length] || value > 0x10FFFF || surrogate ? 0 : length;
}

bool IsUtf8(std::string_view text) {
  while (!text.empty()) {
    const size_t length = StrictCharacter(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

std::string AllAtOnce(std::string_view bytes) {
  Utf8Assembler assembler;
  std::string text = assembler.Append(bytes);
  return text + assembler.Flush();
}

TEST(Utf8Assembler, KeepsValidTextWhereverItIsSplit) {
  const std::string text = "aé漢👍\n";
  for (size_t first = 0; first <= text.size(); ++first) {
    for (size_t second = first; second <= text.size(); ++second) {
      Utf8Assembler assembler;
      std::string joined = assembler.Append(text.substr(0, first));
      EXPECT_TRUE(IsUtf8(joined));
      joined += assembler.Append(text.substr(first, second - first));
      EXPECT_TRUE(IsUtf8(joined));
      joined += assembler.Append(text.substr(second));
      EXPECT_EQ(joined, text);
      EXPECT_EQ(assembler.Flush(), "");
    }
  }
}

TEST(Utf8Assembler, ReplacesEachMaximalInvalidPartOnce) {
  const std::string r(kReplacement);
  EXPECT_EQ(AllAtOnce("a\xFF"
                      "b"),
            "a" + r + "b");
  EXPECT_EQ(AllAtOnce("\xC0\x80"), r + r);          // overlong: neither byte begins anything
  EXPECT_EQ(AllAtOnce("\xE0\x80\x80"), r + r + r);  // overlong
  EXPECT_EQ(AllAtOnce("\xED\xA0\x80"), r + r + r);  // surrogate
  EXPECT_EQ(AllAtOnce("\xF4\x90\x80\x80"), r + r + r + r);  // beyond U+10FFFF
  EXPECT_EQ(AllAtOnce("\xE4\xBDx"), r + "x");               // a truncated character is one part
  EXPECT_EQ(AllAtOnce("\xF0\x9F\x91\xE4\xBD\xA0"), r + "你");
}

TEST(Utf8Assembler, FlushGivesOneReplacementForAnIncompleteCharacter) {
  for (const std::string_view start : {"\xC3", "\xE4\xBD", "\xF0\x9F\x91"}) {
    Utf8Assembler assembler;
    EXPECT_EQ(assembler.Append(start), "");
    EXPECT_EQ(assembler.Flush(), kReplacement);
    EXPECT_EQ(assembler.Flush(), "");
  }
}

TEST(Utf8Assembler, RandomBytesNeverSplitACharacterNorDependOnTheSplit) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    // Lead and continuation bytes are likelier than in uniform noise, so that long prefixes occur.
    const std::string alphabet = "a\x80\xBF\x9F\xA0\xC2\xC3\xE0\xE4\xED\xEF\xF0\xF4\xF5\xFF";
    std::string bytes;
    for (int i = 0; i < 60; ++i) {
      bytes += random() % 4 == 0 ? static_cast<char>(random() % 256)
                                 : alphabet[random() % alphabet.size()];
    }
    Utf8Assembler assembler;
    std::string joined;
    for (size_t begin = 0; begin < bytes.size();) {
      const size_t size = 1 + random() % 4;
      const std::string piece = assembler.Append(std::string_view(bytes).substr(begin, size));
      EXPECT_TRUE(IsUtf8(piece));
      joined += piece;
      begin += size;
    }
    joined += assembler.Flush();
    EXPECT_TRUE(IsUtf8(joined));
    EXPECT_EQ(joined, AllAtOnce(bytes));
  }
}

std::string AppendAll(StreamingDetokenizer& detokenizer, std::initializer_list<TokenId> ids) {
  std::string text;
  for (const TokenId id : ids) text += detokenizer.Append(id);
  return text;
}

TEST(StreamingDetokenizer, HoldsBytesUntilTheCharacterIsWhole) {
  const ByteTokenizer tokenizer;
  StreamingDetokenizer detokenizer(tokenizer, true);
  EXPECT_EQ(detokenizer.Append(0xE6), "");
  EXPECT_EQ(detokenizer.Append(0xBC), "");
  EXPECT_EQ(detokenizer.Append(0xA2), "漢");
  EXPECT_EQ(detokenizer.Flush(), "");
}

TEST(StreamingDetokenizer, KeepsTheLeadingSpaceOfTheFirstToken) {
  const ByteTokenizer tokenizer({" the"});
  StreamingDetokenizer detokenizer(tokenizer, true);
  EXPECT_EQ(detokenizer.Append(256), " the");
}

TEST(StreamingDetokenizer, SkipsSpecialTokensOnlyWhenAsked) {
  const ByteTokenizer tokenizer({}, {"<eos>"});
  StreamingDetokenizer skips(tokenizer, true);
  EXPECT_EQ(AppendAll(skips, {'a', 256, 'b'}), "ab");
  StreamingDetokenizer keeps(tokenizer, false);
  EXPECT_EQ(AppendAll(keeps, {'a', 256, 'b'}), "a<eos>b");
}

TEST(StreamingDetokenizer, ASkippedTokenInsideACharacterDoesNotBreakIt) {
  const ByteTokenizer tokenizer({}, {"<eos>"});
  StreamingDetokenizer detokenizer(tokenizer, true);
  EXPECT_EQ(AppendAll(detokenizer, {0xC3, 256, 0xA9}), "é");
}

TEST(StreamingDetokenizer, UnknownIdsAddNothing) {
  const ByteTokenizer tokenizer;
  StreamingDetokenizer detokenizer(tokenizer, true);
  EXPECT_EQ(AppendAll(detokenizer, {-1, 1'000'000, 'x'}), "x");
}

// Counts the lookups: skipped tokens and broken UTF-8 are what makes other stream decoders
// reconsider ever longer prefixes.
class CountingTokenizer final : public Tokenizer {
 public:
  absl::StatusOr<std::vector<TokenId>> Encode(std::string_view, bool) const override {
    return std::vector<TokenId>{};
  }
  std::string_view TokenBytes(TokenId) const override {
    ++lookups;
    return "\x80";
  }
  std::string_view TokenText(TokenId) const override { return ""; }
  bool IsSpecial(TokenId id) const override { return id == 1; }
  bool IsValid(TokenId) const override { return true; }
  int vocab_size() const override { return 2; }
  std::optional<TokenId> TokenToId(std::string_view) const override { return std::nullopt; }
  bool DecodeDropsLeadingSpace() const override { return false; }

  mutable int64_t lookups = 0;
};

TEST(StreamingDetokenizer, LooksAtEachTokenOnceHoweverLongTheStream) {
  const CountingTokenizer tokenizer;
  StreamingDetokenizer detokenizer(tokenizer, true);
  constexpr int64_t kTokens = 20'000;
  for (int64_t i = 0; i < kTokens; ++i) {
    EXPECT_EQ(detokenizer.Append(1), "");
    EXPECT_EQ(detokenizer.Append(0), kReplacement);
  }
  EXPECT_EQ(tokenizer.lookups, kTokens);
}

}  // namespace
}  // namespace baton
