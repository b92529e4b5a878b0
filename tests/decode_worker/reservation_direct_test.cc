// What a reservation does with blocks that a transport writes directly.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "common/base/crc32c.h"
#include "decode_worker/reservation.h"
#include "tests/fakes/veiled_blocks.h"

namespace baton {
namespace {

// A reservation of two blocks of 64 bytes, without a worker.
class DirectWriteTest : public testing::Test {
 protected:
  struct Reply final : KvPushReply {
    void Answer(absl::StatusOr<int32_t> blocks) override { answer = std::move(blocks); }
    std::optional<absl::StatusOr<int32_t>> answer;
  };
  DirectWriteTest() { EXPECT_TRUE(reservation_.OpenPush(reply_)); }

  static KvPiece Piece(int32_t ordinal, int64_t offset, const std::string& data) {
    const auto bytes = std::as_bytes(std::span(data));
    return {.ordinal = ordinal, .offset = offset, .parts = {bytes}, .crc32c = base::Crc32c(bytes)};
  }
  absl::Status Direct(int32_t ordinal, int64_t offset, const std::string& data) {
    const auto size = static_cast<int64_t>(data.size());
    const auto place = reservation_.BeginWrite(ordinal, offset, size);
    if (!place.ok()) return place.status();
    CopyParts({std::as_bytes(std::span(data))}, *place);
    reservation_.EndWrite(ordinal, size, absl::OkStatus());
    return absl::OkStatus();
  }
  void Commit() {
    reservation_.Commit({.block_count = 2, .byte_count = 128, .first_token = {.token = 3}});
  }

