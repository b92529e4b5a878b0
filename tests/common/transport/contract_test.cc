// What every KvTransport owes its users. One suite, every transport.
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <random>
#include <thread>

#include "common/base/status.h"
#include "common/transport/in_process.h"
#include "tests/common/kv/rank_block.h"
#include "tests/common/transport/pair/pair_fixture.h"
#include "tests/common/transport/push_fakes.h"

namespace baton {
namespace {

class InProcessFixture final : public Fixture {
 public:
  explicit InProcessFixture(KvInboxes* inboxes) : transport_(inboxes, &clock_) {}
  KvTransport& transport() override { return transport_; }
  std::string address() override { return "here"; }

 private:
  base::SteadyClock clock_;
  InProcessTransport transport_;
};

struct TransportCase {
  std::string name;
  std::function<std::unique_ptr<Fixture>(KvInboxes*)> make;
};

class KvTransportContractTest : public testing::TestWithParam<TransportCase> {
 protected:
  KvTransportContractTest() : fixture_(GetParam().make(&inboxes_)) {}
  ~KvTransportContractTest() override { inboxes_.inbox_->Stall(false); }

  FakeInbox& inbox() { return *inboxes_.inbox_; }
  std::shared_ptr<KvPush> Open() {
    return fixture_->transport().Open(
        fixture_->address(),
        {.ticket = ticket_,
         .shape = {.dtype = "float32", .block_size = 16, .layers = 2, .kv_heads = 3, .head_dim = 8},
         .model_fingerprint = "fp",
         .numerics = "n"},
        observer_);
  }
  // `count` blocks of `bytes` random bytes.
  std::vector<KvSource> MakeBlocks(int32_t count, size_t bytes, int32_t first = 0) {
    std::vector<KvSource> blocks;
    for (int32_t i = 0; i < count; ++i) {
      auto& memory = memory_.emplace_back(std::make_unique<std::string>(bytes, '\0'));
      for (char& c : *memory) c = static_cast<char>(random_());
      blocks.push_back({first + i, {std::as_bytes(std::span(*memory))}});
    }
    return blocks;
  }
  static std::string BytesOf(const KvSource& block) {
    std::string bytes;
    for (const auto& part : block.parts) {
      bytes.append(reinterpret_cast<const char*>(part.data()), part.size());
    }
    return bytes;
  }

