#include "common/kv/prefix_journal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "common/kv/prefix_cache.h"

namespace baton {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

TEST(PrefixJournalTest, WhoKnowsNothingIsToldEverythingAndThenWhatChanges) {
  PrefixJournal journal(100);
  journal.Added(1);
  journal.Added(2);
  const PrefixReport first = journal.Since(0);
  EXPECT_TRUE(first.whole);
  EXPECT_THAT(first.added, UnorderedElementsAre(1, 2));
  EXPECT_TRUE(journal.Since(first.version).empty());
  journal.Removed(1);
  journal.Added(3);
  const PrefixReport next = journal.Since(first.version);
  EXPECT_FALSE(next.whole);
  EXPECT_EQ(next.since, first.version);
  EXPECT_THAT(next.added, ElementsAre(3));
  EXPECT_THAT(next.removed, ElementsAre(1));
  EXPECT_GT(next.version, first.version);
}

TEST(PrefixJournalTest, AnEmptyCacheIsToldTo) {
  const PrefixReport report = PrefixJournal(100).Since(0);
  EXPECT_TRUE(report.whole);
  EXPECT_GT(report.version, 0u);
  EXPECT_THAT(report.added, IsEmpty());
}

TEST(PrefixJournalTest, OfABlockThatCameAndWentTheLastWordCounts) {
  PrefixJournal journal(100);
  const uint64_t begin = journal.Since(0).version;
  for (int i = 0; i < 3; ++i) {
    journal.Added(7);
    journal.Removed(7);
  }
  journal.Added(8);
  journal.Removed(8);
  journal.Added(8);
  const PrefixReport report = journal.Since(begin);
  EXPECT_THAT(report.added, ElementsAre(8));
  EXPECT_THAT(report.removed, ElementsAre(7));
}

TEST(PrefixJournalTest, WhoIsTooFarBehindOrOfAnotherLifeIsToldEverything) {
  PrefixJournal journal(100);
  const uint64_t begin = journal.Since(0).version;
  for (int i = 0; i <= kMostReportedBlocks / 2; ++i) {
    journal.Added(7);
    journal.Removed(7);
  }
  journal.Added(9);
  EXPECT_TRUE(journal.Since(begin).whole);
  EXPECT_THAT(journal.Since(begin).added, ElementsAre(9));
  EXPECT_TRUE(journal.Since(1 << 30).whole);
}

TEST(PrefixJournalTest, OfALargePoolOnlyEverySoManyBlocksAreToldOf) {
  EXPECT_EQ(PrefixJournal(kMostReportedBlocks).Since(0).stride, 1);
  const PrefixJournal journal(4 * kMostReportedBlocks);
  EXPECT_EQ(journal.Since(0).stride, 4);
  EXPECT_FALSE(journal.Tells(3));
  EXPECT_TRUE(journal.Tells(8));
}

TEST(PrefixJournalTest, NoReportIsLongerThan64KiB) {
  PrefixJournal journal(100);
  for (uint64_t hash = 1; hash <= 2 * kMostReportedBlocks; ++hash) journal.Added(hash);
  EXPECT_EQ(journal.Since(0).added.size(), size_t{kMostReportedBlocks});
  EXPECT_EQ(kMostReportedBlocks * sizeof(uint64_t), 64u << 10);
  // What did not fit was not told, so its end is not told either.
  const uint64_t version = journal.Since(0).version;
  journal.Removed(2 * kMostReportedBlocks);
  EXPECT_TRUE(journal.Since(version).empty());
}

TEST(PrefixJournalTest, FollowsThePrefixCacheThroughEvictions) {
  constexpr int32_t kBlock = 4;
  BlockPool pool(4);
  PrefixJournal journal(pool.total());
  PrefixCache cache(&pool, kBlock, &HashBlock, &journal);
  const auto enter = [&](TokenId first, int32_t blocks) {
    std::vector<TokenId> tokens(static_cast<size_t>(blocks * kBlock));
    std::iota(tokens.begin(), tokens.end(), first);
    PrefixCache::Chain chain = cache.Begin("");
    BlockTable table;
    std::vector<uint64_t> hashes;
    for (int32_t i = 0; i < blocks; ++i) {
      table.Append(pool.Allocate());
      cache.Insert(&chain, std::span(tokens).subspan(static_cast<size_t>(i * kBlock), kBlock),
                   table[i]);
      hashes.push_back(chain.hash);
    }
    return hashes;
  };
  const std::vector<uint64_t> old = enter(0, 3);
  EXPECT_THAT(journal.Since(0).added, testing::UnorderedElementsAreArray(old));
  const std::vector<uint64_t> young = enter(100, 3);  // one block was free: two of the old ones go
  EXPECT_THAT(journal.Since(0).added, UnorderedElementsAre(old[0], young[0], young[1], young[2]));
}

}  // namespace
}  // namespace baton
