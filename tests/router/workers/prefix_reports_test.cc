// What workers report of their prefix caches, as a router keeps it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <vector>

#include "common/kv/prefix_journal.h"
#include "router/workers/prefix_hints.h"

namespace baton {
namespace {

using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

constexpr int32_t kReportBlock = 4;
const WorkerKey kOne{"one:1", 1}, kTwo{"two:1", 2}, kThree{"three:1", 3};

PrefixChain ChainAt(TokenId first, int blocks) {
  std::vector<TokenId> tokens(static_cast<size_t>(blocks * kReportBlock) + 1);
  std::iota(tokens.begin(), tokens.end(), first);
  return ChainOf("", tokens, {}, kReportBlock);
}

class PrefixReportsTest : public ::testing::Test {
 protected:
  // The whole of a cache with the first `blocks` of a chain.
  static PrefixReport Whole(const PrefixChain& chain, size_t blocks, uint64_t version = 1) {
    return {.whole = true,
            .version = version,
            .added = {chain.blocks.begin(),
                      chain.blocks.begin() + static_cast<std::ptrdiff_t>(blocks)}};
  }
  int64_t Held(const WorkerKey& worker, const PrefixChain& chain) const {
    return hints_.HeldTokens(worker, chain) / kReportBlock;
  }

  // With what it is about to compute.
  int64_t Expected(const WorkerKey& worker, const PrefixChain& chain) const {
    return hints_.ExpectedTokens(worker, chain) / kReportBlock;
  }