  const Ticket ticket_ = Ticket::Draw(7);
  FakeInboxes inboxes_;
  std::shared_ptr<Observer> observer_ = std::make_shared<Observer>();
  std::vector<std::unique_ptr<std::string>> memory_;
  std::minstd_rand random_{42};
  std::unique_ptr<Fixture> fixture_;
};

TEST_P(KvTransportContractTest, BlocksArriveWholeAndTheCommitIsAnswered) {
  auto push = Open();
  // Blocks below, at and above the size of a piece.
  auto blocks = MakeBlocks(3, 1000);
  const auto large = MakeBlocks(2, 2 * kMaxPieceBytes + 17, 3);
  const auto exact = MakeBlocks(1, kMaxPieceBytes, 5);
  push->Send(blocks);
  push->Send(large);
  push->Send(exact);
  blocks.insert(blocks.end(), large.begin(), large.end());
  blocks.insert(blocks.end(), exact.begin(), exact.end());
  SampledToken token{.token = 17, .logprob = -0.5f, .top_logprobs = {{17, -0.5f}, {3, -1.5f}}};
  token.eos = {.eos_logprob = -2,
               .eos_prob_sampling = 0.25f,
               .eos_rank = 3,
               .entropy = 1.5f,
               .top1_prob = 0.6f};
  push->Commit({.block_count = 6,
                .byte_count = 99,
                .first_index = 4,
                .first_token = token,
                .unix_time = 12.5,
                .probe_digest = 0xfedcba9876543210});
  const absl::Status status = observer_->Wait();
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_TRUE(SameTicket(inboxes_.hello_.ticket, ticket_));
  EXPECT_EQ(inboxes_.hello_.shape.kv_heads, 3);
  EXPECT_EQ(inboxes_.hello_.model_fingerprint, "fp");
  ASSERT_EQ(inbox().blocks_.size(), 6u);
  for (const KvSource& block : blocks) EXPECT_EQ(inbox().blocks_[block.ordinal], BytesOf(block));
  ASSERT_TRUE(inbox().commitment_);
  const PushCommitment& seen = *inbox().commitment_;
  EXPECT_EQ(seen.block_count, 6);
  EXPECT_EQ(seen.byte_count, 99);
  EXPECT_EQ(seen.first_index, 4);
  EXPECT_EQ(seen.unix_time, 12.5);
  EXPECT_EQ(seen.probe_digest, 0xfedcba9876543210);
  EXPECT_EQ(seen.first_token.token, 17);
  EXPECT_EQ(seen.first_token.top_logprobs.size(), 2u);
  EXPECT_EQ(seen.first_token.eos.eos_prob_sampling, 0.25f);
  EXPECT_EQ(seen.first_token.eos.eos_rank, 3);
  EXPECT_TRUE(inbox().WaitFor([&] { return inbox().closed_; }));
}

TEST_P(KvTransportContractTest, AnEmptyPushCommits) {
  auto push = Open();
  push->Commit({.block_count = 0, .first_token = {.token = 1}});
  EXPECT_TRUE(observer_->Wait().ok());
}

TEST_P(KvTransportContractTest, ABlockOfManyPartsArrivesInTheirOrder) {
  auto push = Open();
  // Below and above the size of a piece, so that pieces begin and end inside of parts.
  KvSource block{.ordinal = 0};
  for (const size_t bytes :
       {size_t{5}, kMaxPieceBytes - 1, size_t{1}, size_t{70'000}, 2 * kMaxPieceBytes, size_t{3}}) {
    const auto made = MakeBlocks(1, bytes);
    block.parts.push_back(made[0].parts[0]);
  }
  const auto next = MakeBlocks(1, 100, 1);
  push->Send({block});
  push->Send(next);
  push->Commit({.block_count = 2, .first_token = {.token = 1}});
  ASSERT_TRUE(observer_->Wait().ok());
  EXPECT_EQ(inbox().blocks_[0], BytesOf(block));
  EXPECT_EQ(inbox().blocks_[1], BytesOf(next[0]));
}

// Heads change their rank on the way: what comes is the receiver's own layout, and fills one rank
// after the other.
TEST_P(KvTransportContractTest, BlocksReachWorkersOfOtherTensorParallelSizes) {
  auto push = Open();
  struct Pair {
    KvShape from, to;
    RankBlock source{from}, target{to};
  };
  std::vector<Pair> pairs;
  for (const int32_t heads : {2, 4}) {
    for (const auto& [from, to] :
         {std::pair(1, 2), std::pair(2, 1), std::pair(2, 2), std::pair(2, 4)}) {
      pairs.push_back({RankShape(heads, from), RankShape(heads, to)});
    }
  }
  for (size_t i = 0; i < pairs.size(); ++i) {
    Pair& pair = pairs[i];
    pair.source.Fill(static_cast<uint32_t>(i));
    inbox().ranks_[static_cast<int32_t>(i)] = pair.target.ranks();
    push->Send({{static_cast<int32_t>(i), InOrderOf(pair.to, pair.from, pair.source.ranks())}});
  }
  push->Commit({.block_count = static_cast<int32_t>(pairs.size()), .first_token = {.token = 1}});
  ASSERT_TRUE(observer_->Wait().ok());
  for (size_t i = 0; i < pairs.size(); ++i) {
    ASSERT_EQ(inbox().blocks_[static_cast<int32_t>(i)].size(), SizeOf(pairs[i].target.ranks()));
    EXPECT_EQ(pairs[i].target.Wrong(static_cast<uint32_t>(i)), 0)
        << pairs[i].from.Describe() << " to " << pairs[i].to.Describe();
  }
}

TEST_P(KvTransportContractTest, RefusalAtOpenArrivesWithItsReason) {
  inboxes_.refusal_ =
      MakeError(absl::StatusCode::kNotFound, {.reason = Reason::kUnknownTicket}, "no such ticket");
  auto push = Open();
  // Nothing more is sent: the refusal must show by itself.
  const absl::Status status = observer_->Wait();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(ReasonOf(status), Reason::kUnknownTicket);
}

TEST_P(KvTransportContractTest, ReceiverMayEndAnIdlePush) {
  auto push = Open();
  push->Send(MakeBlocks(1, 100));
  ASSERT_TRUE(inbox().WaitFor([&] { return inbox().pieces_ == 1; }));
  std::shared_ptr<KvPushReply> reply = inbox().reply_;
  reply->Answer(MakeError(absl::StatusCode::kAborted, {.reason = Reason::kRevoked}, "revoked"));
  EXPECT_EQ(ReasonOf(observer_->Wait()), Reason::kRevoked);
  // Calls after the end have no effect.
  push->Send(MakeBlocks(1, 100, 1));
  push->Progress(1);
  push->Commit({});
  push->Cancel();
  reply->Answer(1);
}

TEST_P(KvTransportContractTest, ARefusedPieceEndsThePush) {
  inbox().refuse_pieces_ = absl::DataLossError("bad piece");
  auto push = Open();
  push->Send(MakeBlocks(4, 100));
  EXPECT_EQ(observer_->Wait().code(), absl::StatusCode::kDataLoss);
}

TEST_P(KvTransportContractTest, CancelEndsBothSidesOnce) {
  auto push = Open();
  push->Send(MakeBlocks(1, 100));
  ASSERT_TRUE(inbox().WaitFor([&] { return inbox().pieces_ == 1; }));
  push->Cancel();
  push->Cancel();
  EXPECT_EQ(observer_->Wait().code(), absl::StatusCode::kCancelled);
  EXPECT_TRUE(inbox().WaitFor([&] { return inbox().closed_; }));
  EXPECT_FALSE(inbox().commitment_);
}

TEST_P(KvTransportContractTest, ProgressArrivesWhenThereIsNothingElse) {
  auto push = Open();
  push->Progress(42);
  EXPECT_TRUE(inbox().WaitFor([&] { return inbox().progress_ == 42; }));
  push->Cancel();
  EXPECT_FALSE(observer_->Wait().ok());
}

TEST_P(KvTransportContractTest, ASlowReceiverIsFeltAndTheSourceIsLeftAloneAfterTheEnd) {
  inbox().Stall(true);
  auto push = Open();
  // More than the flow-control windows and socket buffers of a connection hold.
  push->Send(MakeBlocks(48, kMaxPieceBytes));
  const auto enough = std::chrono::milliseconds(200);
  base::SteadyClock clock;
  ASSERT_TRUE(Eventually(
      [&] {
        const base::Instant since = push->waiting_since();
        return since != base::kNever && clock.Now() - since >= enough;
      },
      std::chrono::seconds(20)))
      << "the push does not feel its receiver";
  push->Cancel();
  inbox().Stall(false);
  EXPECT_EQ(observer_->Wait().code(), absl::StatusCode::kCancelled);
  // ASan and the bytes below would tell of a read after the end.
  memory_.clear();
  EXPECT_TRUE(inbox().WaitFor([&] { return inbox().closed_; }));
  EXPECT_LT(inbox().pieces_, 48);
}

TEST_P(KvTransportContractTest, AnUnansweredCommitKeepsWaiting) {
  inbox().answer_commits_ = false;
  auto push = Open();
  push->Commit({.first_token = {.token = 1}});
  ASSERT_TRUE(inbox().WaitFor([&] { return inbox().commitment_.has_value(); }));
  const base::Instant since = push->waiting_since();
  EXPECT_NE(since, base::kNever);
  // A note that comes too late is not sent: it would seem to be what the peer has to accept.
  push->Progress(1);
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_EQ(push->waiting_since(), since);
  EXPECT_FALSE(observer_->over());
  std::shared_ptr<KvPushReply> reply = inbox().reply_;
  reply->Answer(0);
  EXPECT_TRUE(observer_->Wait().ok());
}

std::unique_ptr<Fixture> Warm(KvInboxes* inboxes, const PairFixtureOptions& options) {
  auto fixture = std::make_unique<PairFixture>(inboxes, options);
  EXPECT_TRUE(fixture->Warm());
  return fixture;
}
std::unique_ptr<Fixture> WarmPair(KvInboxes* inboxes) { return Warm(inboxes, {}); }
std::unique_ptr<Fixture> WarmPairOfRanks(KvInboxes* inboxes) {
  PairFixtureOptions options;
  options.shape.tensor_parallel = 3;
  return Warm(inboxes, options);
}
std::unique_ptr<Fixture> WarmIpcPair(KvInboxes* inboxes) {
  PairFixtureOptions options;
  options.ipc = true;
  return Warm(inboxes, options);
}

INSTANTIATE_TEST_SUITE_P(
    Transports, KvTransportContractTest,
    testing::Values(TransportCase{"InProcess",
                                  [](KvInboxes* inboxes) -> std::unique_ptr<Fixture> {
                                    return std::make_unique<InProcessFixture>(inboxes);
                                  }},
                    TransportCase{"GrpcStream",
                                  [](KvInboxes* inboxes) -> std::unique_ptr<Fixture> {
                                    return std::make_unique<GrpcFixture>(inboxes);
                                  }},
                    TransportCase{"Nccl", WarmPair}, TransportCase{"NcclRanks", WarmPairOfRanks},
                    TransportCase{"CudaIpc", WarmIpcPair}),
    [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace baton
