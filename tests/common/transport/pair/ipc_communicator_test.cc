// Two ends of cuda_ipc over host memory: what arrives, and what becomes of a peer that dies, is
// silent, is out of step or takes its buffers back.
#include "common/transport/pair/ipc_communicator.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <functional>

#include "common/transport/pair/ipc_socket.h"
#include "tests/fakes/eventually.h"

namespace baton {
namespace {

constexpr int64_t kBufferBytes = 4096;
constexpr int kBuffers = 2;

// A process: its staging buffers and what it makes of them.
struct End {
  std::unique_ptr<PairMemory> memory = *MakeHostPairMemory(kBuffers, kBufferBytes);
  std::unique_ptr<Communicators> communicators = MakeIpcCommunicators(memory.get());
  std::unique_ptr<Communicator> communicator;

  std::byte* buffer(int index) { return memory->buffer(index); }
  absl::Status Connect(const std::string& id, int rank) {
    auto made = communicators->Connect(id, rank);
    if (!made.ok()) return made.status();
    communicator = *std::move(made);
    return absl::OkStatus();
  }
  absl::Status Send(int index, size_t bytes) {
    return communicator->Send(buffer(index), bytes, nullptr);
  }
  absl::Status Receive(int index, size_t bytes) {
    return communicator->Receive(buffer(index), bytes, nullptr);
  }
  absl::StatusOr<bool> InProgress() { return communicator->InProgress(); }
};

// Polls both until neither is in progress; the first error.
absl::Status Finish(End* a, End* b) {
  absl::Status error;
  const bool over = Eventually(
      [&] {
        const auto first = a->InProgress(), second = b->InProgress();
        error = first.ok() ? second.status() : first.status();
        return !error.ok() || (!*first && !*second);
      },
      std::chrono::seconds(20));
  return over ? error : absl::DeadlineExceededError("still in progress");
}

class IpcCommunicatorTest : public testing::Test {
 protected:
  void Join() {
    const auto id = receiver_.communicators->MakeUniqueId();
    ASSERT_TRUE(id.ok()) << id.status();
    ASSERT_TRUE(receiver_.Connect(*id, 0).ok());
    ASSERT_TRUE(sender_.Connect(*id, 1).ok());
    const absl::Status joined = Finish(&receiver_, &sender_);
    ASSERT_TRUE(joined.ok()) << joined;
  }
  // A peer that says what the test makes it say, to a receiver that waits for it.
  ipc::Descriptor JoinByHand() {
    const std::string id = *receiver_.communicators->MakeUniqueId();
    EXPECT_TRUE(receiver_.Connect(id, 0).ok());
    auto peer = ipc::Dial(id);
    EXPECT_TRUE(peer.ok()) << peer.status();
    return *std::move(peer);
  }
  ipc::Frame RingOf(End* end, int64_t bytes) {
    const std::string handle = *end->memory->Export();
    ipc::Frame frame{.kind = ipc::Frame::kRing,
                     .handle_bytes = static_cast<uint32_t>(handle.size()),
                     .count = bytes};
    std::memcpy(frame.handle, handle.data(), handle.size());
    return frame;
  }

