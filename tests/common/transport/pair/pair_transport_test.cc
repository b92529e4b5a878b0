// The transport by pairs end to end in one process, over the fake library: what goes through the
// pair, what does not, and what becomes of a push when its pair fails.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <thread>

#include "common/base/status.h"
#include "tests/common/transport/pair/pair_fixture.h"
#include "tests/fakes/stuck_file.h"

namespace baton {
namespace {

class PairTransportTest : public testing::Test {
 protected:
  std::shared_ptr<KvPush> Open(PairFixture* fixture, uint64_t incarnation = 7) {
    return fixture->transport().Open(fixture->address(),
                                     {.ticket = Ticket::Draw(incarnation),
                                      .shape = PairFixtureOptions().shape,
                                      .model_fingerprint = "fp"},
                                     observer_);
  }
  // A push whose opening has arrived: what overtakes it goes by messages.
  void AwaitOpening(KvPush* push) {
    push->Progress(0);
    EXPECT_TRUE(inboxes_.inbox_->WaitFor(
        [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return inboxes_.inbox_->progress_ == 0; }));
  }
  std::vector<KvSource> MakeBlocks(int32_t count, size_t bytes) {
    std::vector<KvSource> blocks;
    for (int32_t i = 0; i < count; ++i) {
      auto& memory = memory_.emplace_back(std::make_unique<std::string>(bytes, '\0'));
      for (char& c : *memory) c = static_cast<char>(random_());
      blocks.push_back({i, {std::as_bytes(std::span(*memory))}});
    }
    return blocks;
  }
  void ExpectArrived(const std::vector<KvSource>& blocks) {
    for (const KvSource& block : blocks) {
      const std::string& got = inboxes_.inbox_->blocks_[block.ordinal];
      const auto* data = reinterpret_cast<const char*>(block.parts[0].data());
      EXPECT_EQ(got, std::string(data, block.size())) << block.ordinal;
    }
  }

