#include "common/sample/ngram_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace baton {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

std::vector<TokenId> Sorted(std::span<const TokenId> ids) {
  std::vector<TokenId> sorted(ids.begin(), ids.end());
  std::sort(sorted.begin(), sorted.end());
  return sorted;
}

// The rule as it reads: every n-gram of the history is compared with its last n - 1 tokens.
std::vector<TokenId> BannedByRule(std::span<const TokenId> history, size_t n) {
  std::vector<TokenId> banned;
  for (size_t start = 0; start + n <= history.size(); ++start) {
    if (std::ranges::equal(history.subspan(start, n - 1), history.last(n - 1))) {
      banned.push_back(history[start + n - 1]);
    }
  }
  banned = Sorted(banned);
  banned.erase(std::unique(banned.begin(), banned.end()), banned.end());
  return banned;
}

// Pieces of what came before, repeated, so that long n-grams repeat too.
std::vector<TokenId> RandomHistory(std::mt19937& random, size_t length, uint32_t vocab) {
  std::vector<TokenId> ids;
  while (ids.size() < length) {
    if (ids.size() > 4 && random() % 8 == 0) {
      const size_t from = random() % ids.size();
      const size_t count = 1 + random() % 100;
      for (size_t i = 0; i < count && ids.size() < length; ++i) ids.push_back(ids[from + i]);
    } else {
      ids.push_back(static_cast<TokenId>(random() % vocab));
    }
  }
  return ids;
}

// Draws token after token, as a decoding sequence does, from a prompt of `prompt` tokens on.
void ExpectAsRule(std::span<const TokenId> history, size_t prompt, int32_t n, NgramIndex index) {
  for (size_t length = prompt; length <= history.size(); ++length) {
    const auto before = history.first(length);
    ASSERT_EQ(Sorted(index.BannedAfter(before)), BannedByRule(before, static_cast<size_t>(n)))
        << "n " << n << " after " << length << " tokens";
  }
}

TEST(NgramIndexTest, BansWhatWouldCompleteAnNgram) {
  const std::vector<TokenId> history = {5, 6, 7, 1, 5, 6};
  const auto with = [&](int32_t n) { return Sorted(NgramIndex(n).BannedAfter(history)); };
  EXPECT_THAT(with(0), IsEmpty());
  EXPECT_THAT(with(1), ElementsAre(1, 5, 6, 7)) << "each id once";
  EXPECT_THAT(with(3), ElementsAre(7)) << "5 6 7 stands there";
  EXPECT_THAT(with(4), IsEmpty()) << "1 5 6 never had a successor";
  EXPECT_THAT(with(50), IsEmpty()) << "longer than the history";
}

TEST(NgramIndexTest, AnEmptyHistoryBansNothing) {
  for (const int32_t n : {1, 2, 64}) EXPECT_THAT(NgramIndex(n).BannedAfter({}), IsEmpty());
}

TEST(NgramIndexTest, GivesWhatTheRuleGivesForEveryN) {
  for (int32_t n = 1; n <= 64; ++n) {
    for (const uint32_t vocab : {1U, 2U, 3U, 20U}) {
      const uint32_t seed = static_cast<uint32_t>(n) * 100 + vocab;
      SCOPED_TRACE(seed);
      std::mt19937 random(seed);
      const auto history = RandomHistory(random, 200, vocab);
      ExpectAsRule(history, random() % 100, n, NgramIndex(n));
      if (HasFatalFailure()) return;
    }
  }
}

TEST(NgramIndexTest, ContextsOfEqualHashAreToldApart) {
  // The base 0 hashes the last token only, and 1 gives all orders of the same tokens one hash.
  for (const uint64_t base : {0U, 1U}) {
    for (const int32_t n : {2, 3, 5, 9}) {
      std::mt19937 random(static_cast<uint32_t>(n));
      ExpectAsRule(RandomHistory(random, 200, 3), 0, n, NgramIndex(n, base));
      if (HasFatalFailure()) return;
    }
  }
}

TEST(NgramIndexTest, AReplayBansWhatTheFirstAttemptBanned) {
  std::mt19937 random(7);
  const auto history = RandomHistory(random, 300, 4);
  NgramIndex first(3);
  for (size_t length = 100; length < 250; ++length)
    first.BannedAfter(std::span(history).first(length));
  NgramIndex replay(3);  // prompt and accepted tokens at once
  EXPECT_EQ(Sorted(replay.BannedAfter(history)), Sorted(first.BannedAfter(history)));
}

TEST(NgramIndexTest, ATokenCostsNoPassOverTheHistory) {
  for (const int32_t n : {1, 2, 3, 64}) {
    std::mt19937 random(static_cast<uint32_t>(n));
    std::vector<TokenId> history = RandomHistory(random, 20'000, 5);
    NgramIndex index(n);
    index.BannedAfter(history);
    EXPECT_LE(index.work(), 4 * std::ssize(history)) << "linear in the prompt, n " << n;
    for (int i = 0; i < 1000; ++i) {
      const int64_t before = index.work();
      history.push_back(static_cast<TokenId>(random() % 5));
      const auto banned = index.BannedAfter(history);
      ASSERT_LE(std::ssize(banned), 5);
      ASSERT_LE(index.work() - before, 4 + std::ssize(banned)) << "n " << n;
    }
  }
}

TEST(NgramIndexTest, AContextThatStandsOftenBansItsFollowersOnce) {
  const std::vector<TokenId> history(10'000, 3);
  for (const int32_t n : {1, 2, 64}) {
    EXPECT_THAT(NgramIndex(n).BannedAfter(history), UnorderedElementsAre(3));
  }
}

// Two indices over one history, of which one is also asked along ids that do not come.
TEST(NgramIndexTest, IdsThatDoNotComeLeaveNoTrace) {
  std::mt19937 random(11);
  for (int round = 0; round < 40; ++round) {
    const int32_t n = 1 + round % 4;
    const uint64_t base = round % 2 == 0 ? 1 : 12345;  // with 1, many contexts share a hash
    NgramIndex asked(n, base), plain(n, base);
    const std::vector<TokenId> history = RandomHistory(random, 200, 3 + random() % 20);
    for (size_t length = 1; length < history.size(); length += 1 + random() % 3) {
      const auto before = std::span(history).first(length);
      std::vector<TokenId> along(before.begin(), before.end());
      const size_t given = random() % 6;
      for (size_t i = 0; i < given; ++i) along.push_back(history[(length + i * 7) % 150]);
      const auto answers = asked.BannedAlong(along, given);
      ASSERT_EQ(answers.size(), given + 1);
      for (size_t i = 0; i <= given; ++i) {
        ASSERT_EQ(Sorted(answers[i]),
                  BannedByRule(std::span(along).first(length + i), static_cast<size_t>(n)))
            << "n " << n << " after " << length << " and " << i << " given ids";
      }
      ASSERT_EQ(Sorted(asked.BannedAfter(before)), Sorted(plain.BannedAfter(before)));
    }
  }
}

TEST(NgramIndexTest, NothingIsBannedAlongWithoutTheRule) {
  const std::vector<TokenId> history = {1, 1, 1};
  EXPECT_THAT(NgramIndex(0).BannedAlong(history, 2), ElementsAre(IsEmpty(), IsEmpty(), IsEmpty()));
}

}  // namespace
}  // namespace baton
