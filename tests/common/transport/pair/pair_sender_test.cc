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
    BuildPair(id, incarnation);
    return id;
  }
  // Lets the first epoch of a pair that was opened succeed.
  void BuildPair(PairId id, uint64_t incarnation) {
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
  }
  // A parcel of a new push that the receiver has granted: it is in the device from now on.
  void SendParcelOf(PairId id) {
    const PushId push = 100 + id;
    ASSERT_TRUE(sender_.StartPush(push, "worker" + std::to_string(id), Ticket::Draw(id), now_));
    sender_.Add(push, {{.bytes = {std::as_bytes(std::span(bytes_))}}}, now_, &actions_);
    sender_.OnMessage(id, PairGo{1, 1}, now_, &actions_);
  }
  int Aborted() const { return Count(PairEvent::kAborted); }
  int Count(PairEvent event) const {
    int count = 0;
    for (const SenderAction& action : actions_) {
      const auto* news = std::get_if<PairNews>(&action);
      count += news != nullptr && news->event == event ? 1 : 0;
    }
    return count;
  }
  // The pair that the sender opened last.
  PairId LastOpened() const {
    PairId id = 0;
    for (const SenderAction& action : actions_) {
      if (const auto* open = std::get_if<OpenControl>(&action)) id = open->pair;
    }
    return id;
  }
  // Has each epoch of the pair fail, as where ports of NCCL do not pass, until it falls back.
  void FailToConnect(PairId id) {
    const int before = Count(PairEvent::kFallenBack);
    for (uint64_t epoch = 1; Count(PairEvent::kFallenBack) == before; ++epoch) {
      ASSERT_LE(epoch, 3U);
      sender_.OnMessage(id, PairEpoch{.epoch = epoch, .unique_id = "id", .incarnation = 1}, now_,
                        &actions_);
      sender_.OnDevice(Connected{id, epoch, absl::UnavailableError("no way")}, now_, &actions_);
      sender_.OnDevice(DeviceAborted{id, epoch}, now_, &actions_);
    }
  }
  // Whether a pair is opened when a router asks for it `pause` after the last one fell back.
  bool OpensAfter(base::Duration pause) {
    const PairId last = LastOpened();
    Wait(pause);
    sender_.Warm("worker1", 1, now_, &actions_);
    return LastOpened() != last;
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

TEST_F(PairSenderTest, APairThatFallsBackAgainAndAgainWaitsLongerEachTime) {
  sender_.Warm("worker1", 1, now_, &actions_);
  for (base::Duration pause = limits_.fallen; pause < limits_.fallen_most; pause *= 2) {
    FailToConnect(LastOpened());
    EXPECT_FALSE(OpensAfter(pause - milliseconds(1))) << base::Seconds(pause);
    EXPECT_TRUE(OpensAfter(milliseconds(1))) << base::Seconds(pause);
  }
  FailToConnect(LastOpened());
  EXPECT_FALSE(OpensAfter(limits_.fallen_most - milliseconds(1)));
  EXPECT_TRUE(OpensAfter(milliseconds(1)));
  // A receiver that started again is asked at once, and waited for as if it were new.
  FailToConnect(LastOpened());
  sender_.Warm("worker1", 2, now_, &actions_);
  FailToConnect(LastOpened());
  sender_.Warm("worker1", 2, now_, &actions_);
  const PairId last = LastOpened();
  Wait(limits_.fallen);
  sender_.Warm("worker1", 2, now_, &actions_);
  EXPECT_NE(LastOpened(), last);
}

TEST_F(PairSenderTest, APairThatWasWarmMayTryAgainSoon) {
  sender_.Warm("worker1", 1, now_, &actions_);
  FailToConnect(LastOpened());
  ASSERT_TRUE(OpensAfter(limits_.fallen));
  FailToConnect(LastOpened());
  ASSERT_TRUE(OpensAfter(2 * limits_.fallen));
  const PairId id = LastOpened();
  BuildPair(id, 1);
  ASSERT_EQ(sender_.warm().size(), 1u);
  sender_.OnMessage(id, PairAbort{.epoch = 1, .why = "the network went away"}, now_, &actions_);
  sender_.OnDevice(DeviceAborted{id, 1}, now_, &actions_);
  sender_.OnMessage(id, PairEpoch{.epoch = 2, .unique_id = "id", .incarnation = 1}, now_,
                    &actions_);
  sender_.OnDevice(Connected{id, 2, absl::UnavailableError("no way")}, now_, &actions_);
  sender_.OnDevice(DeviceAborted{id, 2}, now_, &actions_);
  EXPECT_EQ(Count(PairEvent::kFallenBack), 3);
  EXPECT_TRUE(OpensAfter(limits_.fallen));
}

}  // namespace
}  // namespace baton
