#include "common/speculate/ngram_lookup.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace baton {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<TokenId> Once(const std::vector<TokenId>& history, int32_t most,
                          NgramLengths lengths = {}) {
  NgramLookup lookup(lengths);
  const auto found = lookup.After(history, most);
  return {found.begin(), found.end()};
}

TEST(NgramLookupTest, GivesWhatFollowedTheLastIdsBefore) {
  EXPECT_THAT(Once({1, 2, 3, 4, 5, 9, 1, 2}, 3), ElementsAre(3, 4, 5));
  EXPECT_THAT(Once({1, 2, 3, 4, 5, 9, 1, 2}, 1), ElementsAre(3));
}

TEST(NgramLookupTest, GivesNothingWhereTooLittleIsEqual) {
  EXPECT_THAT(Once({}, 3), IsEmpty());
  EXPECT_THAT(Once({7}, 3), IsEmpty());
  EXPECT_THAT(Once({1, 2, 3, 4, 5}, 3), IsEmpty());
  EXPECT_THAT(Once({9, 2, 3, 4, 8, 2}, 3), IsEmpty()) << "one id is not enough";
  EXPECT_THAT(Once({9, 2, 3, 4, 8, 2}, 3, {.shortest = 1, .longest = 1}), ElementsAre(3, 4, 8));
  EXPECT_THAT(Once({1, 2, 3, 4, 5, 9, 1, 2}, 0), IsEmpty());
}

TEST(NgramLookupTest, ALongerMatchGoesBeforeALaterOne) {
  // {2, 3} stood before 50 last, {1, 2, 3} before 40.
  EXPECT_THAT(Once({1, 2, 3, 40, 9, 2, 3, 50, 8, 1, 2, 3}, 1), ElementsAre(40));
  EXPECT_THAT(Once({1, 2, 3, 40, 9, 2, 3, 50, 8, 1, 2, 3}, 1, {.shortest = 2, .longest = 2}),
              ElementsAre(50))
      << "of equally long ones the latest";
}

TEST(NgramLookupTest, ATextThatGoesInCirclesIsContinuedSo) {
  EXPECT_THAT(Once({5, 6, 7, 5, 6, 7}, 7), ElementsAre(5, 6, 7, 5, 6, 7, 5));
  EXPECT_THAT(Once({4, 4, 4}, 3), ElementsAre(4, 4, 4));
}

// As the rule reads: every place is compared.
std::vector<TokenId> ByRule(std::span<const TokenId> history, int32_t most, NgramLengths lengths) {
  const size_t n = history.size();
  size_t best = 0;
  int32_t longest = lengths.shortest - 1;
  for (size_t end = n; end-- > 1;) {
    int32_t equal = 0;
    while (equal < lengths.longest && static_cast<size_t>(equal) < end &&
           history[end - 1 - static_cast<size_t>(equal)] ==
               history[n - 1 - static_cast<size_t>(equal)]) {
      ++equal;
    }
    if (equal > longest) {
      longest = equal;
      best = end;
    }
  }
  std::vector<TokenId> text(history.begin(), history.end());
  for (int32_t i = 0; best > 0 && i < most; ++i) {
    text.push_back(text[best + static_cast<size_t>(i)]);
  }
  return {text.begin() + static_cast<ptrdiff_t>(n), text.end()};
}

TEST(NgramLookupTest, IsTheRuleHoweverTheHistoryCame) {
  std::mt19937 random(7);
  int found = 0;
  for (int round = 0; round < 60; ++round) {
    const NgramLengths lengths = {.shortest = 1 + round % 3, .longest = 3 + round % 4};
    NgramLookup lookup(lengths);
    std::vector<TokenId> history;
    while (history.size() < 300) {
      // So many different ids that no n-gram occurs more often than the lookup looks.
      for (uint32_t i = 1 + random() % 9; i > 0; --i) {
        history.push_back(static_cast<TokenId>(random() % 60));
      }
      if (history.size() > 20 && random() % 3 == 0) {
        const size_t from = random() % (history.size() - 10);
        for (size_t i = 0; i < 10; ++i) history.push_back(history[from + i]);
      }
      const auto most = static_cast<int32_t>(random() % 8);
      const auto ids = lookup.After(history, most);
      ASSERT_EQ(std::vector<TokenId>(ids.begin(), ids.end()), ByRule(history, most, lengths))
          << "round " << round << " after " << history.size() << " ids";
      found += ids.empty() ? 0 : 1;
    }
  }
  EXPECT_GT(found, 500);
}

TEST(NgramLookupTest, AnIdCostsTheSameInALongAndRepetitiveHistory) {
  for (const uint32_t vocab : {1u, 2u, 1000u}) {
    NgramLookup lookup({});
    std::mt19937 random(3);
    std::vector<TokenId> history;
    constexpr int64_t kIds = 20'000;
    for (int64_t i = 0; i < kIds; ++i) {
      history.push_back(static_cast<TokenId>(random() % vocab));
      lookup.After(history, 4);
    }
    EXPECT_LE(lookup.work(), kIds * (NgramLookup::kLooks + 4)) << "vocabulary " << vocab;
  }
}

}  // namespace
}  // namespace baton
