#include "common/kv/kv_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
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

TEST(KvCacheTest, ZeroesUnusedSlotsOfEveryLayerPlaneAndHead) {
  for (const auto dtype : {kernels::DType::kF32, kernels::DType::kBF16}) {
    for (int32_t used = 0; used <= 4; ++used) {
      kernels::PagedKv kv;
      kv.layout = {.dtype = dtype, .block_size = 4, .layers = 2, .kv_heads = 3, .head_dim = 8};
      kv.num_blocks = 2;
      std::vector<std::byte> memory(kv.layout.block_bytes() * 2, std::byte{0xFF});
      kv.arena = memory.data();
      KvCache(kv).ZeroUnusedSlots(BlockId(1), used);
      const auto is_set = [](std::byte b) { return b == std::byte{0xFF}; };
      const auto half = memory.begin() + static_cast<ptrdiff_t>(kv.layout.block_bytes());
      EXPECT_TRUE(std::all_of(memory.begin(), half, is_set));  // the other block
      const size_t head_bytes = 4 * 8 * kernels::SizeOf(dtype);
      for (size_t i = 0; i < kv.layout.block_bytes(); ++i) {
        const size_t slot = i % head_bytes / (8 * kernels::SizeOf(dtype));
        ASSERT_EQ(is_set(half[static_cast<ptrdiff_t>(i)]), slot < static_cast<size_t>(used)) << i;
      }
    }
  }
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
  cache.ZeroUnusedSlots(BlockId(1), 3);
  for (const kernels::PagedKv& kv : ranks) {
    EXPECT_EQ(kv.block(1)[2 * 8 * 4], std::byte{0xFF});
    EXPECT_EQ(kv.block(1)[3 * 8 * 4], std::byte{0});
    EXPECT_EQ(kv.block(0)[3 * 8 * 4], std::byte{0xFF});
  }
}

}  // namespace
}  // namespace baton
