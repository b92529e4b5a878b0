#include "common/kv/block_layout.h"

#include <gtest/gtest.h>

#include "tests/common/kv/rank_block.h"

namespace baton {
namespace {

TEST(KvShapeTest, HeadsAreDividedOrCopied) {
  const KvShape divided = RankShape(4, 2);
  EXPECT_EQ(divided.heads_per_rank(), 2);
  EXPECT_EQ(divided.first_head(1), 2);
  EXPECT_EQ(divided.rank_of(1), 0);
  EXPECT_EQ(divided.rank_of(2), 1);
  const KvShape copied = RankShape(2, 8);
  EXPECT_EQ(copied.heads_per_rank(), 1);
  EXPECT_EQ(copied.first_head(3), 0);
  EXPECT_EQ(copied.first_head(4), 1);
  EXPECT_EQ(copied.rank_of(1), 4);
}

TEST(KvShapeTest, OnlyTheNumberOfRanksMayDiffer) {
  const KvShape here = RankShape(4, 2);
  EXPECT_TRUE(CanHandOver(here, here));
  for (const int32_t ranks : {1, 4, 8, 64}) EXPECT_TRUE(CanHandOver(here, RankShape(4, ranks)));
  KvShape other = here;
  other.kv_heads = 8;
  EXPECT_FALSE(CanHandOver(here, other));
  other = RankShape(4, 1);
  other.block_size = 8;
  EXPECT_FALSE(CanHandOver(here, other));
}

TEST(KvShapeTest, RefusesRanksAmongWhichHeadsDoNotDivide) {
  const KvShape here = RankShape(4, 2);
  for (const int32_t ranks : {-4, 0, 3, 6, 128, 1 << 30}) {
    EXPECT_FALSE(CanHandOver(here, RankShape(4, ranks))) << ranks;
    EXPECT_FALSE(CanHandOver(RankShape(4, ranks), here)) << ranks;
  }
}

TEST(BlockLayoutTest, EveryHeadArrivesOnEveryRankThatHoldsIt) {
  uint32_t salt = 0;
  for (const int32_t heads : {1, 2, 4, 8}) {
    for (const int32_t from_ranks : {1, 2, 4, 8}) {
      for (const int32_t to_ranks : {1, 2, 4, 8}) {
        const KvShape from = RankShape(heads, from_ranks);
        const KvShape to = RankShape(heads, to_ranks);
        RankBlock source(from), target(to);
        source.Fill(++salt);
        ASSERT_GT(target.Wrong(salt), 0);
        const ConstByteParts sent = InOrderOf(to, from, source.ranks());
        size_t bytes = 0;
        for (const auto& part : sent) bytes += part.size();
        ASSERT_EQ(bytes, SizeOf(target.ranks()));
        CopyParts(sent, target.ranks());
        EXPECT_EQ(target.Wrong(salt), 0)
            << heads << " heads, " << from_ranks << " to " << to_ranks << " ranks";
      }
    }
  }
}

TEST(BlockLayoutTest, EqualLayoutsAreSentAsTheyLie) {
  const KvShape shape = RankShape(4, 2);
  RankBlock block(shape);
  const ConstByteParts sent = InOrderOf(shape, shape, block.ranks());
  ASSERT_EQ(sent.size(), 2u);
  for (size_t rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(sent[rank].data(), block.ranks()[rank].data());
    EXPECT_EQ(sent[rank].size(), block.ranks()[rank].size());
  }
}

TEST(BlockLayoutTest, NeighbouringHeadsAreOnePart) {
  RankBlock block(RankShape(4, 1));
  // Two of four heads, three layers, K and V, two ranks.
  EXPECT_EQ(InOrderOf(RankShape(4, 2), RankShape(4, 1), block.ranks()).size(), 2u * 3 * 2);
}

TEST(BlockLayoutTest, SubrangesCrossParts) {
  std::vector<std::byte> a(3), b(5), c(4);
  const ByteParts parts = {std::span(a), std::span(b), std::span(c)};
  EXPECT_EQ(SizeOf(parts), 12u);
  const ByteParts middle = Subrange(parts, 2, 7);
  ASSERT_EQ(middle.size(), 3u);
  EXPECT_EQ(middle[0].data(), a.data() + 2);
  EXPECT_EQ(middle[1].size(), 5u);
  EXPECT_EQ(middle[2].size(), 1u);
  const ByteParts end = Subrange(parts, 8, 4);
  ASSERT_EQ(end.size(), 1u);
  EXPECT_EQ(end[0].data(), c.data());
  EXPECT_TRUE(Subrange(parts, 12, 0).empty());
}

TEST(BlockLayoutTest, CopiesAcrossUnequalCuts) {
  std::vector<std::byte> source(12);
  for (size_t i = 0; i < source.size(); ++i) source[i] = static_cast<std::byte>(i + 1);
  const std::span<const std::byte> all(source);
  std::vector<std::byte> a(3), b(5), c(4);
  CopyParts({all.first(4), all.subspan(4, 1), all.subspan(5)},
            {std::span(a), std::span(b), std::span(c)});
  EXPECT_EQ(a.back(), std::byte{3});
  EXPECT_EQ(b.front(), std::byte{4});
  EXPECT_EQ(c.front(), std::byte{9});
  EXPECT_EQ(c.back(), std::byte{12});
}

TEST(ZeroUnusedTest, ZeroesThemInEveryLayerPlaneAndHead) {
  const KvShape shape = RankShape(6, 2);  // three heads on each rank
  for (const size_t element : {2u, 4u}) {
    for (int32_t used = 0; used <= shape.block_size; ++used) {
      const size_t position_bytes = static_cast<size_t>(shape.head_dim) * element;
      const size_t row = position_bytes * static_cast<size_t>(shape.block_size);
      std::vector<std::byte> block(2 * 3 * 3 * row, std::byte{0xFF});
      ZeroUnused(BlockRows::Of(shape, used), block);
      for (size_t i = 0; i < block.size(); ++i) {
        const bool in_use = i % row / position_bytes < static_cast<size_t>(used);
        ASSERT_EQ(block[i], in_use ? std::byte{0xFF} : std::byte{0}) << used << " used, byte " << i;
      }
    }
  }
}

}  // namespace
}  // namespace baton
