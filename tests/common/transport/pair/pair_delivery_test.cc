// What becomes of a received parcel whose blocks lie on several ranks.
#include "common/transport/pair/pair_delivery.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "common/transport/pair/pair_parcel.h"
#include "kernels/block_checksum.h"

namespace baton {
namespace {

constexpr size_t kRanks = 2;
constexpr size_t kRankBytes = 100;
constexpr size_t kBlockBytes = kRanks * kRankBytes;

// Blocks of two ranks that are apart.
class RanksInbox final : public KvInbox {
 public:
  absl::Status Write(const KvPiece&) override { return absl::InternalError("not here"); }
  absl::StatusOr<ByteParts> BeginWrite(int32_t ordinal, int64_t offset, int64_t size) override {
    if (ordinal == refused) return absl::AbortedError("not now");
    ++writing;
    ByteParts places;
    for (auto& rank : ranks) {
      places.push_back(
          std::as_writable_bytes(std::span(rank)).subspan(ordinal * kRankBytes, kRankBytes));
    }
    return Subrange(places, static_cast<size_t>(offset), static_cast<size_t>(size));
  }
  void EndWrite(int32_t, int64_t, const absl::Status& status) override {
    --writing;
    written = status;
  }
  void Progress(int32_t) override {}
  void Commit(PushCommitment) override {}
  void Closed() override {}

  std::string Block(int32_t ordinal) const {
    return ranks[0].substr(ordinal * kRankBytes, kRankBytes) +
           ranks[1].substr(ordinal * kRankBytes, kRankBytes);
  }

  std::vector<std::string> ranks = std::vector<std::string>(kRanks, std::string(300, '.'));
  int32_t refused = -1;
  int writing = 0;
  absl::Status written;
};

class DeliveryTest : public testing::Test {
 protected:
  DeliveryTest() {
    for (size_t i = 0; i < block_.size(); ++i) block_[i] = static_cast<char>('a' + i % 23);
    // A block, and of another one what lies around the border of its ranks.
    plan_.parts = {{0, 0, kBlockBytes}, {2, 90, 20}};
    plan_.ticket = Ticket::Draw(1);
    plan_.bytes = PartOffsets(plan_.parts).back();
  }
  // What a sender's parcel looks like after the way; `at` is the block's byte that is wrong.
  void Receive(int64_t at = -1) {
    const std::vector<int64_t> offsets = PartOffsets(plan_.parts);
    ParcelHeader header{.epoch = 4, .plan = plan_, .has_sums = true};
    for (size_t i = 0; i < plan_.parts.size(); ++i) {
      const auto size = static_cast<size_t>(plan_.parts[i].size);
      header.sums.push_back(kernels::BlockChecksum(block_.data(), size));
      std::memcpy(memory_->buffer(1) + offsets[i], block_.data(), size);
    }
    if (at >= 0) memory_->buffer(1)[offsets[0] + at] ^= std::byte{1};
    ASSERT_TRUE(memory_->WriteHeader(1, EncodeParcelHeader(header)).ok());
  }
  ParcelDelivered DeliverIt(bool checksum = true) {
    return Deliver({.key = {1, 4, 0}, .buffer = 1, .plan = plan_}, memory_.get(), checksum,
                   [this](const Ticket&) { return inbox_; });
  }

  std::string block_ = std::string(kBlockBytes, '\0');
  ParcelPlan plan_;
  std::shared_ptr<RanksInbox> inbox_ = std::make_shared<RanksInbox>();
  std::unique_ptr<PairMemory> memory_ = *MakeHostPairMemory(2, kParcelHeaderBytes + 4096);
};

TEST_F(DeliveryTest, PartsGoToTheRanksOfTheirBlocks) {
  Receive();
  const ParcelDelivered delivered = DeliverIt();
  EXPECT_EQ(delivered.outcome, ParcelOutcome::kWritten) << delivered.why;
  EXPECT_EQ(inbox_->Block(0), block_);
  EXPECT_EQ(inbox_->Block(1), std::string(kBlockBytes, '.'));
  EXPECT_EQ(inbox_->Block(2), std::string(90, '.') + block_.substr(0, 20) + std::string(90, '.'));
  EXPECT_EQ(inbox_->writing, 0);
  EXPECT_TRUE(inbox_->written.ok());
}

TEST_F(DeliveryTest, AByteThatIsWrongOnAnyRankIsNoticed) {
  for (const int64_t at : {0, 99, 100, 199}) {
    Receive(at);
    const ParcelDelivered delivered = DeliverIt();
    EXPECT_EQ(delivered.outcome, ParcelOutcome::kBroken) << at;
    EXPECT_NE(delivered.why.find("checksum of block 0"), std::string::npos) << delivered.why;
    EXPECT_EQ(inbox_->written.code(), absl::StatusCode::kDataLoss) << at;
    EXPECT_EQ(inbox_->writing, 0);
    EXPECT_EQ(DeliverIt(/*checksum=*/false).outcome, ParcelOutcome::kWritten);
  }
}

TEST_F(DeliveryTest, WhatHasNoPlaceIsDiscardedAndEveryWriteThatBeganEnds) {
  Receive();
  inbox_->refused = 2;
  EXPECT_EQ(DeliverIt().outcome, ParcelOutcome::kDiscarded);
  EXPECT_EQ(inbox_->Block(0), std::string(kBlockBytes, '.'));
  EXPECT_EQ(inbox_->writing, 0);
  inbox_ = nullptr;
  EXPECT_EQ(DeliverIt().outcome, ParcelOutcome::kDiscarded);
}

}  // namespace
}  // namespace baton
