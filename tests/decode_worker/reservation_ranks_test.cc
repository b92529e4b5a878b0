// The receiving half of a handoff on a worker of several ranks.
#include <gtest/gtest.h>

#include <memory>

#include "common/base/crc32c.h"
#include "decode_worker/reservation.h"
#include "tests/common/kv/rank_block.h"

namespace baton {
namespace {

constexpr int32_t kOrdinal = 5;

class ReservationRanksTest : public testing::Test {
 protected:
  ReservationRanksTest() {
    LeasedBlock leased{.ordinal = kOrdinal, .bytes = block_.ranks()[0]};
    for (size_t rank = 1; rank < block_.ranks().size(); ++rank) {
      leased.peers.push_back(block_.ranks()[rank]);
    }
    reservation_ = std::make_unique<Reservation>(
        std::vector<LeasedBlock>{leased}, 0, 10, &clock_,
        Reservation::Hooks{.committed = [this](const PushCommitment&) { committed_ = true; },
                           .refused = [](const absl::Status&) {}});
  }
  absl::Status Write(size_t offset, std::span<const std::byte> bytes) {
    return reservation_->Write({.ordinal = kOrdinal,
                                .offset = static_cast<int64_t>(offset),
                                .parts = {bytes},
                                .crc32c = base::Crc32c(bytes)});
  }

  const KvShape shape_ = RankShape(4, 4);
  RankBlock block_{shape_};
  base::SteadyClock clock_;
  bool committed_ = false;
  std::unique_ptr<Reservation> reservation_;
};

TEST_F(ReservationRanksTest, PiecesFillOneRankAfterTheOther) {
  RankBlock sent(shape_);
  sent.Fill(1);
  std::vector<std::byte> wire(SizeOf(sent.ranks()));
  ConstByteParts parts = InOrderOf(shape_, shape_, sent.ranks());
  CopyParts(parts, {std::span(wire)});
  // Pieces that end inside of ranks, and one that spans more than a rank.
  const size_t rank_bytes = wire.size() / 4;
  size_t offset = 0;
  for (const size_t size : {rank_bytes / 3, rank_bytes, 2 * rank_bytes}) {
    ASSERT_TRUE(Write(offset, std::span(wire).subspan(offset, size)).ok());
    offset += size;
  }
  reservation_->Commit({.block_count = 1, .byte_count = static_cast<int64_t>(offset)});
  EXPECT_FALSE(committed_) << "a part of the last rank is missing";
  ASSERT_TRUE(Write(offset, std::span(wire).subspan(offset)).ok());
  EXPECT_EQ(block_.Wrong(1), 0);
  reservation_->Commit({.block_count = 1, .byte_count = static_cast<int64_t>(wire.size())});
  EXPECT_TRUE(committed_);
}

TEST_F(ReservationRanksTest, NothingIsWrittenBeyondTheLastRank) {
  std::vector<std::byte> wire(SizeOf(block_.ranks()) + 1);
  EXPECT_EQ(Write(0, wire).code(), absl::StatusCode::kInvalidArgument);
  const auto all = std::span(wire).first(wire.size() - 1);
  ASSERT_TRUE(Write(0, all).ok());
  EXPECT_EQ(Write(all.size(), std::span(wire).last(1)).code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace baton