  PrefixHints hints_;
  base::Instant now_{std::chrono::hours(1)};
  std::mt19937_64 random_{3};
};

TEST_F(PrefixReportsTest, AWorkerHoldsWhatItReports) {
  const PrefixChain chain = ChainAt(0, 9);
  EXPECT_TRUE(hints_.Report(kOne, Whole(chain, 6), now_));
  EXPECT_EQ(Held(kOne, chain), 6);
  EXPECT_EQ(Held(kTwo, chain), 0);
  EXPECT_EQ(Held(kOne, ChainAt(500, 9)), 0);
  EXPECT_TRUE(hints_.Report(
      kOne, {.since = 1, .version = 5, .added = {chain.blocks[6]}, .removed = {chain.blocks[1]}},
      now_));
  EXPECT_TRUE(hints_.Report(kOne, {.since = 5, .version = 6, .added = {chain.blocks[1]}}, now_));
  EXPECT_EQ(Held(kOne, chain), 7);
}

TEST_F(PrefixReportsTest, AnyHoldsAsMuchAsTheOneThatHoldsTheMost) {
  const PrefixChain chain = ChainAt(0, 16);
  EXPECT_FALSE(hints_.AnyHolds(chain, 1));
  hints_.Report(kOne, Whole(chain, 5), now_);
  hints_.Report(
      kTwo, {.whole = true, .version = 1, .stride = 4, .added = {chain.blocks[3], chain.blocks[7]}},
      now_);
  for (const int64_t tokens : {1, 5 * kReportBlock, 8 * kReportBlock}) {
    EXPECT_TRUE(hints_.AnyHolds(chain, tokens)) << tokens;
  }
  EXPECT_FALSE(hints_.AnyHolds(chain, 8 * kReportBlock + 1));
  EXPECT_FALSE(hints_.AnyHolds(ChainAt(500, 16), 1));
  hints_.Drop(kTwo);
  EXPECT_TRUE(hints_.AnyHolds(chain, 5 * kReportBlock));
  EXPECT_FALSE(hints_.AnyHolds(chain, 5 * kReportBlock + 1));
  // The last token of a prompt is computed wherever it is.
  PrefixChain whole = chain;
  whole.blocks.resize(5);
  whole.tokens = 5 * kReportBlock;
  EXPECT_FALSE(hints_.AnyHolds(whole, 4 * kReportBlock + 1));
  EXPECT_TRUE(hints_.AnyHolds(whole, 4 * kReportBlock));
}

TEST_F(PrefixReportsTest, WithoutTheChangesBetweenNothingIsBelievedUntilTheWholeComes) {
  const PrefixChain chain = ChainAt(0, 9);
  EXPECT_TRUE(hints_.Report(kOne, Whole(chain, 4, 10), now_));
  EXPECT_FALSE(hints_.Report(kOne, {.since = 12, .version = 13, .added = {chain.blocks[4]}}, now_));
  EXPECT_EQ(Held(kOne, chain), 0);
  EXPECT_FALSE(hints_.Report(kOne, {.since = 13, .version = 14, .added = {chain.blocks[5]}}, now_));
  EXPECT_TRUE(hints_.Report(kOne, Whole(chain, 6, 15), now_));
  EXPECT_EQ(Held(kOne, chain), 6);
}

TEST_F(PrefixReportsTest, WhatWasSentCountsUntilReportsHadTheTimeToTell) {
  const PrefixChain chain = ChainAt(0, 9);
  hints_.Expect(kOne, chain, now_);
  EXPECT_EQ(Expected(kOne, chain), 0) << "it does not report: nothing would end the belief";
  hints_.Report(kOne, {.whole = true, .version = 1}, now_);
  hints_.Expect(kOne, chain, now_);
  EXPECT_EQ(Expected(kOne, chain), 9);
  now_ += seconds(1);
  hints_.Report(kOne, {.since = 1, .version = 2, .added = {chain.blocks[0]}}, now_);
  EXPECT_EQ(Expected(kOne, chain), 9);
  now_ += seconds(2);
  hints_.Report(kOne, {.since = 2, .version = 3, .added = {chain.blocks[1]}}, now_);
  EXPECT_EQ(Expected(kOne, chain), 2);
}

TEST_F(PrefixReportsTest, DistrustDoesNotTouchWhatItReports) {
  const PrefixChain chain = ChainAt(0, 9);
  hints_.Report(kOne, Whole(chain, 3), now_);
  hints_.Expect(kOne, chain, now_);
  hints_.Distrust(kOne, now_ + seconds(10));
  EXPECT_EQ(Held(kOne, chain), 3);
}

TEST_F(PrefixReportsTest, WhatIsOnlyExpectedIsNotHeldYet) {
  const PrefixChain chain = ChainAt(0, 9);
  hints_.Report(kOne, Whole(chain, 2), now_);
  hints_.Expect(kOne, chain, now_);
  EXPECT_EQ(Expected(kOne, chain), 9);
  EXPECT_EQ(Held(kOne, chain), 2);
  hints_.Note(kOne, chain, 100, now_);
  EXPECT_EQ(Held(kOne, chain), 9);
  // That others are sent the same proves nothing anew.
  for (int i = 0; i < 3; ++i) {
    now_ += seconds(1);
    hints_.Expect(kOne, chain, now_);
  }
  hints_.Report(kOne, {.since = 1, .version = 2, .removed = {chain.blocks[1]}}, now_);
  hints_.Expect(kOne, chain, now_);
  EXPECT_EQ(Held(kOne, chain), 1);
  EXPECT_EQ(Expected(kOne, chain), 9);
}

TEST_F(PrefixReportsTest, WhatIsExpectedDoesNotNeedTrust) {
  const PrefixChain chain = ChainAt(0, 9);
  hints_.Report(kOne, Whole(chain, 2), now_);
  hints_.Distrust(kOne, now_ + seconds(10));
  hints_.Note(kOne, chain, 100, now_);
  EXPECT_EQ(Held(kOne, chain), 2);
  hints_.Expect(kOne, chain, now_);
  EXPECT_EQ(Held(kOne, chain), 2);
  EXPECT_EQ(Expected(kOne, chain), 9);
}

TEST_F(PrefixReportsTest, OfAWorkerWithoutACacheNothingIsExpectedWhateverItIsSent) {
  const PrefixChain chain = ChainAt(0, 9);
  EXPECT_TRUE(hints_.Report(kOne, PrefixJournal(0).Since(0), now_));
  hints_.Expect(kOne, chain, now_);
  hints_.Note(kOne, chain, 100, now_);
  EXPECT_EQ(Held(kOne, chain), 0);
  EXPECT_EQ(Expected(kOne, chain), 0);
  EXPECT_THAT(hints_.Holders(chain, 8, &random_), IsEmpty());
  EXPECT_EQ(hints_.known(), 0u);
  hints_.Drop(kOne);
  EXPECT_EQ(hints_.workers(), 0u);
}

TEST_F(PrefixReportsTest, OfStridesTheMultiplesCount) {
  const PrefixChain chain = ChainAt(0, 9);
  hints_.Report(
      kOne, {.whole = true, .version = 1, .stride = 4, .added = {chain.blocks[3], chain.blocks[7]}},
      now_);
  EXPECT_EQ(Held(kOne, chain), 8);
  EXPECT_EQ(Held(kOne, ChainAt(0, 6)), 4);
  EXPECT_EQ(Held(kOne, ChainAt(0, 3)), 0);
  hints_.Report(kTwo, Whole(chain, 2), now_);
  EXPECT_THAT(hints_.Holders(chain, 2, &random_), UnorderedElementsAre(kOne, kTwo));
}

TEST_F(PrefixReportsTest, HoldersOfTheMostComeFirst) {
  const PrefixChain chain = ChainAt(0, 9);
  hints_.Report(kOne, Whole(chain, 8), now_);
  hints_.Report(kTwo, Whole(chain, 4), now_);
  hints_.Report(kThree, Whole(ChainAt(900, 9), 9), now_);
  EXPECT_THAT(hints_.Holders(chain, 1, &random_), ElementsAre(kOne));
  EXPECT_THAT(hints_.Holders(chain, 8, &random_), ElementsAre(kOne, kTwo));
  hints_.Drop(kOne);
  EXPECT_THAT(hints_.Holders(chain, 8, &random_), ElementsAre(kTwo));
  EXPECT_THAT(hints_.Holders(ChainAt(77, 3), 8, &random_), IsEmpty());
  EXPECT_THAT(hints_.Holders(ChainAt(0, 0), 8, &random_), IsEmpty());
}

TEST_F(PrefixReportsTest, OfManyHoldersEachIsNamedNowAndThen) {
  const PrefixChain chain = ChainAt(0, 3);
  std::set<WorkerKey> seen;
  for (uint64_t i = 1; i <= 40; ++i) {
    hints_.Report({"w" + std::to_string(i), i}, Whole(chain, 3), now_);
  }
  for (int i = 0; i < 400; ++i) {
    for (const WorkerKey& key : hints_.Holders(chain, 4, &random_)) seen.insert(key);
  }
  EXPECT_EQ(seen.size(), 40u);
}

TEST_F(PrefixReportsTest, MemoryHasABoundAndWhatLeavesMakesRoom) {
  PrefixHints few(10);
  const PrefixChain a = ChainAt(0, 8), b = ChainAt(900, 8);
  few.Report(kOne, Whole(a, 8), now_);
  few.Report(kTwo, Whole(b, 8), now_);
  EXPECT_EQ(few.HeldTokens(kTwo, b), 2 * kReportBlock);
  few.Drop(kOne);
  few.Report(kTwo, Whole(b, 8, 2), now_);
  EXPECT_EQ(few.HeldTokens(kTwo, b), 8 * kReportBlock);
}

// Random histories of caches: a router that hears of every change knows what the caches hold.
TEST_F(PrefixReportsTest, RoutersThatListenAgreeWithTheJournal) {
  std::vector<PrefixChain> chains;
  for (TokenId i = 0; i < 20; ++i) chains.push_back(ChainAt(1000 * i, 8));
  PrefixJournal journal(1000);
  PrefixHints other;
  uint64_t known = 0, other_known = 0;
  std::map<size_t, size_t> held;  // of each chain, how many blocks
  for (int step = 0; step < 5000; ++step) {
    const size_t which = random_() % chains.size();
    size_t& blocks = held[which];
    if (random_() % 2 == 0 && blocks < 8) {
      journal.Added(chains[which].blocks[blocks++]);
    } else if (blocks > 0) {
      journal.Removed(chains[which].blocks[--blocks]);
    }
    const auto hear = [&](PrefixHints* hints, uint64_t* version) {
      const PrefixReport report = journal.Since(*version);
      ASSERT_TRUE(hints->Report(kOne, report, now_));
      *version = report.version;
    };
    if (random_() % 4 == 0) hear(&hints_, &known);
    if (random_() % 900 == 0) hear(&other, &other_known);
  }
  hints_.Report(kOne, journal.Since(known), now_);
  other.Report(kOne, journal.Since(other_known), now_);
  for (size_t i = 0; i < chains.size(); ++i) {
    EXPECT_EQ(Held(kOne, chains[i]), static_cast<int64_t>(held[i])) << i;
    EXPECT_EQ(other.HeldTokens(kOne, chains[i]), static_cast<int64_t>(held[i]) * kReportBlock) << i;
  }
}

}  // namespace
}  // namespace baton
