#include "common/kv/prefix_cache.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace baton {
namespace {

constexpr int32_t kBlockSize = 4;

std::vector<TokenId> Tokens(int32_t count, TokenId first = 0) {
  std::vector<TokenId> tokens;
  for (int32_t i = 0; i < count; ++i) tokens.push_back(first + i);
  return tokens;
}

uint64_t ConstantHash(uint64_t, std::span<const TokenId>) { return 42; }

// A sequence that computed all of `tokens` and entered its full blocks.
struct Writer {
  Writer(BlockPool* pool, PrefixCache* cache, const std::vector<TokenId>& tokens,
         std::string_view salt = "")
      : found(cache->Match(salt, tokens, 1000)), reused(found.table.size()) {
    const auto full = static_cast<int32_t>(tokens.size()) / kBlockSize;
    for (int32_t i = reused; i < full; ++i) {
      found.table.Append(pool->Allocate());
      cache->Insert(&found.chain,
                    std::span(tokens).subspan(static_cast<size_t>(i * kBlockSize), kBlockSize),
                    found.table[i]);
    }
  }
  PrefixCache::Found found;
  int32_t reused;
};

class PrefixCacheTest : public testing::Test {
 protected:
  int32_t Matched(const std::vector<TokenId>& tokens, std::string_view salt = "",
                  int32_t max_blocks = 1000) {
    return cache_.Match(salt, tokens, max_blocks).table.size();
  }
  BlockPool pool_{8};
  PrefixCache cache_{&pool_, kBlockSize};
};

TEST_F(PrefixCacheTest, MatchesTheLongestPrefixInFullBlocks) {
  { const Writer writer(&pool_, &cache_, Tokens(11)); }
  EXPECT_EQ(pool_.num_cached(), 2);
  EXPECT_EQ(Matched(Tokens(11)), 2);
  EXPECT_EQ(Matched(Tokens(7)), 1);
  EXPECT_EQ(Matched(Tokens(3)), 0);
  EXPECT_EQ(Matched(Tokens(100)), 2);
  EXPECT_EQ(Matched(Tokens(8, 1)), 0);
}

TEST_F(PrefixCacheTest, TheCallerBoundsTheMatch) {
  { const Writer writer(&pool_, &cache_, Tokens(12)); }
  EXPECT_EQ(Matched(Tokens(12), "", 2), 2);
  EXPECT_EQ(Matched(Tokens(12), "", 0), 0);
}

TEST_F(PrefixCacheTest, BranchesShareTheirCommonBlocks) {
  std::vector<TokenId> other = Tokens(12);
  other[9] = 77;
  const Writer a(&pool_, &cache_, Tokens(12));
  const Writer b(&pool_, &cache_, other);
  EXPECT_EQ(b.reused, 2);
  EXPECT_EQ(a.found.table[1], b.found.table[1]);
  EXPECT_NE(a.found.table[2], b.found.table[2]);
  EXPECT_EQ(pool_.num_used(), 4);
}

TEST_F(PrefixCacheTest, WhatIsForgottenIsFoundByNobody) {
  std::vector<TokenId> longer = Tokens(16);
  { const Writer writer(&pool_, &cache_, longer); }
  { const Writer other(&pool_, &cache_, Tokens(8), "salt"); }
  Writer running(&pool_, &cache_, Tokens(8));
  ASSERT_EQ(running.reused, 2);
  std::vector<TokenId> branch = Tokens(13);
  branch[12] = 77;
  cache_.Forget("", branch);
  EXPECT_EQ(Matched(longer), 0);
  EXPECT_EQ(Matched(Tokens(8), "salt"), 2);
  EXPECT_EQ(pool_.num_used(), 2);
  const auto block = std::span(longer).subspan(8, kBlockSize);
  running.found.table.Append(pool_.Allocate());
  cache_.Insert(&running.found.chain, block, running.found.table[2]);
  EXPECT_TRUE(running.found.chain.broken) << "nothing goes on behind it";
  { const Writer anew(&pool_, &cache_, longer); }
  EXPECT_EQ(Matched(longer), 4);
  running.found.table.Clear();
  EXPECT_TRUE(pool_.IsConsistent());
}

TEST_F(PrefixCacheTest, SaltsSeparateTenants) {
  { const Writer writer(&pool_, &cache_, Tokens(8), "a"); }
  EXPECT_EQ(Matched(Tokens(8), "a"), 2);
  EXPECT_EQ(Matched(Tokens(8), "b"), 0);
  EXPECT_EQ(Matched(Tokens(8)), 0);
}

TEST_F(PrefixCacheTest, EvictionTakesTheTailAndLeavesTheHead) {
  { const Writer writer(&pool_, &cache_, Tokens(12)); }
  std::vector<BlockRef> refs;
  for (int i = 0; i < 6; ++i) refs.push_back(pool_.Allocate());  // five free, one evicted
  EXPECT_EQ(pool_.evictions(), 1u);
  EXPECT_EQ(Matched(Tokens(12)), 2);
  EXPECT_EQ(cache_.size(), 2u);
}

TEST_F(PrefixCacheTest, EqualContentIsEnteredOnce) {
  PrefixCache::Chain chain = cache_.Begin("");
  const Writer first(&pool_, &cache_, Tokens(8));
  BlockTable own;
  for (int32_t i = 0; i < 2; ++i) {
    own.Append(pool_.Allocate());
    const auto tokens = Tokens(kBlockSize, i * kBlockSize);
    cache_.Insert(&chain, tokens, own[i]);
    EXPECT_FALSE(pool_.is_cached(own[i]));
  }
  EXPECT_EQ(cache_.size(), 2u);
  EXPECT_EQ(chain.blocks, 2);
}

// A sequence whose equal, foreign parent was evicted must not enter blocks behind nothing.
TEST_F(PrefixCacheTest, AnEvictedParentEndsTheChain) {
  PrefixCache::Chain chain = cache_.Begin("");
  { const Writer first(&pool_, &cache_, Tokens(4)); }
  BlockTable own;
  own.Append(pool_.Allocate());
  cache_.Insert(&chain, Tokens(4), own[0]);  // the other one stays
  std::vector<BlockRef> rest;
  while (BlockRef ref = pool_.Allocate()) rest.push_back(std::move(ref));
  EXPECT_EQ(cache_.size(), 0u);
  rest.pop_back();
  own.Append(pool_.Allocate());
  cache_.Insert(&chain, Tokens(4, 4), own[1]);
  EXPECT_TRUE(chain.broken);
  EXPECT_EQ(cache_.size(), 0u);
}

TEST_F(PrefixCacheTest, AHitComparesTokensNotHashes) {
  PrefixCache colliding(&pool_, kBlockSize, &ConstantHash);
  { const Writer writer(&pool_, &colliding, Tokens(4)); }
  EXPECT_EQ(colliding.Match("", Tokens(4), 9).table.size(), 1);
  EXPECT_EQ(colliding.Match("", Tokens(4, 50), 9).table.size(), 0);
  EXPECT_EQ(colliding.Match("tenant", Tokens(4), 9).table.size(), 0);
}

TEST_F(PrefixCacheTest, AHitComparesTheWholeChain) {
  PrefixCache colliding(&pool_, kBlockSize, &ConstantHash);
  // All entries share one hash: the second block replaces the first, and stands behind it only.
  { const Writer writer(&pool_, &colliding, Tokens(8)); }
  EXPECT_EQ(colliding.size(), 1u);
  EXPECT_EQ(colliding.Match("", Tokens(8), 9).table.size(), 0);
  EXPECT_EQ(colliding.Match("", Tokens(4, 4), 9).table.size(), 0);  // right tokens, wrong place
  EXPECT_TRUE(pool_.IsConsistent());
}

}  // namespace
}  // namespace baton
