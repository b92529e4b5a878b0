#include "tools/bench/client/sse_parser.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::bench {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr size_t kBound = 64;

// What comes out when the pieces go in.
std::vector<std::string> EventsOf(const std::vector<std::string_view>& pieces) {
  std::vector<std::string> events;
  SseParser parser(kBound, [&events](std::string_view data) { events.emplace_back(data); });
  for (const std::string_view piece : pieces) EXPECT_TRUE(parser.Feed(piece).ok());
  return events;
}

TEST(SseParser, GivesTheDataOfEachEvent) {
  EXPECT_THAT(EventsOf({"data: one\n\ndata: two\n\n"}), ElementsAre("one", "two"));
}

TEST(SseParser, GivesTheSameWhereverTheBytesAreSplit) {
  for (const std::string end : {"\n", "\r\n", "\r"}) {
    std::string stream = ": a comment@data: {\"a\":1}@@event: x@data:two@data: lines@id: 5@@";
    stream += "data: [DONE]@@";
    for (size_t at; (at = stream.find('@')) != std::string::npos;) stream.replace(at, 1, end);
    const std::string_view all = stream;
    for (size_t i = 0; i <= all.size(); ++i) {
      for (size_t j = i; j <= all.size(); ++j) {
        EXPECT_THAT(EventsOf({all.substr(0, i), all.substr(i, j - i), all.substr(j)}),
                    ElementsAre("{\"a\":1}", "two\nlines", "[DONE]"))
            << "split at " << i << " and " << j;
      }
    }
  }
}

TEST(SseParser, TakesOneSpaceAfterTheColonOnly) {
  EXPECT_THAT(EventsOf({"data:  x \n\n"}), ElementsAre(" x "));
}

TEST(SseParser, KnowsADataLineWithoutValue) {
  EXPECT_THAT(EventsOf({"data\n\n", "data:\ndata:\n\n"}), ElementsAre("", "\n"));
}

TEST(SseParser, SkipsOtherFieldsAndEmptyEvents) {
  EXPECT_THAT(EventsOf({"\n\nevent: ping\n\nretry: 3\ndatabase: no\n\n"}), IsEmpty());
}

TEST(SseParser, HoldsAnEventThatIsNotOver) {
  SseParser parser(kBound, [](std::string_view) { FAIL(); });
  EXPECT_FALSE(parser.mid_event());
  ASSERT_TRUE(parser.Feed("data: half\n").ok());
  EXPECT_TRUE(parser.mid_event());
}

TEST(SseParser, RefusesAnEventBeyondTheBound) {
  for (const bool one_line : {true, false}) {
    std::vector<std::string> events;
    SseParser parser(kBound, [&events](std::string_view data) { events.emplace_back(data); });
    const std::string line = one_line ? std::string(kBound, 'x') : "data: 0123456789\n";
    ASSERT_TRUE(parser.Feed("data: fits\n\n").ok());
    absl::Status status;
    for (size_t fed = 0; status.ok() && fed < 10 * kBound; fed += line.size()) {
      status = parser.Feed(line);
    }
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_FALSE(parser.Feed("\n\n").ok());
    EXPECT_THAT(events, ElementsAre("fits"));
  }
}

TEST(SseParser, ServesAnotherStreamAfterReset) {
  std::vector<std::string> events;
  SseParser parser(kBound, [&events](std::string_view data) { events.emplace_back(data); });
  ASSERT_TRUE(parser.Feed("data: lost\nda").ok());
  parser.Reset();
  ASSERT_TRUE(parser.Feed("data: kept\n\n").ok());
  EXPECT_THAT(events, ElementsAre("kept"));
}

}  // namespace
}  // namespace baton::bench
