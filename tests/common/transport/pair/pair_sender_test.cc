// Times of the sending half, and what it does while parcels of several pairs lie on the one stream
// of its device.
#include "common/transport/pair/pair_sender.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <variant>
#include <vector>

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
    sender_.OnDevice(ParcelLaunched{{id, 1, 1}}, now_, &actions_);
  }
  void ParcelIsTaken(PairId id) {
    sender_.OnDevice(ParcelSent{{id, 1, 1}, absl::OkStatus()}, now_, &actions_);
    sender_.OnMessage(id, PairDone{.epoch = 1, .number = 1}, now_, &actions_);
  }
  void AbortIsOver(PairId id) { sender_.OnDevice(DeviceAborted{id, 1}, now_, &actions_); }
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
      sender_.OnMessage(id,
                        PairEpoch{.epoch = epoch,
                                  .unique_id = "id",
                                  .incarnation = 1,
                                  .parcel_bytes = limits_.parcel_bytes},
                        now_, &actions_);
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
  int Returned() const {
    return static_cast<int>(std::ranges::count_if(actions_, [](const SenderAction& action) {
      return std::holds_alternative<PartsReturned>(action);
    }));
  }
  // The pairs whose aborts the device was told, in order.
  std::vector<PairId> ToldToAbort() const {
    std::vector<PairId> pairs;
    for (const SenderAction& action : actions_) {
      const auto* command = std::get_if<DeviceCommand>(&action);
      const auto* abort = command == nullptr ? nullptr : std::get_if<AbortPair>(command);
      if (abort != nullptr) pairs.push_back(abort->pair);
    }
    return pairs;
  }

  const PairLimits limits_;
  const std::string bytes_ = std::string(1000, 'x');
  base::Instant now_{std::chrono::hours(1)};
  PairSender::Actions actions_;
  PairSender sender_{limits_, {}};
};

// A part would never fit, or be cut to less than nothing.
TEST_F(PairSenderTest, AReceiverOfParcelsWithoutRoomIsRefused) {
  for (const int64_t bytes : {int64_t{-1}, int64_t{0}, kParcelHeaderBytes + kPartAlignment - 1}) {
    const int refused = Count(PairEvent::kRefused);
    const PairId id = static_cast<PairId>(bytes + 2);
    sender_.Warm("worker" + std::to_string(id), id, now_, &actions_);
    sender_.OnMessage(
        LastOpened(),
        PairEpoch{.epoch = 1, .unique_id = "id", .incarnation = id, .parcel_bytes = bytes}, now_,
        &actions_);
    EXPECT_EQ(Count(PairEvent::kRefused), refused + 1);
  }
  EXPECT_TRUE(sender_.warm().empty());
  EXPECT_TRUE(ToldToAbort().empty());
}

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
  AbortIsOver(frozen);
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
  sender_.OnMessage(
      id,
      PairEpoch{
          .epoch = 2, .unique_id = "id", .incarnation = 1, .parcel_bytes = limits_.parcel_bytes},
      now_, &actions_);
  sender_.OnDevice(Connected{id, 2, absl::UnavailableError("no way")}, now_, &actions_);
  sender_.OnDevice(DeviceAborted{id, 2}, now_, &actions_);
  EXPECT_EQ(Count(PairEvent::kFallenBack), 3);
  EXPECT_TRUE(OpensAfter(limits_.fallen));
}

TEST_F(PairSenderTest, WhoStandsFirstOnTheStreamIsGivenUpWhicheverPairIsOlder) {
  const PairId healthy = WarmPair(1);
  const PairId frozen = WarmPair(2);
  SendParcelOf(frozen);
  Wait(milliseconds(3));
  SendParcelOf(healthy);
  Wait(limits_.transfer + milliseconds(50));
  EXPECT_EQ(ToldToAbort(), std::vector<PairId>{frozen});
  Wait(milliseconds(50));
  AbortIsOver(frozen);
  ParcelIsTaken(healthy);
  Wait(limits_.transfer + limits_.abort);
  EXPECT_EQ(ToldToAbort(), std::vector<PairId>{frozen});
  EXPECT_EQ(sender_.warm(), std::vector<uint64_t>{healthy});
  EXPECT_FALSE(sender_.device_lost());
}

