// What a device tells of aborts while transfers of several pairs lie on its one stream, as they do
// on that of a GPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/mutex.h"
#include "common/transport/pair/pair_device.h"
#include "common/transport/pair/pair_parcel.h"
#include "tests/common/transport/pair/device_events.h"

namespace baton {
namespace {

// Transfers that end in their order. None ends before its communicator is gone.
class HangingStream final {
 public:
  void Launch(const void* communicator) {
    base::MutexLock lock(&mutex_);
    transfers_.push_back(communicator);
  }
  void EndAllOf(const void* communicator) {
    base::MutexLock lock(&mutex_);
    std::ranges::replace(transfers_, communicator, nullptr);
  }
  void Mark(int number) {
    base::MutexLock lock(&mutex_);
    marks_[number] = transfers_.size();
  }
  bool Reached(int number) {
    base::MutexLock lock(&mutex_);
    return std::all_of(transfers_.begin(),
                       transfers_.begin() + static_cast<ptrdiff_t>(marks_[number]),
                       [](const void* communicator) { return communicator == nullptr; });
  }

 private:
  base::Mutex mutex_;
  std::vector<const void*> transfers_ ABSL_GUARDED_BY(mutex_);  // null when it is over
  std::map<int, size_t> marks_ ABSL_GUARDED_BY(mutex_);
};

// Two small buffers beside the stream.
class MemoryWithStream final : public PairMemory {
 public:
  explicit MemoryWithStream(HangingStream* stream) : stream_(stream) {}

  std::byte* buffer(int index) override { return buffers_[index].data(); }
  int64_t ring_bytes() const override { return 2 * kParcelHeaderBytes; }
  absl::StatusOr<std::string> Export() override { return absl::UnimplementedError("no handle"); }
  absl::StatusOr<std::unique_ptr<MappedRing>> Map(const std::string&, int64_t) override {
    return absl::UnimplementedError("no handle");
  }
  absl::Status BindThread() override { return absl::OkStatus(); }
  DeviceStream stream() override { return stream_; }
  absl::StatusOr<std::vector<uint64_t>> Gather(int, std::span<const SourcePart>,
                                               std::span<const int64_t>, bool) override {
    return std::vector<uint64_t>();
  }
  absl::Status Clear(int, int64_t) override { return absl::OkStatus(); }
  absl::Status WriteHeader(int, const std::string&) override { return absl::OkStatus(); }
  absl::StatusOr<std::string> ReadHeader(int) override { return std::string(); }
  absl::StatusOr<std::vector<uint64_t>> Scatter(int, std::span<const ScatterPart>, bool) override {
    return std::vector<uint64_t>();
  }
  absl::Status Mark(int number) override {
    stream_->Mark(number);
    return absl::OkStatus();
  }
  absl::StatusOr<bool> Reached(int number) override { return stream_->Reached(number); }

 private:
  HangingStream* const stream_;
  std::vector<std::byte> buffers_[2] = {std::vector<std::byte>(kParcelHeaderBytes),
                                        std::vector<std::byte>(kParcelHeaderBytes)};
};

class CommunicatorOnStream final : public Communicator {
 public:
  explicit CommunicatorOnStream(HangingStream* stream) : stream_(stream) {}
  ~CommunicatorOnStream() override { stream_->EndAllOf(this); }
  absl::StatusOr<bool> InProgress() override { return false; }
  absl::Status Send(const std::byte*, size_t, DeviceStream) override {
    stream_->Launch(this);
    return absl::OkStatus();
  }
  absl::Status Receive(std::byte*, size_t, DeviceStream) override {
    stream_->Launch(this);
    return absl::OkStatus();
  }

 private:
  HangingStream* const stream_;
};

class CommunicatorsOnStream final : public Communicators {
 public:
  explicit CommunicatorsOnStream(HangingStream* stream) : stream_(stream) {}
  std::string way() const override { return "hanging"; }
  int version() const override { return 1; }
  absl::Status CheckPeer(int) const override { return absl::OkStatus(); }
  absl::StatusOr<std::string> MakeUniqueId() override { return std::string("id"); }
  absl::StatusOr<std::unique_ptr<Communicator>> Connect(const std::string&, int) override {
    return std::make_unique<CommunicatorOnStream>(stream_);
  }

 private:
  HangingStream* const stream_;
};

class PairDeviceStreamTest : public testing::Test {
 protected:
  PairDeviceStreamTest()
      : device_(*PairDevice::Start(
            {.memory = std::make_unique<MemoryWithStream>(&stream_),
             .communicators = std::make_unique<CommunicatorsOnStream>(&stream_),
             .find_inbox = [](const Ticket&) { return nullptr; },
             .on_event = [this](DeviceEvent event) { events_.Add(std::move(event)); }})) {}

  void Connect(PairId pair) {
    device_->Post(baton::Connect{pair, 1, "id", 1});
    EXPECT_EQ(events_.Next<Connected>().pair, pair);
  }
  void Send(PairId pair, int buffer) {
    device_->Post(SendParcel{
        .key = {pair, 1, 0}, .buffer = buffer, .plan = {.number = 0, .bytes = kParcelHeaderBytes}});
    EXPECT_EQ(events_.Next<ParcelLaunched>().key.pair, pair);
  }

  HangingStream stream_;
  DeviceEvents events_;
  const std::unique_ptr<PairDevice> device_;
};

TEST_F(PairDeviceStreamTest, AnAbortDoesNotWaitForWhatHangsBehindIt) {
  Connect(1);
  Connect(2);
  Send(1, 0);
  Send(2, 1);
  device_->Post(AbortPair{1, 1});
  EXPECT_EQ(events_.Next<DeviceAborted>().pair, 1u);
  device_->Post(AbortPair{2, 1});
  EXPECT_EQ(events_.Next<DeviceAborted>().pair, 2u);
}

TEST_F(PairDeviceStreamTest, AnAbortWithoutATransferWaitsForNone) {
  Connect(1);
  Connect(2);
  device_->Post(ReceiveParcel{{1, 1, 0}, 0, kParcelHeaderBytes});
  EXPECT_EQ(events_.Next<ReceivePosted>().key.pair, 1u);
  device_->Post(AbortPair{2, 1});
  EXPECT_EQ(events_.Next<DeviceAborted>().pair, 2u);
}

TEST_F(PairDeviceStreamTest, AnAbortThatWaitsIsToldLaterAndHoldsUpNothing) {
  Connect(1);
  Connect(2);
  Send(1, 0);
  Send(2, 1);
  device_->Post(AbortPair{2, 1});
  // The thread goes on.
  Connect(3);
  device_->Post(AbortPair{3, 1});
  EXPECT_EQ(events_.Next<DeviceAborted>().pair, 3u) << "that of 2 waits for the transfer of 1";
  device_->Post(AbortPair{1, 1});
  std::vector<PairId> told = {events_.Next<DeviceAborted>().pair,
                              events_.Next<DeviceAborted>().pair};
  std::ranges::sort(told);
  EXPECT_EQ(told, (std::vector<PairId>{1, 2}));
}

}  // namespace
}  // namespace baton
