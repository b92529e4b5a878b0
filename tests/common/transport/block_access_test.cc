// Messages made of blocks that the host reaches by copies only.
#include "common/transport/block_access.h"

#include <gtest/gtest.h>

#include <future>
#include <string>
#include <thread>
#include <utility>

#include "tests/common/transport/push_fakes.h"
#include "tests/fakes/veiled_blocks.h"

namespace baton {
namespace {

// Blocks of a device that does not answer until Release.
class HeldBlocks final : public BlockAccess {
 public:
  absl::StatusOr<HostBytes> Read(ConstByteParts parts) const override {
    base::MutexLock lock(&mutex_);
    reading_ = true;
    changed_.NotifyAll();
    while (held_) changed_.Wait(&mutex_);
    return HostBlocks().Read(std::move(parts));
  }
  absl::Status Write(const ConstByteParts& from, const ByteParts& to) const override {
    return HostBlocks().Write(from, to);
  }
  absl::Status Zero(const BlockRows& rows, std::span<std::byte> block) const override {
    return HostBlocks().Zero(rows, block);
  }
  bool WaitForReader() const {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    base::MutexLock lock(&mutex_);
    while (!reading_ && changed_.WaitUntil(&mutex_, deadline)) {
    }
    return reading_;
  }
  void Release() {
    base::MutexLock lock(&mutex_);
    held_ = false;
    changed_.NotifyAll();
  }

 private:
  mutable base::Mutex mutex_;
  mutable base::CondVar changed_;
  mutable bool reading_ = false;
  bool held_ = true;
};

template <typename Blocks>
class PushFrom : public testing::Test {
 protected:
  PushFrom()
      : service_(MakeKvTransferService(&inboxes_, false)), transport_({}, &clock_, &blocks_) {
    server_ = *RpcServer::Start({}, {service_.get()});
  }
  std::shared_ptr<KvPush> Open() {
    return transport_.Open(server_->address(), {.ticket = Ticket::Draw(1)}, observer_);
  }

  base::SteadyClock clock_;
  Blocks blocks_;
  FakeInboxes inboxes_;
  std::shared_ptr<Observer> observer_ = std::make_shared<Observer>();
  std::unique_ptr<grpc::Service> service_;
  std::unique_ptr<RpcServer> server_;
  GrpcStreamTransport transport_;
};

using BlockAccessTest = PushFrom<VeiledBlocks>;
using SlowBlocksTest = PushFrom<HeldBlocks>;

TEST_F(BlockAccessTest, WhatIsSentIsWhatTheAccessReads) {
  std::string plain(2 * kMaxPieceBytes + 77, '\0'), veiled;
  for (size_t i = 0; i < plain.size(); ++i) plain[i] = static_cast<char>(i * 7 + i / 251);
  for (const char c : plain) veiled.push_back(static_cast<char>(c ^ 0x5a));
  auto push = Open();
  // The block comes in two parts, as from two ranks.
  const auto all = std::as_bytes(std::span(veiled));
  push->Send({{3, {all.first(kMaxPieceBytes - 5), all.subspan(kMaxPieceBytes - 5)}}});
  push->Commit({.block_count = 1, .first_token = {.token = 1}});
  const absl::Status status = observer_->Wait();
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(inboxes_.inbox_->blocks_[3], plain);
}

TEST_F(BlockAccessTest, ABlockThatCannotBeReadEndsThePush) {
  blocks_.fault = absl::InternalError("the device is gone");
  const std::string bytes(1000, 'x');
  auto push = Open();
  push->Send({{0, {std::as_bytes(std::span(bytes))}}});
  const absl::Status status = observer_->Wait();
  EXPECT_EQ(status.message(), "the device is gone");
  EXPECT_EQ(inboxes_.inbox_->pieces_, 0);
}

TEST_F(SlowBlocksTest, NobodyWaitsForABlockThatIsBeingRead) {
  const std::string bytes(1000, 'x');
  auto push = Open();
  std::thread sender([&] { push->Send({{0, {std::as_bytes(std::span(bytes))}}}); });
  EXPECT_TRUE(blocks_.WaitForReader());
  auto engine = std::async(std::launch::async, [&] {
    push->Progress(3);
    push->Commit({.block_count = 1, .first_token = {.token = 1}});
  });
  EXPECT_EQ(engine.wait_for(kPatience), std::future_status::ready);
  blocks_.Release();
  sender.join();
  const absl::Status status = observer_->Wait();
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(inboxes_.inbox_->blocks_[0], bytes);
}

TEST_F(SlowBlocksTest, APushThatIsCancelledEndsWhenItsBlockHasBeenRead) {
  const std::string bytes(1000, 'x');
  auto push = Open();
  std::thread sender([&] { push->Send({{0, {std::as_bytes(std::span(bytes))}}}); });
  EXPECT_TRUE(blocks_.WaitForReader());
  auto cancel = std::async(std::launch::async, [&] { push->Cancel(); });
  EXPECT_EQ(cancel.wait_for(kPatience), std::future_status::ready);
  EXPECT_FALSE(observer_->over());
  blocks_.Release();
  sender.join();
  EXPECT_EQ(observer_->Wait().code(), absl::StatusCode::kCancelled);
}

TEST(HostBlocksTest, HostMemoryIsReadInPlace) {
  const std::string bytes = "block";
  const auto span = std::as_bytes(std::span(bytes));
  const auto read = HostBlocks().Read({span});
  ASSERT_TRUE(read.ok());
  ASSERT_EQ(read->parts.size(), 1u);
  EXPECT_EQ(read->parts[0].data(), span.data());
  EXPECT_EQ(read->copy, nullptr);
}

}  // namespace
}  // namespace baton