TEST_F(PairSenderTest, AParcelsTimeBeginsWhenTheOneInFrontIsTaken) {
  const PairId slow = WarmPair(1);
  const PairId other = WarmPair(2);
  SendParcelOf(slow);
  SendParcelOf(other);
  Wait(limits_.transfer - milliseconds(50));
  ParcelIsTaken(slow);
  Wait(limits_.transfer - milliseconds(50));
  EXPECT_EQ(Aborted(), 0);
  Wait(milliseconds(100));
  EXPECT_EQ(ToldToAbort(), std::vector<PairId>{other});
}

TEST_F(PairSenderTest, ReceiversThatFreezeTogetherAreGivenUpOneAfterTheOther) {
  const PairId first = WarmPair(1);
  const PairId second = WarmPair(2);
  SendParcelOf(first);
  SendParcelOf(second);
  Wait(limits_.transfer + milliseconds(50));
  EXPECT_EQ(ToldToAbort(), std::vector<PairId>{first});
  AbortIsOver(first);
  Wait(limits_.transfer + milliseconds(50));
  EXPECT_EQ(ToldToAbort(), (std::vector<PairId>{first, second}));
  AbortIsOver(second);
  Wait(limits_.abort + milliseconds(50));
  EXPECT_FALSE(sender_.device_lost());
}

// The device could not leave the call in which it aborts the second.
TEST_F(PairSenderTest, AnAbortWaitsForTheParcelInFrontAndItsBlocksDoNot) {
  const PairId frozen = WarmPair(1);
  const PairId broken = WarmPair(2);
  SendParcelOf(frozen);
  SendParcelOf(broken);
  sender_.OnControlClosed(broken, /*refused=*/false, "connection reset", now_, &actions_);
  EXPECT_EQ(Aborted(), 1);
  EXPECT_EQ(Returned(), 1);
  EXPECT_TRUE(ToldToAbort().empty());
  // It waits longer than an abort may take.
  Wait(limits_.transfer - milliseconds(50));
  Wait(milliseconds(100));
  EXPECT_EQ(ToldToAbort(), std::vector<PairId>{frozen});
  Wait(limits_.abort - milliseconds(50));
  AbortIsOver(frozen);
  EXPECT_EQ(ToldToAbort(), (std::vector<PairId>{frozen, broken}));
  Wait(limits_.abort - milliseconds(50));
  EXPECT_FALSE(sender_.device_lost());
  Wait(milliseconds(100));
  EXPECT_TRUE(sender_.device_lost()) << "nothing lies in front of it any more";
}

TEST_F(PairSenderTest, AnAbortWaitsForTheParcelInFrontToBeTaken) {
  const PairId slow = WarmPair(1);
  const PairId broken = WarmPair(2);
  const PairId idle = WarmPair(3);
  SendParcelOf(slow);
  SendParcelOf(broken);
  sender_.OnControlClosed(idle, /*refused=*/false, "it left", now_, &actions_);
  sender_.OnControlClosed(broken, /*refused=*/false, "connection reset", now_, &actions_);
  EXPECT_TRUE(ToldToAbort().empty());
  ParcelIsTaken(slow);
  EXPECT_EQ(ToldToAbort(), std::vector<PairId>{broken});
  AbortIsOver(broken);
  EXPECT_EQ(ToldToAbort(), (std::vector<PairId>{broken, idle}));
  AbortIsOver(idle);
  EXPECT_EQ(sender_.warm(), std::vector<uint64_t>{slow});
}

// Connecting takes its time for the first parcel, which is launched behind those that came later.
TEST_F(PairSenderTest, TheStreamsOrderIsThatOfTheLaunches) {
  const PairId slow = WarmPair(1);
  const PairId frozen = WarmPair(2);
  ASSERT_TRUE(sender_.StartPush(7, "worker1", Ticket::Draw(slow), now_));
  sender_.Add(7, {{.bytes = {std::as_bytes(std::span(bytes_))}}}, now_, &actions_);
  sender_.OnMessage(slow, PairGo{1, 1}, now_, &actions_);
  SendParcelOf(frozen);
  Wait(milliseconds(200));
  sender_.OnDevice(ParcelLaunched{{slow, 1, 1}}, now_, &actions_);
  Wait(limits_.transfer);
  EXPECT_EQ(ToldToAbort(), std::vector<PairId>{frozen});
  AbortIsOver(frozen);
  ParcelIsTaken(slow);
  EXPECT_EQ(sender_.warm(), std::vector<uint64_t>{slow});
}

}  // namespace
}  // namespace baton
