// The device's thread against the fake library, and by mapped memory: two devices of one process.
#include "common/transport/pair/pair_device.h"

#include <gtest/gtest.h>

#include "common/transport/pair/ipc_communicator.h"
#include "common/transport/pair/nccl_communicator.h"
#include "common/transport/pair/pair_parcel.h"
#include "tests/common/transport/pair/device_events.h"
#include "tests/fakes/fake_nccl/fake_nccl_access.h"

namespace baton {
namespace {

constexpr int64_t kParcelBufferBytes = kParcelHeaderBytes + 4096;

class Inbox final : public KvInbox {
 public:
  absl::Status Write(const KvPiece&) override { return absl::InternalError("not here"); }
  absl::StatusOr<ByteParts> BeginWrite(int32_t, int64_t offset, int64_t size) override {
    ++writing;
    return ByteParts{std::as_writable_bytes(std::span(block))
                         .subspan(static_cast<size_t>(offset), static_cast<size_t>(size))};
  }
  void EndWrite(int32_t, int64_t, const absl::Status& status) override {
    --writing;
    written = status;
  }
  void Progress(int32_t) override {}
  void Commit(PushCommitment) override {}
  void Closed() override {}

  std::string block = std::string(1000, '.');
  int writing = 0;
  absl::Status written;
};

// A device and the events it told.
class Side final {
 public:
  explicit Side(bool ipc, std::shared_ptr<KvInbox> inbox = nullptr, bool checksum = true) {
    auto memory = *MakeHostPairMemory(2, kParcelBufferBytes);
    auto communicators = MakeWay(ipc, memory.get());
    device_ = *PairDevice::Start(
        {.memory = std::move(memory),
         .communicators = std::move(communicators),
         .checksum = checksum,
         .find_inbox = [inbox](const Ticket&) { return inbox; },
         .on_event = [this](DeviceEvent event) { events_.Add(std::move(event)); }});
  }
  static std::unique_ptr<Communicators> MakeWay(bool ipc, PairMemory* memory) {
    if (ipc) return MakeIpcCommunicators(memory);
    auto library = NcclLibrary::Load(FakeNcclPath(), "--kv-transport grpc");
    EXPECT_TRUE(library.ok()) << library.status();
    return MakeNcclCommunicators(*library);
  }
  void Post(DeviceCommand command) { device_->Post(std::move(command)); }
  template <typename Event>
  Event Next() {
    return events_.Next<Event>();
  }