  End receiver_, sender_;
};

TEST_F(IpcCommunicatorTest, BytesArriveFromEveryBuffer) {
  Join();
  for (int round = 0; round < 10; ++round) {
    const int from = round % kBuffers, to = round / 2 % kBuffers;
    const auto bytes = static_cast<size_t>(1 + round * 400);
    std::memset(sender_.buffer(from), 'a' + round, bytes);
    std::memset(receiver_.buffer(to), '.', kBufferBytes);
    // Whoever comes first waits.
    if (round % 3 == 0) {
      ASSERT_TRUE(sender_.Send(from, bytes).ok());
      ASSERT_TRUE(receiver_.Receive(to, bytes).ok());
    } else {
      ASSERT_TRUE(receiver_.Receive(to, bytes).ok());
      ASSERT_TRUE(sender_.Send(from, bytes).ok());
    }
    const absl::Status status = Finish(&receiver_, &sender_);
    ASSERT_TRUE(status.ok()) << status;
    const std::string got(reinterpret_cast<const char*>(receiver_.buffer(to)), kBufferBytes);
    EXPECT_EQ(got, std::string(bytes, static_cast<char>('a' + round)) +
                       std::string(kBufferBytes - bytes, '.'));
  }
}

TEST_F(IpcCommunicatorTest, APeerThatNeverAnswersIsWaitedForWithoutBlocking) {
  const std::string id = *receiver_.communicators->MakeUniqueId();
  ASSERT_TRUE(receiver_.Connect(id, 0).ok());
  EXPECT_EQ(*receiver_.InProgress(), true);  // nobody dialled
  auto silent = ipc::Dial(id);
  ASSERT_TRUE(silent.ok());
  EXPECT_EQ(*receiver_.InProgress(), true);  // nothing was said
  receiver_.communicator.reset();
  EXPECT_FALSE(ipc::Read(*silent).ok());  // the other end is told
  EXPECT_FALSE(sender_.Connect(id, 1).ok());
}

TEST_F(IpcCommunicatorTest, AReceiveAndASendNoticeThatTheOtherSideDied) {
  Join();
  ASSERT_TRUE(receiver_.Receive(0, 16).ok());
  EXPECT_EQ(*receiver_.InProgress(), true);
  sender_.communicator.reset();
  EXPECT_EQ(receiver_.InProgress().status().code(), absl::StatusCode::kUnavailable);
  Join();
  ASSERT_TRUE(sender_.Send(0, 16).ok());
  receiver_.communicator.reset();
  EXPECT_EQ(sender_.InProgress().status().code(), absl::StatusCode::kUnavailable);
}

TEST_F(IpcCommunicatorTest, AnUnknownIdAndOneOfAnotherTransportAreRefused) {
  const std::string unknown(32, '0');
  EXPECT_EQ(receiver_.Connect(unknown, 0).code(), absl::StatusCode::kNotFound);
  const absl::Status nobody = sender_.Connect(unknown, 1);
  EXPECT_EQ(nobody.code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(nobody.message().find("one host"), std::string::npos) << nobody;
  for (const int rank : {0, 1}) {
    EXPECT_EQ(sender_.Connect(std::string(128, 'n'), rank).code(),
              absl::StatusCode::kInvalidArgument);
  }
}

TEST_F(IpcCommunicatorTest, IdsThatNobodyConnectedAreForgottenAfterAWhile) {
  const std::string first = *receiver_.communicators->MakeUniqueId();
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(receiver_.communicators->MakeUniqueId().ok());
  EXPECT_EQ(receiver_.Connect(first, 0).code(), absl::StatusCode::kNotFound);
  EXPECT_FALSE(sender_.Connect(first, 1).ok());  // its socket is closed
}

TEST_F(IpcCommunicatorTest, AStaleHandleEndsTheConnecting) {
  const ipc::Descriptor peer = JoinByHand();
  const ipc::Frame ring = RingOf(&sender_, kBuffers * kBufferBytes);
  sender_ = End();
  ASSERT_TRUE(*ipc::Write(peer, ring));
  EXPECT_FALSE(receiver_.InProgress().ok());
}

TEST_F(IpcCommunicatorTest, ASendOutsideOfTheRingOrOfAnotherSizeIsNotCopied) {
  const int64_t ring = kBuffers * kBufferBytes;
  struct Case {
    int64_t offset, count;
  };
  for (const Case& c : {Case{-1, 16}, Case{ring - 15, 16}, Case{INT64_MAX, 16}, Case{0, 15}}) {
    const ipc::Descriptor peer = JoinByHand();
    ASSERT_TRUE(*ipc::Write(peer, RingOf(&sender_, ring)));
    EXPECT_EQ(*receiver_.InProgress(), false);
    ASSERT_TRUE(receiver_.Receive(0, 16).ok());
    ASSERT_TRUE(
        *ipc::Write(peer, {.kind = ipc::Frame::kSend, .offset = c.offset, .count = c.count}));
    EXPECT_EQ(receiver_.InProgress().status().code(), absl::StatusCode::kDataLoss) << c.offset;
  }
}

TEST_F(IpcCommunicatorTest, APeerOutOfStepOrOfAnotherFormatIsLeft) {
  const ipc::Descriptor early = JoinByHand();
  ASSERT_TRUE(*ipc::Write(early, {.kind = ipc::Frame::kSend, .count = 16}));  // without a ring
  EXPECT_EQ(receiver_.InProgress().status().code(), absl::StatusCode::kDataLoss);
  const ipc::Descriptor odd = JoinByHand();
  ipc::Frame frame = RingOf(&sender_, kBuffers * kBufferBytes);
  frame.handle_bytes = ipc::kMaxHandleBytes + 1;
  ASSERT_TRUE(*ipc::Write(odd, frame));
  EXPECT_EQ(receiver_.InProgress().status().code(), absl::StatusCode::kDataLoss);
}

TEST_F(IpcCommunicatorTest, AnotherVersionIsRefusedWithBothNamed) {
  EXPECT_TRUE(receiver_.communicators->CheckPeer(sender_.communicators->version()).ok());
  const absl::Status other = receiver_.communicators->CheckPeer(2);
  EXPECT_EQ(other.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(other.message().find("version 2"), std::string::npos) << other;
  EXPECT_NE(other.message().find(", the decode worker 1"), std::string::npos) << other;
}

// Buffers of a sender that gives up while they are copied.
class HookedRing final : public StagingRing {
 public:
  explicit HookedRing(std::function<void()> during_copy) : during_copy_(std::move(during_copy)) {}
  std::byte* buffer(int) override { return bytes_; }
  int64_t ring_bytes() const override { return sizeof bytes_; }
  absl::StatusOr<std::string> Export() override { return std::string("ring"); }
  absl::StatusOr<std::unique_ptr<MappedRing>> Map(const std::string&, int64_t) override {
    return std::make_unique<Mapped>(this);
  }

 private:
  struct Mapped final : MappedRing {
    explicit Mapped(HookedRing* of) : ring(of) {}
    int64_t bytes() const override { return ring->ring_bytes(); }
    absl::Status CopyOut(int64_t, int64_t, std::byte*) override {
      ring->during_copy_();
      return absl::OkStatus();
    }
    HookedRing* const ring;
  };
  const std::function<void()> during_copy_;
  std::byte bytes_[64];
};

TEST(IpcCommunicatorTakeBackTest, ACopyOfABufferThatWasTakenBackIsAnError) {
  std::unique_ptr<Communicator> sender;
  HookedRing ring([&sender] { sender.reset(); });
  const auto communicators = MakeIpcCommunicators(&ring);
  const std::string id = *communicators->MakeUniqueId();
  const auto receiver = *communicators->Connect(id, 0);
  sender = *communicators->Connect(id, 1);
  EXPECT_EQ(*sender->InProgress(), false);
  EXPECT_EQ(*receiver->InProgress(), false);
  ASSERT_TRUE(sender->Send(ring.buffer(0), 8, nullptr).ok());
  const absl::Status received = receiver->Receive(ring.buffer(0), 8, nullptr);
  EXPECT_EQ(received.code(), absl::StatusCode::kUnavailable) << received;
}

}  // namespace
}  // namespace baton
