#include "common/text/stop_matcher.h"

#include <gtest/gtest.h>

#include <optional>
#include <random>
#include <string>
#include <vector>

namespace baton {
namespace {

struct Outcome {
  std::string text;
  std::optional<size_t> stop;
  size_t pieces = 0;  // fed until the stop, or all
  friend bool operator==(const Outcome&, const Outcome&) = default;
};

Outcome Feed(const std::vector<std::string>& stops, bool include,
             const std::vector<std::string>& pieces, size_t inactive = 0) {
  StopMatcher matcher(stops, include);
  Outcome outcome;
  for (const std::string& piece : pieces) {
    const StopMatchResult result = matcher.Append(piece, outcome.pieces >= inactive);
    ++outcome.pieces;
    outcome.text += result.text;
    if (result.stop.has_value()) {
      outcome.stop = result.stop;
      EXPECT_EQ(matcher.Flush(), "");
      return outcome;
    }
  }
  outcome.text += matcher.Flush();
  return outcome;
}

// Tries every end, in order, and every stop string at it.
Outcome Naive(const std::vector<std::string>& stops, bool include,
              const std::vector<std::string>& pieces, size_t inactive) {
  std::string text;
  for (size_t p = 0; p < pieces.size(); ++p) {
    for (const char c : pieces[p]) {
      text += c;
      std::optional<size_t> found;
      for (size_t s = 0; s < stops.size() && p >= inactive; ++s) {
        if (stops[s].empty() || !text.ends_with(stops[s])) continue;
        if (!found || stops[s].size() > stops[*found].size()) found = s;
      }
      if (!found) continue;
      if (!include) text.resize(text.size() - stops[*found].size());
      return {text, found, p + 1};
    }
  }
  return {text, std::nullopt, pieces.size()};
}

TEST(StopMatcher, CutsAtTheStopString) {
  EXPECT_EQ(Feed({"END"}, false, {"some END more"}), (Outcome{"some ", 0, 1}));
  EXPECT_EQ(Feed({"END"}, true, {"some END more"}), (Outcome{"some END", 0, 1}));
}

TEST(StopMatcher, FindsAStopStringAcrossPieces) {
  EXPECT_EQ(Feed({"\n\nUser:"}, false, {"ok\n", "\n", "Us", "er", ": hi"}), (Outcome{"ok", 0, 5}));
}

TEST(StopMatcher, HoldsBackOnlyWhatMayBeginAStopString) {
  const std::vector<std::string> stops = {"abc"};
  StopMatcher matcher(stops, false);
  EXPECT_EQ(matcher.Append("xa").text, "x");
  EXPECT_EQ(matcher.Append("b").text, "");
  EXPECT_EQ(matcher.Append("ab").text, "ab");  // the first "ab" cannot continue any more
  EXPECT_EQ(matcher.Append("x").text, "abx");
  EXPECT_EQ(matcher.Append("ab").text, "");
  EXPECT_EQ(matcher.Flush(), "ab");
}

TEST(StopMatcher, TheEarliestEndWinsThenTheLongestThenTheFirst) {
  EXPECT_EQ(Feed({"abcd", "bc"}, false, {"xabcd"}), (Outcome{"xa", 1, 1}));
  EXPECT_EQ(Feed({"c", "abc", "bc"}, false, {"xabc"}), (Outcome{"x", 1, 1}));
  EXPECT_EQ(Feed({"ab", "ab"}, false, {"ab"}), (Outcome{"", 0, 1}));
}

TEST(StopMatcher, OverlappingBeginningsAreNotMissed) {
  EXPECT_EQ(Feed({"aab"}, false, {"a", "a", "a", "b"}), (Outcome{"a", 0, 4}));
  EXPECT_EQ(Feed({"abab", "abx"}, false, {"ab", "abx"}), (Outcome{"", 0, 2}));
  EXPECT_EQ(Feed({"she", "hers"}, false, {"us", "hers"}), (Outcome{"u", 0, 2}));
}

TEST(StopMatcher, PassesTextThroughWithoutStopStrings) {
  EXPECT_EQ(Feed({}, false, {"a", "b"}), (Outcome{"ab", std::nullopt, 2}));
  EXPECT_EQ(Feed({""}, false, {"a", "b"}), (Outcome{"ab", std::nullopt, 2}));
}

TEST(StopMatcher, InactivePiecesDoNotStopButMayBegin) {
  EXPECT_EQ(Feed({"ab"}, false, {"ab", "x", "ab"}, 1), (Outcome{"abx", 0, 3}));
  EXPECT_EQ(Feed({"ab"}, false, {"a", "b"}, 1), (Outcome{"", 0, 2}));
  EXPECT_EQ(Feed({"aa"}, false, {"a", "a", "a"}, 2), (Outcome{"a", 0, 3}));
  EXPECT_EQ(Feed({"ab"}, false, {"a", "b"}, 2), (Outcome{"ab", std::nullopt, 2}));
}

TEST(StopMatcher, AgreesWithTheNaiveSearchOnRandomInput) {
  for (uint32_t seed = 0; seed < 4000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    const auto word = [&random](size_t low, size_t high) {
      std::string text;
      const size_t size = low + random() % (high - low + 1);
      for (size_t i = 0; i < size; ++i) text += static_cast<char>('a' + random() % 2);
      return text;
    };
    std::vector<std::string> stops(random() % 4);
    for (std::string& stop : stops) stop = word(0, 6);
    std::vector<std::string> pieces(1 + random() % 12);
    for (std::string& piece : pieces) piece = word(0, 3);
    const bool include = random() % 2 == 0;
    const size_t inactive = random() % 2 == 0 ? 0 : random() % pieces.size();
    EXPECT_EQ(Feed(stops, include, pieces, inactive), Naive(stops, include, pieces, inactive));
  }
}

TEST(StopMatcher, NeverReturnsWhatAStopWouldHaveCut) {
  for (uint32_t seed = 0; seed < 1000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    const std::vector<std::string> stops = {"abba", "bab", "aaab"};
    StopMatcher matcher(stops, false);
    std::string all;
    std::string shown;
    for (int i = 0; i < 30; ++i) {
      const std::string piece(1, static_cast<char>('a' + random() % 2));
      all += piece;
      const StopMatchResult result = matcher.Append(piece);
      shown += result.text;
      // What is held is a beginning of some stop string, and no more than needed.
      const std::string held = all.substr(shown.size());
      if (result.stop.has_value()) break;
      bool begins = held.empty();
      for (const std::string& stop : stops)
        begins |= stop.size() > held.size() && stop.starts_with(held);
      EXPECT_TRUE(begins) << held;
    }
    EXPECT_TRUE(all.starts_with(shown));
  }
}

}  // namespace
}  // namespace baton
