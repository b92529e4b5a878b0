#include "common/text/text_stream.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "tests/fakes/byte_tokenizer.h"

namespace baton {
namespace {

// 256 " User", 257 ":", 258 "<eos>" (special)
ByteTokenizer MakeTokenizer() { return ByteTokenizer({" User", "\n\nUs"}, {"<eos>"}); }

TEST(TextStream, StopsAtTheTokenThatCompletesTheStopString) {
  const ByteTokenizer tokenizer = MakeTokenizer();
  TextStream stream(tokenizer, {.stop_strings = {"\n\nUser:"}});
  EXPECT_EQ(stream.Append('H').text, "H");
  EXPECT_EQ(stream.Append(257).text, "");  // "\n\nUs"
  EXPECT_EQ(stream.Append('e').text, "");
  EXPECT_EQ(stream.Append('r').text, "");
  const TextPiece last = stream.Append(':');
  EXPECT_EQ(last.text, "");
  EXPECT_EQ(last.stop, "\n\nUser:");
  EXPECT_EQ(stream.tokens(), 5);
  EXPECT_TRUE(stream.stopped());
  EXPECT_EQ(stream.Finish(), "");
}

TEST(TextStream, CutsInsideTheToken) {
  const ByteTokenizer tokenizer({"a.b.c"});
  TextStream cut(tokenizer, {.stop_strings = {"."}});
  EXPECT_EQ(cut.Append(256).text, "a");
  TextStream kept(tokenizer, {.stop_strings = {"."}, .include_stop = true});
  EXPECT_EQ(kept.Append(256).text, "a.");
}

TEST(TextStream, FinishGivesWhatWasHeldBack) {
  const ByteTokenizer tokenizer = MakeTokenizer();
  TextStream stream(tokenizer, {.stop_strings = {"abc"}});
  EXPECT_EQ(stream.Append('a').text, "");
  EXPECT_EQ(stream.Append('b').text, "");
  EXPECT_EQ(stream.Append(0xE4).text, "");
  EXPECT_EQ(stream.Finish(), "ab\xEF\xBF\xBD");
  EXPECT_FALSE(stream.stopped());
}

TEST(TextStream, FinishNeverStops) {
  const ByteTokenizer tokenizer = MakeTokenizer();
  TextStream stream(tokenizer, {.stop_strings = {"\xEF\xBF\xBD"}});
  EXPECT_EQ(stream.Append(0xE4).stop, std::nullopt);
  EXPECT_EQ(stream.Finish(), "\xEF\xBF\xBD");
}

TEST(TextStream, IgnoresStopStringsUntilMinTokens) {
  const ByteTokenizer tokenizer = MakeTokenizer();
  constexpr int64_t kMinTokens = 3;
  TextStream stream(tokenizer, {.stop_strings = {"x"}});
  std::string text;
  std::optional<std::string> stop;
  for (const TokenId id : {'x', 'a', 'x', 'b', 'x', 'c'}) {
    const TextPiece piece = stream.Append(id, stream.tokens() >= kMinTokens);
    text += piece.text;
    if ((stop = piece.stop)) break;
  }
  EXPECT_EQ(text, "xaxb");
  EXPECT_EQ(stop, "x");
  EXPECT_EQ(stream.tokens(), 5);
}

TEST(TextStream, SkippedSpecialTokensCountButHaveNoText) {
  const ByteTokenizer tokenizer = MakeTokenizer();
  TextStream stream(tokenizer, {.stop_strings = {"ab"}});
  stream.Append('a');
  stream.Append(258);
  const TextPiece piece = stream.Append('b');
  EXPECT_EQ(piece.stop, "ab");  // the text is "ab": the special token does not come between
  EXPECT_EQ(stream.tokens(), 3);
}

TEST(TextStream, SpecialTokensCanBeStopStringsWhenNotSkipped) {
  const ByteTokenizer tokenizer = MakeTokenizer();
  TextStream stream(tokenizer, {.stop_strings = {"<eos>"}, .skip_special_tokens = false});
  EXPECT_EQ(stream.Append('a').text, "a");
  EXPECT_EQ(stream.Append(258).stop, "<eos>");
}

TEST(TextStream, MatchesStopStringsOfSeveralBytesPerCharacter) {
  const ByteTokenizer tokenizer;
  TextStream stream(tokenizer, {.stop_strings = {"終わり"}});
  std::string text;
  std::optional<std::string> stop;
  for (const char c : std::string("文章終わ終わりx")) {
    const TextPiece piece = stream.Append(static_cast<unsigned char>(c));
    text += piece.text;
    if ((stop = piece.stop)) break;
  }
  EXPECT_EQ(text, "文章終わ");
  EXPECT_EQ(stop, "終わり");
}

// Tokens are random cuts of a random text: where the text ends does not depend on them.
TEST(TextStream, TheTextDoesNotDependOnTheTokens) {
  const std::vector<std::string> stops = {"bé", "aab", "漢a"};
  for (uint32_t seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    const std::vector<std::string> letters = {"a", "b", "é", "漢"};
    std::string source;
    for (int i = 0; i < 25; ++i) source += letters[random() % letters.size()];
    std::vector<std::string> pieces;
    for (size_t begin = 0; begin < source.size();) {
      pieces.push_back(source.substr(begin, 1 + random() % 5));
      begin += pieces.back().size();
    }
    const auto run = [&stops](const ByteTokenizer& tokenizer, const std::vector<TokenId>& ids) {
      TextStream stream(tokenizer, {.stop_strings = stops});
      std::string text;
      for (const TokenId id : ids) {
        text += stream.Append(id).text;
        if (stream.stopped()) return text + "|";
      }
      return text + stream.Finish();
    };
    std::vector<TokenId> whole;
    for (size_t i = 0; i < pieces.size(); ++i) whole.push_back(256 + static_cast<TokenId>(i));
    std::vector<TokenId> bytes;
    for (const char c : source) bytes.push_back(static_cast<unsigned char>(c));
    EXPECT_EQ(run(ByteTokenizer(pieces), whole), run(ByteTokenizer(), bytes));
  }
}

TEST(TextStreamDeathTest, RefusesTokensAfterAStop) {
  const ByteTokenizer tokenizer;
  TextStream stream(tokenizer, {.stop_strings = {"x"}});
  stream.Append('x');
  EXPECT_DEATH(stream.Append('y'), "after the stop");
}

}  // namespace
}  // namespace baton
