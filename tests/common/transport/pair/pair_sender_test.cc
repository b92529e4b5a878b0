// Times of the sending half that the simulation, whose parcels do not wait for one another inside a
// device, does not show.
#include "common/transport/pair/pair_sender.h"

#include <gtest/gtest.h>

#include "common/transport/pair/pair_parcel.h"

namespace baton {
namespace {

using std::chrono::milliseconds;

class PairSenderTest : public testing::Test {
 protected:
  void Wait(base::Duration time) {
    now_ += time;
    sender_.Tick(now_, &actions_);
  }
  // A warm pair with the receiver of that incarnation.
  PairId WarmPair(uint64_t incarnation) {
    const PairId id = incarnation;
    sender_.Warm("worker" + std::to_string(incarnation), incarnation, now_, &actions_);
    sender_.OnMessage(id,
                      PairEpoch{.epoch = 1,
                                .unique_id = "id",
                                .incarnation = incarnation,
                                .parcel_bytes = limits_.parcel_bytes},
                      now_, &actions_);
    sender_.OnDevice(Connected{id, 1, absl::OkStatus()}, now_, &actions_);
    sender_.OnMessage(id, PairReady{1}, now_, &actions_);
    sender_.OnMessage(id, PairGo{1, 0}, now_, &actions_);
    sender_.OnDevice(ParcelGathered{{id, 1, 0}}, now_, &actions_);
    sender_.OnDevice(ParcelSent{{id, 1, 0}, absl::OkStatus()}, now_, &actions_);
    sender_.OnMessage(id, PairDone{.epoch = 1, .number = 0}, now_, &actions_);
    return id;
  }
  // A parcel of a new push that the receiver has granted: it is in the device from now on.
  void SendParcelOf(PairId id) {
    const PushId push = 100 + id;
    ASSERT_TRUE(sender_.StartPush(push, "worker" + std::to_string(id), Ticket::Draw(id), now_));
    sender_.Add(push, {{.bytes = {std::as_bytes(std::span(bytes_))}}}, now_, &actions_);
    sender_.OnMessage(id, PairGo{1, 1}, now_, &actions_);
  }
  int Aborted() const {
    int count = 0;
    for (const SenderAction& action : actions_) {
      const auto* news = std::get_if<PairNews>(&action);
      count += news != nullptr && news->event == PairEvent::kAborted ? 1 : 0;
    }
    return count;
  }

  const PairLimits limits_;
  const std::string bytes_ = std::string(1000, 'x');
  base::Instant now_{std::chrono::hours(1)};
  PairSender::Actions actions_;
  PairSender sender_{limits_, {}};
};

TEST_F(PairSenderTest, WhatWaitedBehindAParcelThatIsGivenUpHasItsTimeAfterIt) {
  const PairId frozen = WarmPair(1);
  const PairId healthy = WarmPair(2);
  ASSERT_EQ(sender_.warm().size(), 2u);
  SendParcelOf(frozen);
  Wait(milliseconds(10));
  SendParcelOf(healthy);
  Wait(limits_.transfer);
  EXPECT_EQ(Aborted(), 1);
  // Leaving the frozen one takes the device a while.
  Wait(milliseconds(1500));
  sender_.OnDevice(DeviceAborted{frozen, 1}, now_, &actions_);
  Wait(limits_.transfer - milliseconds(50));
  EXPECT_EQ(Aborted(), 1);
  EXPECT_EQ(sender_.warm(), std::vector<uint64_t>{healthy});
  Wait(milliseconds(100));
  EXPECT_EQ(Aborted(), 2) << "its own time is over as well";
}

}  // namespace
}  // namespace baton