  base::SteadyClock clock_;
  std::string memory_ = std::string(128, '.');
  std::shared_ptr<Reply> reply_ = std::make_shared<Reply>();
  VeiledBlocks veiled_;
  int committed_ = 0, refused_ = 0;
  std::span<std::byte> bytes_ = std::as_writable_bytes(std::span(memory_));
  Reservation reservation_{{{0, bytes_.first(64)}, {1, bytes_.last(64)}},
                           0,
                           100,
                           &clock_,
                           {.committed = [this](const PushCommitment&) { ++committed_; },
                            .refused = [this](const absl::Status&) { ++refused_; }},
                           &veiled_};
};

TEST_F(DirectWriteTest, ABlockThatATransportGaveUpBeginsAgainByMessages) {
  ASSERT_TRUE(Direct(0, 0, std::string(64, 'a')).ok());
  ASSERT_TRUE(Direct(1, 0, std::string(24, 'b')).ok());
  ASSERT_TRUE(reservation_.Write(Piece(1, 0, std::string(40, 'c'))).ok());
  ASSERT_TRUE(reservation_.Write(Piece(1, 40, std::string(24, 'c'))).ok());
  ASSERT_TRUE(reservation_.Write(Piece(0, 0, std::string(64, 'd'))).ok());
  // What came by messages does not begin again.
  EXPECT_FALSE(reservation_.Write(Piece(0, 0, std::string(64, 'd'))).ok());
  Commit();
  EXPECT_EQ(committed_, 1);
  // Messages reach the blocks through the access only.
  EXPECT_EQ(memory_, std::string(64, 'd' ^ 0x5a) + std::string(64, 'c' ^ 0x5a));
}

TEST_F(DirectWriteTest, ABlockDoesNotBeginAgainWhileItIsWritten) {
  ASSERT_TRUE(reservation_.BeginWrite(0, 0, 64).ok());
  EXPECT_FALSE(reservation_.Write(Piece(0, 0, std::string(64, 'd'))).ok());
  EXPECT_FALSE(reservation_.BeginWrite(0, 0, 64).ok());
  reservation_.EndWrite(0, 64, absl::OkStatus());
  EXPECT_TRUE(reservation_.Write(Piece(0, 0, std::string(64, 'd'))).ok());
}

TEST_F(DirectWriteTest, DetachWaitsForEveryWrite) {
  ASSERT_TRUE(reservation_.BeginWrite(0, 0, 64).ok());
  ASSERT_TRUE(reservation_.BeginWrite(1, 0, 64).ok());
  int idle = 0;
  reservation_.Detach([&] { ++idle; });
  EXPECT_FALSE(reservation_.BeginWrite(1, 0, 64).ok());
  reservation_.EndWrite(0, 64, absl::OkStatus());
  EXPECT_EQ(idle, 0);
  reservation_.EndWrite(1, 64, absl::OkStatus());
  EXPECT_EQ(idle, 1);
}

TEST_F(DirectWriteTest, AWriteThatWentWrongRefusesThePushOnce) {
  ASSERT_TRUE(reservation_.BeginWrite(0, 0, 64).ok());
  ASSERT_TRUE(reservation_.BeginWrite(1, 0, 64).ok());
  reservation_.EndWrite(0, 64, absl::DataLossError("wrong sum"));
  reservation_.EndWrite(1, 64, absl::DataLossError("wrong sum"));
  ASSERT_TRUE(reply_->answer);
  EXPECT_EQ(reply_->answer->status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(refused_, 1);
  Commit();
  EXPECT_EQ(committed_, 0);
}

TEST_F(DirectWriteTest, ACommitWithMoreProductsThanAProbeHasIsRefused) {
  ASSERT_TRUE(Direct(0, 0, std::string(64, 'a')).ok());
  ASSERT_TRUE(Direct(1, 0, std::string(64, 'b')).ok());
  PushCommitment commitment = {.block_count = 2, .byte_count = 128, .first_token = {.token = 3}};
  commitment.first_token.probe.resize(65);
  reservation_.Commit(commitment);
  EXPECT_EQ(committed_, 0);
  ASSERT_TRUE(reply_->answer);
  EXPECT_NE(reply_->answer->status().message().find("65 products"), std::string::npos);
}

TEST_F(DirectWriteTest, ACommitWithProductsThatAreNoNumbersIsRefused) {
  ASSERT_TRUE(Direct(0, 0, std::string(64, 'a')).ok());
  ASSERT_TRUE(Direct(1, 0, std::string(64, 'b')).ok());
  PushCommitment commitment = {.block_count = 2, .byte_count = 128, .first_token = {.token = 3}};
  commitment.first_token.probe = {1, std::nanf("")};
  reservation_.Commit(commitment);
  EXPECT_EQ(committed_, 0);
  ASSERT_TRUE(reply_->answer);
  EXPECT_NE(reply_->answer->status().message().find("not finite"), std::string::npos);
}

TEST_F(DirectWriteTest, ACommitWithTheProductsOfAProbeIsTaken) {
  ASSERT_TRUE(Direct(0, 0, std::string(64, 'a')).ok());
  ASSERT_TRUE(Direct(1, 0, std::string(64, 'b')).ok());
  PushCommitment commitment = {.block_count = 2, .byte_count = 128, .first_token = {.token = 3}};
  commitment.first_token.probe.resize(64);
  reservation_.Commit(commitment);
  EXPECT_EQ(committed_, 1);
}

TEST_F(DirectWriteTest, AnAccessThatFailsIsThePushsAnswer) {
  veiled_.fault = absl::InternalError("the device is gone");
  EXPECT_EQ(reservation_.Write(Piece(0, 0, std::string(64, 'd'))).message(), "the device is gone");
  EXPECT_EQ(refused_, 1);
}

// Beams go on with the most likely tokens that a commit carries.
TEST_F(DirectWriteTest, RefusesLikelyTokensThatAreNone) {
  ASSERT_TRUE(Direct(0, 0, std::string(64, 'a')).ok());
  ASSERT_TRUE(Direct(1, 0, std::string(64, 'b')).ok());
  const auto commit = [&](std::vector<TokenLogprob> top) {
    reply_->answer.reset();
    reservation_.Commit(
        {.block_count = 2,
         .byte_count = 128,
         .first_token = {.token = 3, .logprob = 0, .top_logprobs = std::move(top)}});
    return committed_ == 0 && reply_->answer && !reply_->answer->ok();
  };
  EXPECT_TRUE(commit({{3, -1}, {100, -2}}));
  EXPECT_TRUE(commit({{3, -1}, {-1, -2}}));
  EXPECT_TRUE(commit({{3, -1}, {3, -2}}));
  EXPECT_TRUE(commit({{3, -1}, {4, NAN}}));
  EXPECT_EQ(refused_, 1) << "one push";
  EXPECT_FALSE(commit({{3, -1}, {99, -2}}));
  EXPECT_EQ(committed_, 1);
}

}  // namespace
}  // namespace baton
