#include "router/workers/prefix_hints.h"

#include <gtest/gtest.h>

#include <numeric>
#include <thread>
#include <vector>

#include "common/kv/prefix_cache.h"

namespace baton {
namespace {

std::vector<TokenId> Tokens(int count, int first = 0) {
  std::vector<TokenId> tokens(static_cast<size_t>(count));
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

PrefixChain Chain(const std::vector<TokenId>& prompt, std::string_view salt = "", int block = 4) {
  return ChainOf(salt, prompt, {}, block);
}

const base::Instant kHintTime{std::chrono::hours(1)};
const WorkerKey kA{"a:1", 1};

TEST(PrefixHintsTest, WorkerHoldsWhatWasNotedInWholeBlocksButNeverTheLastToken) {
  PrefixHints hints;
  EXPECT_EQ(hints.HeldTokens(kA, Chain(Tokens(10))), 0);
  hints.Note(kA, Chain(Tokens(10)), 100, kHintTime);
  EXPECT_EQ(hints.HeldTokens(kA, Chain(Tokens(30))), 8);
  EXPECT_EQ(hints.HeldTokens(kA, Chain(Tokens(10))), 8);
  EXPECT_EQ(hints.HeldTokens(kA, Chain(Tokens(9))), 8);
  EXPECT_EQ(hints.HeldTokens(kA, Chain(Tokens(8))), 4) << "the last token's logits are needed";
  EXPECT_EQ(hints.HeldTokens(kA, Chain({})), 0);
}

TEST(PrefixHintsTest, PromptAndGeneratedTokensAreOneChain) {
  EXPECT_EQ(ChainOf("", Tokens(5), Tokens(7, 5), 4).blocks, Chain(Tokens(12)).blocks);
}

TEST(PrefixHintsTest, RoutersHashAsThePrefixCachesOfWorkers) {
  BlockPool pool(8);
  PrefixCache cache(&pool, /*block_size=*/4);
  PrefixCache::Chain worker = cache.Begin("salt");
  const std::vector<TokenId> tokens = Tokens(12);
  std::vector<uint64_t> hashes;
  for (size_t at = 0; at < tokens.size(); at += 4) {
    const BlockRef block = pool.Allocate();
    ASSERT_TRUE(block);
    cache.Insert(&worker, std::span(tokens).subspan(at, 4), block.id());
    hashes.push_back(worker.hash);
  }
  EXPECT_EQ(ChainOf("salt", Tokens(5), Tokens(7, 5), 4).blocks, hashes);
  EXPECT_NE(Chain(tokens).blocks, hashes);
}

TEST(PrefixHintsTest, EqualBlocksBehindOtherOnesAreOthers) {
  PrefixHints hints;
  hints.Note(kA, Chain(Tokens(12)), 100, kHintTime);
  std::vector<TokenId> other = Tokens(12);
  other[0] = 99;
  EXPECT_EQ(hints.HeldTokens(kA, Chain(other)), 0);
  other = Tokens(12);
  other[5] = 99;
  EXPECT_EQ(hints.HeldTokens(kA, Chain(other)), 4);
}

TEST(PrefixHintsTest, OtherSaltsBlockSizesWorkersAndIncarnationsNeverMeet) {
  PrefixHints hints;
  hints.Note(kA, Chain(Tokens(12), "x"), 100, kHintTime);
  EXPECT_EQ(hints.HeldTokens(kA, Chain(Tokens(12), "x")), 8);
  EXPECT_EQ(hints.HeldTokens(kA, Chain(Tokens(12), "y")), 0);
  EXPECT_EQ(hints.HeldTokens(kA, Chain(Tokens(12))), 0);
  EXPECT_EQ(hints.HeldTokens(kA, Chain(Tokens(12), "x", 2)), 0);
  EXPECT_EQ(hints.HeldTokens({"b:1", 1}, Chain(Tokens(12), "x")), 0);
  EXPECT_EQ(hints.HeldTokens({"a:1", 2}, Chain(Tokens(12), "x")), 0);
}

TEST(PrefixHintsTest, NoMoreIsRememberedThanThePoolHoldsOldestAndLastBlocksGoFirst) {
  PrefixHints hints;
  const PrefixChain a = Chain(Tokens(17)), b = Chain(Tokens(17, 100)), c = Chain(Tokens(9, 200));
  hints.Note(kA, a, 8, kHintTime);
  hints.Note(kA, b, 8, kHintTime);
  EXPECT_EQ(hints.HeldTokens(kA, a), 16);
  hints.Note(kA, a, 8, kHintTime);  // used again: now b is the older one
  hints.Note(kA, c, 8, kHintTime);
  EXPECT_EQ(hints.HeldTokens(kA, a), 16);
  EXPECT_EQ(hints.HeldTokens(kA, b), 8);
  EXPECT_EQ(hints.HeldTokens(kA, c), 8);
  hints.Note(kA, Chain(Tokens(100, 500)), 2, kHintTime);  // longer than the pool: its beginning
  EXPECT_EQ(hints.HeldTokens(kA, Chain(Tokens(100, 500))), 8);
  EXPECT_EQ(hints.HeldTokens(kA, a), 0);
}

TEST(PrefixHintsTest, DistrustedWorkerIsBelievedAgainOnlyLater) {
  PrefixHints hints;
  hints.Note(kA, Chain(Tokens(9)), 100, kHintTime);
  hints.Distrust(kA, kHintTime + std::chrono::seconds(10));
  EXPECT_EQ(hints.HeldTokens(kA, Chain(Tokens(9))), 0);
  hints.Note(kA, Chain(Tokens(9)), 100, kHintTime + std::chrono::seconds(9));
  EXPECT_EQ(hints.HeldTokens(kA, Chain(Tokens(9))), 0);
  hints.Note(kA, Chain(Tokens(9)), 100, kHintTime + std::chrono::seconds(10));
  EXPECT_EQ(hints.HeldTokens(kA, Chain(Tokens(9))), 8);
}

TEST(PrefixHintsTest, GoneWorkerIsForgottenTheOthersAreNot) {
  PrefixHints hints;
  const WorkerKey b{"b:1", 2};
  hints.Note(kA, Chain(Tokens(9)), 100, kHintTime);
  hints.Note(b, Chain(Tokens(9)), 100, kHintTime);
  hints.Drop(kA);
  EXPECT_EQ(hints.workers(), 1u);
  EXPECT_EQ(hints.HeldTokens(kA, Chain(Tokens(9))), 0);
  EXPECT_EQ(hints.HeldTokens(b, Chain(Tokens(9))), 8);
}

TEST(PrefixHintsTest, ThreadsMayNoteAskAndDropAtOnce) {
  PrefixHints hints;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&hints, t] {
      const WorkerKey key{"w", static_cast<uint64_t>(t % 2)};
      for (int i = 0; i < 500; ++i) {
        hints.Note(key, Chain(Tokens(40, i)), 16, kHintTime);
        EXPECT_LE(hints.HeldTokens(key, Chain(Tokens(40, i))), 36);
        if (i % 100 == t) hints.Drop(key);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(hints.workers(), 2u);
}

}  // namespace
}  // namespace baton
