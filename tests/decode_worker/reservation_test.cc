// The receiving half of a handoff: what a reservation accepts, and what ends it.
#include <gtest/gtest.h>

#include "common/base/crc32c.h"
#include "common/base/status.h"
#include "tests/fakes/worker_harness.h"

namespace baton {
namespace {

constexpr int32_t kPrompt = 10;  // three blocks of four tokens
constexpr int32_t kBlocks = 3;

worker_pb::DecodeStart Start(int32_t prompt = kPrompt, int32_t max_tokens = 5) {
  return SplitStart(MakeGeneration(prompt, max_tokens));
}

// A decode worker with one granted reservation.
class ReservationTest : public testing::Test {
 protected:
  void Serve(WorkerHarness::Options options = {}) {
    worker_ = std::make_unique<WorkerHarness>(std::move(options));
    call_ = std::make_unique<DecodeCall>(*worker_, Start());
    worker_pb::DecodeResponse response;
    ASSERT_TRUE(call_->Read(&response));
    ASSERT_TRUE(response.has_reserved());
    reserved_ = response.reserved();
    ASSERT_EQ(reserved_.total_blocks(), kBlocks);
    const KvShape shape = worker_->shape();
    block_bytes_ = int64_t{2} * shape.layers * shape.kv_heads * shape.block_size * shape.head_dim *
                   (shape.dtype == "float32" ? 4 : 2);
  }
  void OpenPush(PushCall* push) { push->Open(reserved_.ticket(), worker_->shape(), "fp-a"); }
  std::string Block() const { return std::string(static_cast<size_t>(block_bytes_), 'x'); }
  // The status of a push that sends what `send` says.
  absl::Status Push(const std::function<void(PushCall*)>& send) {
    PushCall push(*worker_);
    OpenPush(&push);
    send(&push);
    return push.Finish();
  }
  absl::Status EndOfDecode() {
    call_->ReadAll();
    return call_->Finish();
  }

