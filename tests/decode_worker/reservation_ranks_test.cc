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

  // Writes as a transport does that writes blocks itself.
  absl::Status WriteDirectly(size_t offset, std::span<const std::byte> bytes) {
    const auto size = static_cast<int64_t>(bytes.size());
    const auto place = reservation_->BeginWrite(kOrdinal, static_cast<int64_t>(offset), size);
    if (!place.ok()) return place.status();
    CopyParts({bytes}, *place);
    reservation_->EndWrite(kOrdinal, size, absl::OkStatus());
    return absl::OkStatus();
  }
  // A block as it travels.
  std::vector<std::byte> Wire(uint32_t salt) {
    RankBlock sent(shape_);
    sent.Fill(salt);
    std::vector<std::byte> wire(SizeOf(sent.ranks()));
    CopyParts(InOrderOf(shape_, shape_, sent.ranks()), {std::span(wire)});
    return wire;
  }

  const KvShape shape_ = RankShape(4, 4);
  RankBlock block_{shape_};
  base::SteadyClock clock_;
  bool committed_ = false;
  std::unique_ptr<Reservation> reservation_;
};

TEST_F(ReservationRanksTest, PiecesFillOneRankAfterTheOther) {
  const std::vector<std::byte> wire = Wire(1);
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

TEST_F(ReservationRanksTest, ATransportWritesTheRanksItselfAndAsFarAsItCame) {
  const std::vector<std::byte> wire = Wire(2);
  const size_t rank_bytes = wire.size() / 4;
  const auto all = std::span(wire);
  // The piece begins inside of the first rank and ends in the third.
  ASSERT_TRUE(WriteDirectly(0, all.first(rank_bytes / 3)).ok());
  const auto place = reservation_->BeginWrite(kOrdinal, static_cast<int64_t>(rank_bytes / 3),
                                              static_cast<int64_t>(2 * rank_bytes));
  ASSERT_TRUE(place.ok()) << place.status();
  ASSERT_EQ(place->size(), 3u);
  for (size_t rank = 0; rank < 3; ++rank) {
    const std::byte* const begin = block_.ranks()[rank].data();
    EXPECT_EQ((*place)[rank].data(), rank == 0 ? begin + rank_bytes / 3 : begin) << rank;
  }
  // It gives the push up there, and messages begin the block again.
  reservation_->EndWrite(kOrdinal, static_cast<int64_t>(2 * rank_bytes), absl::OkStatus());
  EXPECT_FALSE(WriteDirectly(3 * rank_bytes, all.subspan(3 * rank_bytes)).ok()) << "out of turn";
  ASSERT_TRUE(Write(0, all.first(2 * rank_bytes)).ok());
  ASSERT_TRUE(Write(2 * rank_bytes, all.subspan(2 * rank_bytes)).ok());
  EXPECT_EQ(block_.Wrong(2), 0);
  reservation_->Commit({.block_count = 1, .byte_count = static_cast<int64_t>(wire.size())});
  EXPECT_TRUE(committed_);
}

TEST_F(ReservationRanksTest, BlocksAreHeldWhileATransportWritesOneOfTheirRanks) {
  const std::vector<std::byte> wire = Wire(3);
  ASSERT_TRUE(reservation_->BeginWrite(kOrdinal, 0, static_cast<int64_t>(wire.size())).ok());
  bool idle = false;
  reservation_->Detach([&] { idle = true; });
  EXPECT_FALSE(idle);
  reservation_->EndWrite(kOrdinal, static_cast<int64_t>(wire.size()), absl::OkStatus());
  EXPECT_TRUE(idle);
  EXPECT_FALSE(WriteDirectly(0, wire).ok());
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