 private:
  DeviceEvents events_;
  std::unique_ptr<PairDevice> device_;
};

std::string Join(Side* receiver, Side* sender, uint64_t epoch = 1) {
  receiver->Post(MakeUniqueId{1, epoch});
  const auto made = receiver->Next<UniqueIdMade>();
  EXPECT_TRUE(made.status.ok()) << made.status;
  receiver->Post(Connect{1, epoch, made.unique_id, 0});
  sender->Post(Connect{1, epoch, made.unique_id, 1});
  EXPECT_TRUE(receiver->Next<Connected>().status.ok());
  EXPECT_TRUE(sender->Next<Connected>().status.ok());
  return made.unique_id;
}

ParcelPlan PlanOf(uint64_t number, std::vector<ParcelPart> parts) {
  ParcelPlan plan{.number = number, .ticket = Ticket::Draw(1), .parts = std::move(parts)};
  plan.bytes = PartOffsets(plan.parts).back();
  return plan;
}

class PairDeviceTest : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Ways, PairDeviceTest, testing::Bool(),
                         [](const auto& test) { return test.param ? "CudaIpc" : "Nccl"; });

TEST_P(PairDeviceTest, AParcelArrivesInItsBlocks) {
  auto inbox = std::make_shared<Inbox>();
  Side receiver(GetParam(), inbox), sender(GetParam());
  Join(&receiver, &sender);
  const std::string bytes = "some bytes of a block";
  const auto size = static_cast<int64_t>(bytes.size());
  const ParcelPlan plan = PlanOf(0, {{2, 10, size}, {3, 500, 1}});
  const ParcelKey key{1, 1, 0};
  receiver.Post(ReceiveParcel{key, 0, plan.bytes});
  EXPECT_TRUE(receiver.Next<ReceivePosted>().status.ok());
  const auto source = std::as_bytes(std::span(bytes));
  sender.Post(
      SendParcel{key,
                 1,
                 plan,
                 {{2, 10, {source.first(4), source.subspan(4)}}, {3, 500, {source.first(1)}}},
                 false});
  sender.Next<ParcelGathered>();
  EXPECT_TRUE(sender.Next<ParcelSent>().status.ok());
  EXPECT_TRUE(receiver.Next<ParcelReceived>().status.ok());
  receiver.Post(DeliverParcel{key, 0, plan});
  EXPECT_EQ(receiver.Next<ParcelDelivered>().outcome, ParcelOutcome::kWritten);
  EXPECT_EQ(inbox->block.substr(10, bytes.size()), bytes);
  EXPECT_EQ(inbox->block[500], bytes[0]);
  EXPECT_EQ(inbox->writing, 0);
  EXPECT_TRUE(inbox->written.ok());
}

TEST_P(PairDeviceTest, AParcelThatIsNotWhatWasAnnouncedReachesNoBlock) {
  auto inbox = std::make_shared<Inbox>();
  Side receiver(GetParam(), inbox), sender(GetParam());
  Join(&receiver, &sender);
  const std::string bytes(16, 'x');
  const ParcelPlan plan = PlanOf(0, {{2, 0, 16}});
  const ParcelKey key{1, 1, 0};
  receiver.Post(ReceiveParcel{key, 0, plan.bytes});
  sender.Post(SendParcel{key, 0, plan, {{2, 0, {std::as_bytes(std::span(bytes))}}}, false});
  EXPECT_TRUE(receiver.Next<ParcelReceived>().status.ok());
  ParcelPlan other = plan;
  other.parts[0].offset = 32;
  receiver.Post(DeliverParcel{key, 0, other});
  EXPECT_EQ(receiver.Next<ParcelDelivered>().outcome, ParcelOutcome::kBroken);
  EXPECT_EQ(inbox->block, std::string(1000, '.'));
}

TEST_P(PairDeviceTest, AVoidParcelCarriesNobodysBytes) {
  auto inbox = std::make_shared<Inbox>();
  Side receiver(GetParam(), inbox), sender(GetParam());
  Join(&receiver, &sender);
  const ParcelPlan plan = PlanOf(0, {{2, 0, 64}});
  const ParcelKey key{1, 1, 0};
  receiver.Post(ReceiveParcel{key, 0, plan.bytes});
  sender.Post(SendParcel{key, 0, plan, {}, true});
  EXPECT_TRUE(receiver.Next<ParcelReceived>().status.ok());
  receiver.Post(DeliverParcel{key, 0, plan});
  EXPECT_EQ(receiver.Next<ParcelDelivered>().outcome, ParcelOutcome::kVoid);
  EXPECT_EQ(inbox->block, std::string(1000, '.'));
}

TEST_P(PairDeviceTest, WhatWaitsForAPeerThatNeverComesCanBeAbortedAndBegunAgain) {
  Side receiver(GetParam(), std::make_shared<Inbox>()), sender(GetParam());
  Join(&receiver, &sender);
  receiver.Post(ReceiveParcel{{1, 1, 0}, 0, kParcelBufferBytes});
  EXPECT_TRUE(receiver.Next<ReceivePosted>().status.ok());
  receiver.Post(AbortPair{1, 1});
  EXPECT_EQ(receiver.Next<DeviceAborted>().epoch, 1u);
  sender.Post(AbortPair{1, 1});
  EXPECT_EQ(sender.Next<DeviceAborted>().epoch, 1u);
  Join(&receiver, &sender, 2);
  // An epoch without a communicator is aborted too.
  receiver.Post(AbortPair{1, 9});
  EXPECT_EQ(receiver.Next<DeviceAborted>().epoch, 9u);
}

TEST_P(PairDeviceTest, ASendToAPeerThatIsGoneFails) {
  Side sender(GetParam());
  auto receiver = std::make_unique<Side>(GetParam(), std::make_shared<Inbox>());
  Join(receiver.get(), &sender);
  receiver.reset();
  const std::string bytes(16, 'x');
  sender.Post(SendParcel{
      {1, 1, 0}, 0, PlanOf(0, {{0, 0, 16}}), {{0, 0, {std::as_bytes(std::span(bytes))}}}, false});
  EXPECT_FALSE(sender.Next<ParcelSent>().status.ok());
}

}  // namespace
}  // namespace baton
