#include "common/kv/kv_cache.h"

#include <gtest/gtest.h>

#include <vector>

namespace baton {
namespace {

TEST(KvCacheTest, BlocksAreContiguousAndDisjoint) {
  kernels::PagedKv kv;
  kv.layout = {.block_size = 4, .layers = 2, .kv_heads = 3, .head_dim = 8};
  kv.num_blocks = 3;
  std::vector<std::byte> memory(kv.layout.block_bytes() * 3);
  kv.arena = memory.data();
  const KvCache cache(kv);
  EXPECT_EQ(cache.bytes(BlockId(0)).data(), memory.data());
  EXPECT_EQ(cache.bytes(BlockId(2)).data() + cache.bytes(BlockId(2)).size(),
            memory.data() + memory.size());
  EXPECT_EQ(cache.bytes(BlockId(0)).size(), 2u * 2 * 3 * 4 * 8 * sizeof(float));
}

TEST(KvCacheTest, AnIdNamesABlockOnEveryRank) {
  std::vector<std::vector<std::byte>> memory;
  std::vector<kernels::PagedKv> ranks;
  for (int rank = 0; rank < 3; ++rank) {
    kernels::PagedKv kv;
    kv.layout = {.block_size = 4, .layers = 2, .kv_heads = 1, .head_dim = 8};
    kv.num_blocks = 2;
    kv.arena = memory.emplace_back(kv.layout.block_bytes() * 2, std::byte{0xFF}).data();
    ranks.push_back(kv);
  }
  const KvCache cache(ranks);
  EXPECT_EQ(cache.bytes(BlockId(1)).data(), ranks[0].block(1));
  const ByteParts peers = cache.peer_bytes(BlockId(1));
  ASSERT_EQ(peers.size(), 2u);
  EXPECT_EQ(peers[1].data(), ranks[2].block(1));
}

}  // namespace
}  // namespace baton