  std::unique_ptr<WorkerHarness> worker_;
  std::unique_ptr<DecodeCall> call_;
  worker_pb::Reserved reserved_;
  int64_t block_bytes_ = 0;
};

TEST_F(ReservationTest, AcceptsACompletePush) {
  Serve();
  const absl::Status pushed = Push([&](PushCall* push) {
    // Any order of blocks, several pieces of one.
    push->Piece(2, 0, Block());
    push->Piece(0, 0, Block().substr(0, 100));
    push->Piece(0, 100, Block().substr(100));
    push->Progress();
    push->Piece(1, 0, Block());
    push->Commit(kBlocks, kBlocks * block_bytes_, 0, 77);
  });
  ASSERT_TRUE(pushed.ok()) << pushed;
  EXPECT_TRUE(EndOfDecode().ok());
  EXPECT_EQ(call_->started->token().id(), 77);
  EXPECT_EQ(call_->tokens.size(), 5u);
  EXPECT_TRUE(worker_->Idle());
}

TEST_F(ReservationTest, RefusesSpoofedAndMalformedTickets) {
  Serve();
  worker_pb::Ticket spoofed = reserved_.ticket();
  (*spoofed.mutable_secret())[15] ^= 1;
  worker_pb::Ticket old = reserved_.ticket();
  old.set_incarnation(old.incarnation() + 1);
  worker_pb::Ticket malformed = reserved_.ticket();
  malformed.set_secret("short");
  for (const worker_pb::Ticket& ticket : {spoofed, old, malformed, worker_pb::Ticket()}) {
    PushCall push(*worker_);
    push.Open(ticket, worker_->shape(), "fp-a");
    const absl::Status status = push.Finish();
    EXPECT_EQ(status.code(), absl::StatusCode::kNotFound) << status;
    EXPECT_EQ(ReasonOf(status), Reason::kUnknownTicket);
    EXPECT_EQ(status.message().find(ticket.secret().empty() ? "?" : ticket.secret()),
              absl::string_view::npos)
        << "a secret in a message";
  }
  // The reservation is unharmed.
  EXPECT_EQ(worker_->receiver().granted(), 1u);
}

TEST_F(ReservationTest, ATicketIsGoodForOnePush) {
  Serve();
  PushCall first(*worker_);
  OpenPush(&first);
  first.Piece(0, 0, Block());
  ASSERT_TRUE(Eventually([&] {
    PushCall second(*worker_);
    OpenPush(&second);
    return ReasonOf(second.Finish()) == Reason::kUnknownTicket;
  }));
}

TEST_F(ReservationTest, RefusesAnotherLayoutOrModelWithBothSidesPrinted) {
  Serve();
  KvShape other = worker_->shape();
  other.kv_heads += 1;
  PushCall push(*worker_);
  push.Open(reserved_.ticket(), other, "fp-a");
  const absl::Status layout = push.Finish();
  EXPECT_EQ(ReasonOf(layout), Reason::kLayoutMismatch);
  for (const KvShape& side : {other, worker_->shape()}) {
    EXPECT_NE(std::string(layout.message()).find(side.Describe()), std::string::npos) << layout;
  }
  PushCall model(*worker_);
  model.Open(reserved_.ticket(), worker_->shape(), "fp-b");
  EXPECT_EQ(ReasonOf(model.Finish()), Reason::kLayoutMismatch);
}

TEST_F(ReservationTest, CountsAcceptedPushesOfOtherNumerics) {
  Serve({.numerics = "cpu/avx512"});
  const auto send = [this](const std::string& numerics, const std::string& fingerprint) {
    DecodeCall call(*worker_, Start());
    worker_pb::DecodeResponse response;
    EXPECT_TRUE(call.Read(&response));
    PushCall push(*worker_);
    push.Open(response.reserved().ticket(), worker_->shape(), fingerprint, numerics);
    // Its refusal shows that the receiver has seen the whole push.
    push.Commit(0, 0, 0, 0);
    EXPECT_FALSE(push.Finish().ok());
    call.Cancel();
  };
  send("cpu/avx512", "fp-a");
  send("", "fp-a");
  send("cpu/avx2", "fp-b");
  EXPECT_EQ(worker_->other_numerics(), 0);
  send("cpu/avx2", "fp-a");
  EXPECT_EQ(worker_->other_numerics(), 1);
}

TEST_F(ReservationTest, RefusesPiecesOutsideTheLease) {
  const std::vector<std::function<void(PushCall*)>> bad = {
      [&](PushCall* push) { push->Piece(kBlocks, 0, Block()); },
      [&](PushCall* push) { push->Piece(-1, 0, Block()); },
      [&](PushCall* push) { push->Piece(0, 8, Block().substr(8)); },
      [&](PushCall* push) { push->Piece(0, -8, Block()); },
      [&](PushCall* push) { push->Piece(0, 0, Block() + "y"); },
      [&](PushCall* push) { push->Piece(0, 0, ""); },
      [&](PushCall* push) {
        push->Piece(0, 0, Block());
        push->Piece(0, 0, Block());
      }};
  for (size_t i = 0; i < bad.size(); ++i) {
    Serve();
    EXPECT_EQ(Push(bad[i]).code(), absl::StatusCode::kInvalidArgument) << i;
    EXPECT_EQ(worker_->refused_pushes(), std::vector{Reason::kNone}) << i;
  }
}

TEST_F(ReservationTest, ABadChecksumIsDataLossAndReachesNoBlock) {
  Serve();
  EXPECT_EQ(Push([&](PushCall* push) { push->BadPiece(0, 0, Block()); }).code(),
            absl::StatusCode::kDataLoss);
  call_->Cancel();
  EXPECT_TRUE(worker_->Idle());
}

TEST_F(ReservationTest, AnIncompleteCommitIsDataLoss) {
  const std::vector<std::function<void(PushCall*)>> bad = {
      // A block is missing.
      [&](PushCall* push) {
        push->Piece(0, 0, Block());
        push->Piece(1, 0, Block());
        push->Commit(kBlocks, kBlocks * block_bytes_, 0, 77);
      },
      // A piece is missing, the counts lie.
      [&](PushCall* push) {
        push->Piece(0, 0, Block());
        push->Piece(1, 0, Block());
        push->Piece(2, 0, Block().substr(1));
        push->Commit(kBlocks, kBlocks * block_bytes_, 0, 77);
      },
      // The sender counts otherwise.
      [&](PushCall* push) {
        for (int32_t i = 0; i < kBlocks; ++i) push->Piece(i, 0, Block());
        push->Commit(kBlocks - 1, kBlocks * block_bytes_, 0, 77);
      },
      [&](PushCall* push) { push->Piece(0, 0, Block()); }};
  for (size_t i = 0; i < bad.size(); ++i) {
    Serve();
    const absl::Status status = Push(bad[i]);
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << i << ": " << status;
    call_->Cancel();
    EXPECT_TRUE(worker_->Idle()) << i;
  }
}

TEST_F(ReservationTest, RefusesAFirstTokenOfAnotherIndexOrVocabulary) {
  for (const auto& [index, token] : {std::pair{1, 77}, {0, 1000}, {0, -1}}) {
    Serve();
    const absl::Status status = Push([&, i = index, t = token](PushCall* push) {
      for (int32_t block = 0; block < kBlocks; ++block) push->Piece(block, 0, Block());
      push->Commit(kBlocks, kBlocks * block_bytes_, i, t);
    });
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  }
}

TEST_F(ReservationTest, SilenceExpiresAndProgressKeepsAlive) {
  WorkerHarness::Options options;
  // Longer than a busy machine keeps a thread waiting.
  options.timeouts.reservation_silence = std::chrono::seconds(1);
  Serve(options);
  PushCall push(*worker_);
  OpenPush(&push);
  base::SteadyClock clock;
  // Alive for twice the limit.
  const base::Instant until = clock.Now() + std::chrono::seconds(2);
  while (clock.Now() < until) ASSERT_TRUE(push.Progress());
  EXPECT_EQ(worker_->receiver().granted(), 1u);
  const absl::Status decode = EndOfDecode();
  EXPECT_EQ(decode.code(), absl::StatusCode::kAborted);
  EXPECT_EQ(ReasonOf(decode), Reason::kExpired);
  EXPECT_EQ(ReasonOf(push.Finish()), Reason::kExpired);
  EXPECT_EQ(worker_->refused_pushes(), std::vector{Reason::kExpired});
  EXPECT_TRUE(worker_->Idle());
  // The ticket is void.
  PushCall late(*worker_);
  OpenPush(&late);
  EXPECT_EQ(ReasonOf(late.Finish()), Reason::kUnknownTicket);
}

TEST_F(ReservationTest, ADecodeStreamThatEndsEndsItsPush) {
  Serve();
  PushCall push(*worker_);
  OpenPush(&push);
  ASSERT_TRUE(push.Piece(0, 0, Block()));
  // The push is open when its ticket is taken; one of these may have overtaken it.
  bool overtaken = false;
  ASSERT_TRUE(Eventually([&] {
    PushCall second(*worker_);
    OpenPush(&second);
    const bool taken = ReasonOf(second.Finish()) == Reason::kUnknownTicket;
    overtaken |= !taken;
    return taken;
  }));
  call_->Cancel();
  ASSERT_TRUE(Eventually([&] { return worker_->receiver().granted() == 0; }));
  EXPECT_EQ(push.Finish().code(),
            overtaken ? absl::StatusCode::kNotFound : absl::StatusCode::kCancelled);
  for (const Reason reason : worker_->refused_pushes()) {
    EXPECT_EQ(reason, Reason::kUnknownTicket) << "nobody waits for the other one any more";
  }
  EXPECT_TRUE(worker_->Idle());
}

TEST_F(ReservationTest, ABrokenPushLeavesTheReservationToItsStream) {
  Serve();
  {
    PushCall push(*worker_);
    OpenPush(&push);
    ASSERT_TRUE(push.Piece(0, 0, Block()));
    push.Cancel();
    EXPECT_FALSE(push.Finish().ok());
  }
  EXPECT_EQ(worker_->receiver().granted(), 1u);
  call_->Release(worker_pb::FINISH_CAUSE_STOP_STRING);
  EXPECT_TRUE(EndOfDecode().ok());
  EXPECT_EQ(call_->final->ending().cause(), worker_pb::FINISH_CAUSE_STOP_STRING);
  EXPECT_TRUE(worker_->Idle());
}

TEST_F(ReservationTest, RunningRequestsRevokeIt) {
  WorkerHarness::Options options;
  options.num_blocks = 20;
  worker_ = std::make_unique<WorkerHarness>(options);
  // A local request that will need every block, held until the reservation is granted beside it.
  worker_->control().Pause();
  worker_pb::DecodeStart local = Start(8, 70);
  local.set_local_prefill(true);
  DecodeCall running(*worker_, local);
  ASSERT_TRUE(Eventually([&] { return worker_->figures().running == 1; }));
  DecodeCall reserved(*worker_, Start(33));
  ASSERT_TRUE(Eventually([&] { return worker_->admitted() == 2; }));
  worker_->control().Resume();
  worker_pb::DecodeResponse response;
  ASSERT_TRUE(reserved.Read(&response));
  EXPECT_TRUE(response.has_reserved());
  reserved.ReadAll();
  const absl::Status status = reserved.Finish();
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted) << status;
  EXPECT_EQ(ReasonOf(status), Reason::kRevoked) << status;
  running.ReadAll();
  EXPECT_TRUE(running.Finish().ok());
  EXPECT_EQ(running.tokens.size(), 70u);
  EXPECT_TRUE(worker_->Idle());
}

TEST_F(ReservationTest, TheLineIsAgedAndBounded) {
  WorkerHarness::Options options;
  options.num_blocks = 16;
  options.engine.max_num_queued_reqs = 1;
  Serve(options);
  // Takes what is left, so that the next one has to stand in line.
  DecodeCall big(*worker_, Start(40));
  worker_pb::DecodeResponse response;
  ASSERT_TRUE(big.Read(&response));
  worker_pb::DecodeStart start = Start(40);
  start.set_reserve_timeout_ms(1000);
  DecodeCall waits(*worker_, start);
  ASSERT_TRUE(Eventually([&] { return worker_->figures().waiting == 1; }));
  DecodeCall third(*worker_, Start(40));
  third.ReadAll();
  EXPECT_EQ(ReasonOf(third.Finish()), Reason::kFull) << "the line is full";
  waits.ReadAll();
  EXPECT_EQ(ReasonOf(waits.Finish()), Reason::kFull) << "the reserve deadline is over";
}

}  // namespace
}  // namespace baton