  FakeInboxes inboxes_;
  std::shared_ptr<Observer> observer_ = std::make_shared<Observer>();
  std::vector<std::unique_ptr<std::string>> memory_;
  std::minstd_rand random_{42};
};

TEST_F(PairTransportTest, BlocksOfAWarmPairDoNotTravelAsMessages) {
  PairFixture fixture(&inboxes_, {});
  ASSERT_TRUE(fixture.Warm());
  auto push = Open(&fixture);
  AwaitOpening(push.get());
  const auto blocks = MakeBlocks(20, 200'000);
  push->Send(blocks);
  push->Commit({.block_count = 20, .first_token = {.token = 1}});
  ASSERT_TRUE(observer_->Wait().ok());
  ExpectArrived(blocks);
  EXPECT_EQ(fixture.sender_probe.of(PushWay::kNccl), 1);
  EXPECT_GE(fixture.receiver_probe.bytes, 20 * 200'000);
  EXPECT_EQ(fixture.sender_probe.of(PairEvent::kBuilt), 1);
  EXPECT_EQ(fixture.receiver_probe.of(PairEvent::kBuilt), 1);
}

TEST_F(PairTransportTest, UntilThePairIsWarmPushesGoByMessages) {
  PairFixture fixture(&inboxes_, {});
  auto push = Open(&fixture);
  const auto blocks = MakeBlocks(3, 5000);
  push->Send(blocks);
  push->Commit({.block_count = 3, .first_token = {.token = 1}});
  ASSERT_TRUE(observer_->Wait().ok());
  ExpectArrived(blocks);
  EXPECT_EQ(fixture.sender_probe.of(PushWay::kGrpc), 1);
  EXPECT_EQ(fixture.receiver_probe.bytes, 0);
}

TEST_F(PairTransportTest, ATicketOfAnotherProcessDoesNotUseThePair) {
  PairFixture fixture(&inboxes_, {});
  ASSERT_TRUE(fixture.Warm());
  auto push = Open(&fixture, /*incarnation=*/8);
  push->Commit({.first_token = {.token = 1}});
  EXPECT_TRUE(observer_->Wait().ok());
  EXPECT_EQ(fixture.sender_probe.of(PushWay::kNccl), 0);
}

TEST_F(PairTransportTest, ManyPushesShareThePair) {
  PairFixture fixture(&inboxes_, {});
  ASSERT_TRUE(fixture.Warm());
  struct One {
    FakeInboxes inboxes;
    std::shared_ptr<Observer> observer = std::make_shared<Observer>();
  };
  // All into one inbox would mix them up: each in turn, the pair stays.
  for (int i = 0; i < 20; ++i) {
    inboxes_.inbox_ = std::make_shared<FakeInbox>();
    observer_ = std::make_shared<Observer>();
    auto push = Open(&fixture);
    const auto blocks = MakeBlocks(4, 30'000 + 100 * static_cast<size_t>(i));
    push->Send(blocks);
    push->Commit({.block_count = 4, .first_token = {.token = 1}});
    ASSERT_TRUE(observer_->Wait().ok()) << i;
    ExpectArrived(blocks);
  }
  EXPECT_EQ(fixture.sender_probe.of(PushWay::kNccl), 20);
  EXPECT_EQ(fixture.sender_probe.of(PairEvent::kAborted), 0);
}

TEST_F(PairTransportTest, AnotherModelIsRefusedAndPushesGoByMessages) {
  PairFixtureOptions options;
  options.sender_fingerprint = "other";
  PairFixture fixture(&inboxes_, options);
  fixture.pairs().Warm(fixture.address(), 7);
  ASSERT_TRUE(Eventually([&] { return fixture.sender_probe.of(PairEvent::kRefused) == 1; },
                         std::chrono::seconds(20)));
  auto push = Open(&fixture);
  push->Commit({.first_token = {.token = 1}});
  EXPECT_TRUE(observer_->Wait().ok());
  // Asking again soon dials nobody.
  fixture.pairs().Warm(fixture.address(), 7);
  EXPECT_EQ(fixture.sender_probe.of(PairEvent::kRefused), 1);
}

TEST_F(PairTransportTest, AReceiverThatComparesChecksumsHasNoPairWithASenderOfNone) {
  for (const bool receiver_compares : {true, false}) {
    PairFixtureOptions options;
    options.sender_checksum = false;
    options.receiver_checksum = receiver_compares;
    PairFixture fixture(&inboxes_, options);
    fixture.pairs().Warm(fixture.address(), 7);
    const PairEvent expected = receiver_compares ? PairEvent::kRefused : PairEvent::kBuilt;
    EXPECT_TRUE(Eventually([&] { return fixture.sender_probe.of(expected) == 1; },
                           std::chrono::seconds(20)));
  }
}

TEST_F(PairTransportTest, BothSidesCountAPairThatItsSenderLeaves) {
  PairFixture fixture(&inboxes_, {});
  ASSERT_TRUE(fixture.Warm());
  EXPECT_EQ(fixture.receiver_probe.of(PairEvent::kClosed), 0);
  fixture.EndSender();
  EXPECT_TRUE(Eventually([&] { return fixture.receiver_probe.of(PairEvent::kClosed) == 1; },
                         std::chrono::seconds(20)));
}

TEST_F(PairTransportTest, ASenderOfMoreRanksHasAPairWithOneDevice) {
  PairFixtureOptions options;
  options.sender_ranks = 3;
  PairFixture fixture(&inboxes_, options);
  EXPECT_TRUE(fixture.Warm());
}

TEST_F(PairTransportTest, BlocksReachEveryRankOfAReceiverThroughThePair) {
  constexpr size_t kRanks = 3;
  PairFixtureOptions options;
  options.shape.tensor_parallel = kRanks;
  PairFixture fixture(&inboxes_, options);
  ASSERT_TRUE(fixture.Warm());
  // Some fill a part of a parcel, some more than one: parcels end inside of ranks.
  std::map<int32_t, std::vector<std::string>> ranks;
  const auto small = MakeBlocks(3, kRanks * 5001);
  auto blocks = MakeBlocks(6, kRanks * 700'001);
  std::copy(small.begin(), small.end(), blocks.begin());
  for (const KvSource& block : blocks) {
    auto& places = ranks[block.ordinal];
    places.assign(kRanks, std::string(block.size() / kRanks, '\0'));
    for (std::string& place : places) {
      inboxes_.inbox_->ranks_[block.ordinal].push_back(std::as_writable_bytes(std::span(place)));
    }
  }
  auto push = fixture.transport().Open(
      fixture.address(),
      {.ticket = Ticket::Draw(7), .shape = options.shape, .model_fingerprint = "fp"}, observer_);
  AwaitOpening(push.get());
  push->Send(blocks);
  push->Commit({.block_count = 6, .first_token = {.token = 1}});
  ASSERT_TRUE(observer_->Wait().ok());
  for (const KvSource& block : blocks) {
    std::string got;
    for (const std::string& place : ranks[block.ordinal]) got += place;
    const auto* data = reinterpret_cast<const char*>(block.parts[0].data());
    EXPECT_TRUE(got == std::string(data, block.size())) << block.ordinal;
  }
  EXPECT_GE(fixture.receiver_probe.bytes, 3 * 2'100'003);
  EXPECT_EQ(fixture.sender_probe.of(PairEvent::kAborted), 0);
}

TEST_F(PairTransportTest, AReceiverThatDiscardsGetsTheBlocksByMessages) {
  PairFixture fixture(&inboxes_, {});
  ASSERT_TRUE(fixture.Warm());
  // The first write is refused, the others are not.
  inboxes_.inbox_->refuse_once_ = absl::AbortedError("not now");
  auto push = Open(&fixture);
  const auto blocks = MakeBlocks(30, 200'000);
  push->Send(blocks);
  push->Commit({.block_count = 30, .first_token = {.token = 1}});
  const absl::Status status = observer_->Wait();
  ASSERT_TRUE(status.ok()) << status;
  ExpectArrived(blocks);
  EXPECT_GE(fixture.sender_probe.of(PairEvent::kDiscarded), 1);
  EXPECT_EQ(fixture.sender_probe.of(PairEvent::kAborted), 0);
}

TEST_F(PairTransportTest, ThePairGoesWithItsReceiver) {
  auto fixture = std::make_unique<PairFixture>(&inboxes_, PairFixtureOptions());
  ASSERT_TRUE(fixture->Warm());
  fixture->server().Shutdown(std::chrono::milliseconds(0));
  EXPECT_TRUE(
      Eventually([&] { return fixture->pairs().warm().empty(); }, std::chrono::seconds(20)));
  auto push = Open(fixture.get());
  EXPECT_FALSE(observer_->Wait().ok());
}

// Makes everybody who asks for the time wait, so that what goes on is seldom between two ticks.
class SlowClock final : public base::Clock {
 public:
  base::Instant Now() const override {
    if (slow) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    return clock_.Now();
  }
  double UnixNow() const override { return clock_.UnixNow(); }
  std::atomic<bool> slow{false};

 private:
  base::SteadyClock clock_;
};

TEST_F(PairTransportTest, BothSidesMayEndInTheMiddleOfATick) {
  for (int round = 0; round < 6; ++round) {
    SlowClock clock;
    PairFixtureOptions options;
    options.clock = &clock;
    PairFixture fixture(&inboxes_, options);
    ASSERT_TRUE(fixture.Warm());
    clock.slow = true;
    // Ticks come every 50 ms and take longer than that now.
    std::this_thread::sleep_for(std::chrono::milliseconds(60 + 7 * round));
  }
}

// The lock of the pairs is that of pushes, which must go on while a control stream is opened.
TEST_F(PairTransportTest, PushesGoOnWhileAControlStreamIsBeingOpened) {
  StuckFile certificate;
  PairFixtureOptions options;
  options.control_tls = {.cert_file = certificate.path(), .key_file = "-", .ca_file = "-"};
  PairFixture fixture(&inboxes_, options);
  fixture.pairs().Warm(fixture.address(), options.incarnation);
  ASSERT_TRUE(certificate.WaitForReader());
  auto push = Open(&fixture);
  const auto blocks = MakeBlocks(2, 1000);
  push->Send(blocks);
  push->Commit({.block_count = 2, .first_token = {.token = 1}});
  EXPECT_TRUE(observer_->Wait().ok());
  ExpectArrived(blocks);
  certificate.Release();
}

}  // namespace
}  // namespace baton
