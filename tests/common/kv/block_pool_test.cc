#include "common/kv/block_pool.h"

#include <gtest/gtest.h>

#include <set>
#include <utility>
#include <vector>

#include "common/kv/block_table.h"

namespace baton {
namespace {

TEST(BlockPoolTest, HandsOutEachBlockOnce) {
  BlockPool pool(5);
  std::vector<BlockRef> refs;
  std::set<BlockId> ids;
  for (int i = 0; i < 5; ++i) {
    refs.push_back(pool.Allocate());
    ids.insert(refs.back().id());
  }
  EXPECT_EQ(ids.size(), 5u);
  EXPECT_EQ(pool.num_used(), 5);
  EXPECT_TRUE(pool.IsConsistent());
}

TEST(BlockPoolTest, AllocateFailsWhenPoolIsEmpty) {
  BlockPool pool(1);
  const BlockRef only = pool.Allocate();
  EXPECT_FALSE(pool.Allocate());
}

TEST(BlockPoolTest, ReferencesAreCountedAndMoveOnly) {
  BlockPool pool(2);
  BlockRef first = pool.Allocate();
  BlockRef second = pool.Reference(first.id());
  EXPECT_EQ(pool.references(first.id()), 2);
  BlockRef moved = std::move(first);
  EXPECT_FALSE(first);
  EXPECT_EQ(pool.references(moved.id()), 2);
  moved = std::move(second);
  EXPECT_EQ(pool.references(moved.id()), 1);
  moved.Reset();
  EXPECT_EQ(pool.num_free(), 2);
}

TEST(BlockPoolTest, CachedBlocksStayUntilTheyAreNeededLeastRecentFirst) {
  BlockPool pool(3);
  std::vector<BlockId> evicted;
  pool.set_evicted_callback([&](BlockId id) { evicted.push_back(id); });
  BlockRef a = pool.Allocate(), b = pool.Allocate(), c = pool.Allocate();
  const BlockId a_id = a.id(), b_id = b.id();
  for (BlockRef* ref : {&a, &b, &c}) pool.SetCached(ref->id(), true);
  a.Reset();
  b.Reset();
  EXPECT_EQ(pool.num_cached(), 2);
  pool.Reference(a_id).Reset();  // a touch: b is now the oldest
  BlockRef d = pool.Allocate();
  EXPECT_EQ(d.id(), b_id);
  BlockRef e = pool.Allocate();
  EXPECT_EQ(e.id(), a_id);
  EXPECT_FALSE(pool.Allocate());  // c is still referenced
  EXPECT_EQ(evicted, (std::vector<BlockId>{b_id, a_id}));
  EXPECT_EQ(pool.evictions(), 2u);
  EXPECT_TRUE(pool.IsConsistent());
}

TEST(BlockPoolTest, FreeBlocksGoBeforeCachedOnes) {
  BlockPool pool(2);
  BlockRef cached = pool.Allocate();
  pool.SetCached(cached.id(), true);
  cached.Reset();
  const BlockRef next = pool.Allocate();
  EXPECT_EQ(pool.num_cached(), 1);
  EXPECT_EQ(pool.evictions(), 0u);
}

TEST(BlockPoolTest, DroppedFromTheCacheBecomesFree) {
  BlockPool pool(2);
  BlockRef ref = pool.Allocate();
  const BlockId id = ref.id();
  pool.SetCached(id, true);
  ref.Reset();
  pool.SetCached(id, false);
  EXPECT_EQ(pool.num_free(), 2);
  EXPECT_TRUE(pool.IsConsistent());
}

TEST(BlockPoolTest, QuarantinedBlocksAreNotHandedOut) {
  BlockPool pool(1);
  BlockRef ref = pool.Allocate();
  ref.Quarantine();
  ref.Quarantine();  // once is enough
  EXPECT_EQ(pool.num_quarantined(), 1);
  EXPECT_EQ(pool.num_used(), 0);
  EXPECT_FALSE(pool.Allocate());
  ref.Reset();
  EXPECT_EQ(pool.num_free(), 1);
  EXPECT_TRUE(pool.Allocate());
}

TEST(BlockPoolTest, SharedBlockInQuarantineCountsAsUsedWhileSomebodyUsesIt) {
  BlockPool pool(1);
  BlockRef held = pool.Allocate();
  pool.SetCached(held.id(), true);
  BlockRef other = pool.Reference(held.id());
  held.Quarantine();
  EXPECT_EQ(pool.num_used(), 1);
  other.Reset();
  EXPECT_EQ(pool.num_quarantined(), 1);
  EXPECT_TRUE(pool.IsConsistent());
  other = pool.Reference(held.id());  // a prefix hit meanwhile
  EXPECT_EQ(pool.num_quarantined(), 0);
  held.Reset();
  other.Reset();
  EXPECT_EQ(pool.num_cached(), 1);
  EXPECT_TRUE(pool.IsConsistent());
}

TEST(BlockPoolDeathTest, OutlivedByAReferenceIsABug) {
  EXPECT_DEATH(
      {
        auto pool = std::make_unique<BlockPool>(1);
        const BlockRef ref = pool->Allocate();
        pool.reset();
      },
      "outlive their pool");
}

TEST(BlockTableTest, QuarantinesOnlyTheLeasedRange) {
  BlockPool pool(4);
  BlockTable table;
  for (int i = 0; i < 4; ++i) table.Append(pool.Allocate());
  table.Quarantine(1, 3);
  EXPECT_EQ(pool.num_quarantined(), 2);
  EXPECT_EQ(pool.num_free(), 2);
  table.Clear();
  EXPECT_EQ(pool.num_free(), 4);
}

TEST(BlockTableTest, ReleasesTheTailBeforeTheHead) {
  BlockPool pool(3);
  BlockTable table;
  std::vector<BlockId> ids;
  for (int i = 0; i < 3; ++i) {
    table.Append(pool.Allocate());
    ids.push_back(table[i]);
    pool.SetCached(ids.back(), true);
  }
  table.Clear();
  std::vector<BlockRef> refs;
  for (size_t i = 3; i-- > 0;) {
    refs.push_back(pool.Allocate());
    EXPECT_EQ(refs.back().id(), ids[i]);  // the oldest cached block is the last of the prefix
  }
}

}  // namespace
}  // namespace baton
