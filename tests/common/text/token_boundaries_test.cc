#include "common/text/token_boundaries.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/common/text/test_files.h"
#include "tests/fakes/byte_tokenizer.h"

namespace baton {
namespace {

TEST(TokenBoundariesTest, ALineEndsWhereverTheNewlineStands) {
  for (const char* text : {"\n", "\r\n", "a\n", "\n\n  ", "}\n\t"}) {
    EXPECT_EQ(BoundaryOfBytes(text), kEndsLine) << text;
  }
  EXPECT_EQ(BoundaryOfBytes("\r"), 0);
}

TEST(TokenBoundariesTest, ASentenceEndsWithItsMark) {
  for (const char* text : {".", "!", "?", "…", "。", "！", "？", "end.", "...", " No!"}) {
    EXPECT_EQ(BoundaryOfBytes(text), kEndsSentence) << text;
  }
}

TEST(TokenBoundariesTest, QuotesBracketsAndSpacesMayFollowTheMark) {
  for (const char* text : {". ", ".\t", ".\r", ".\"", ".'", ".)", ".]", ".}", ".*", "._", ".`",
                           ".»", ".”", ".’", "?!”) ", "。」"}) {
    const bool known = std::string(text) != "。」";  // another bracket is not of the set
    EXPECT_EQ(BoundaryOfBytes(text), known ? kEndsSentence : 0) << text;
  }
  EXPECT_EQ(BoundaryOfBytes(".\n"), kEndsLine | kEndsSentence);
}

TEST(TokenBoundariesTest, OtherTokensEndNothing) {
  for (const char* text : {"", " ", "\"", "a", ", ", "3.5", ".a", ":", "\xe2\x80", "\xa6"}) {
    EXPECT_EQ(BoundaryOfBytes(text), 0) << text;
  }
}

TEST(TokenBoundariesTest, IdsOutsideTheTableEndNothing) {
  const std::vector<uint8_t> table = {kEndsLine, kEndsSentence};
  EXPECT_EQ(BoundaryOf(table, 1), kEndsSentence);
  EXPECT_EQ(BoundaryOf(table, 2), 0);
  EXPECT_EQ(BoundaryOf(table, -1), 0);
  EXPECT_EQ(BoundaryOf({}, 0), 0);
}

TEST(TokenBoundariesTest, TheTableHasAllIdsOfATokenizer) {
  const ByteTokenizer tokenizer({"!\n"}, {"<|end|>"});
  const std::vector<uint8_t> table = TokenBoundaries(tokenizer);
  ASSERT_EQ(table.size(), 258u);
  EXPECT_EQ(table['.'], kEndsSentence);
  EXPECT_EQ(table['\n'], kEndsLine);
  EXPECT_EQ(table['a'], 0);
  EXPECT_EQ(table[256], kEndsLine | kEndsSentence);
  EXPECT_EQ(table[257], 0);
}

TEST(TokenBoundariesTest, TheDemoModelsFullStopEndsASentence) {
  const auto tokenizer = LoadTokenizer(testing::SourcePath("models/demo"));
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  const std::vector<uint8_t> table = TokenBoundaries(**tokenizer);
  const auto ids = (*tokenizer)->Encode("Once. Then", false);
  ASSERT_TRUE(ids.ok());
  int ends = 0;
  for (const TokenId id : *ids) ends += BoundaryOf(table, id) == kEndsSentence ? 1 : 0;
  EXPECT_EQ(ends, 1);
}

}  // namespace
}  // namespace baton
