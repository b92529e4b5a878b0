// The state machines of pairs over seeds: message orders, losses, cancels, timeouts,
// restarts. PairSim names every broken promise.
#include "tests/fakes/pair_sim.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/transport/pair/pair_parcel.h"
#include "tests/fakes/sanitized.h"

namespace baton {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// The simulation has one thread and allocates little of its own: one seed in five is enough for
// what sanitizers look for, and each takes them ten times as long. Plain builds run all of them.
constexpr int kSeedStep = kSanitized ? 5 : 1;

PairSim::Options Small(uint64_t seed) {
  PairSim::Options options;
  options.seed = seed;
  options.limits.parcel_bytes = kParcelHeaderBytes + 10'000;
  options.limits.connect = seconds(2);
  options.limits.transfer = milliseconds(400);
  options.limits.receive = milliseconds(600);
  options.limits.abort = milliseconds(300);
  options.limits.fallen = seconds(3);
  options.limits.retry = milliseconds(200);
  options.limits.forgive = seconds(2);
  options.limits.idle = seconds(5);
  return options;
}

std::string Joined(const PairSim& sim) { return testing::PrintToString(sim.violations); }

TEST(PairSimTest, EverythingGoesThroughThePairsWhenNothingFails) {
  for (uint64_t seed = 1; seed <= 30; seed += kSeedStep) {
    PairSim::Options options = Small(seed);
    options.senders = 1 + static_cast<int>(seed % 4);
    options.receivers = 1 + static_cast<int>(seed % 3);
    options.limits.idle = std::chrono::hours(1);
    PairSim sim(options);
    sim.Run(seconds(4));
    ASSERT_TRUE(sim.violations.empty()) << "seed " << seed << ": " << Joined(sim);
    EXPECT_EQ(sim.built, options.senders * options.receivers) << "seed " << seed;
    EXPECT_EQ(sim.aborted + sim.returned + sim.discarded, 0) << "seed " << seed;
    EXPECT_GT(sim.whole_through_pair, 20) << "seed " << seed;
    EXPECT_EQ(sim.whole_through_pair, sim.through_pair) << "seed " << seed;
  }
}

TEST(PairSimTest, CancelsAndDetachesAreKeptApartFromThePair) {
  int voids = 0, discarded = 0;
  for (uint64_t seed = 1; seed <= 60; seed += kSeedStep) {
    PairSim::Options options = Small(seed);
    options.cancels = 0.4;
    options.detaches = 0.4;
    PairSim sim(options);
    sim.Run(seconds(4));
    ASSERT_TRUE(sim.violations.empty()) << "seed " << seed << ": " << Joined(sim);
    EXPECT_EQ(sim.aborted, 0) << "seed " << seed;
    voids += sim.voids;
    discarded += sim.discarded;
  }
  EXPECT_GT(voids, 20 / kSeedStep);
  EXPECT_GT(discarded, 20 / kSeedStep);
}

TEST(PairSimTest, FailuresAreAbortedRebuiltAndFallenBackFrom) {
  int rebuilt = 0, fallen = 0, returned = 0;
  for (uint64_t seed = 1; seed <= 150; seed += kSeedStep) {
    PairSim::Options options = Small(seed);
    options.fail_connect = options.fail_send = options.fail_receive = options.fail_id = 0.01;
    options.never_completes = 0.01;
    options.corrupts = 0.01;
    options.cancels = 0.1;
    options.detaches = 0.1;
    options.breaks_control = 0.002;
    PairSim sim(options);
    sim.Run(seconds(8));
    ASSERT_TRUE(sim.violations.empty()) << "seed " << seed << ": " << Joined(sim);
    EXPECT_EQ(sim.lost, 0) << "seed " << seed;
    rebuilt += sim.rebuilt;
    fallen += sim.fallen;
    returned += sim.returned;
  }
  EXPECT_GT(rebuilt, 100 / kSeedStep);
  EXPECT_GT(fallen, 100 / kSeedStep);
  EXPECT_GT(returned, 100 / kSeedStep);
}

TEST(PairSimTest, ParcelsThatAreNeverTakenCostNoSenderItsDevice) {
  int aborted = 0;
  for (uint64_t seed = 1; seed <= 40; seed += kSeedStep) {
    PairSim::Options options = Small(seed);
    options.senders = 1;
    options.receivers = 4;
    options.never_completes = 0.05;
    options.breaks_control = 0.01;
    options.limits.max_failures = 100;
    PairSim sim(options);
    sim.Run(seconds(8));
    ASSERT_TRUE(sim.violations.empty()) << "seed " << seed << ": " << Joined(sim);
    EXPECT_EQ(sim.lost, 0) << "seed " << seed;
    aborted += sim.aborted;
  }
  EXPECT_GT(aborted, 400 / kSeedStep);
}

TEST(PairSimTest, DyingAndHungDevicesStrandNothing) {
  int lost = 0, restarted = 0;
  for (uint64_t seed = 1; seed <= 150; seed += kSeedStep) {
    PairSim::Options options = Small(seed);
    options.senders = 3;
    options.receivers = 3;
    options.thread_hangs = 0.0005;
    options.restarts = 0.01;
    options.never_completes = 0.003;
    options.cancels = 0.1;
    options.detaches = 0.1;
    PairSim sim(options);
    sim.Run(seconds(8));
    ASSERT_TRUE(sim.violations.empty()) << "seed " << seed << ": " << Joined(sim);
    lost += sim.lost;
    restarted += sim.restarted;
  }
  EXPECT_GT(lost, 10 / kSeedStep);
  EXPECT_GT(restarted, 100 / kSeedStep);
}

TEST(PairSimTest, TheCapHoldsAndTheLeastRecentlyUsedPairGivesWay) {
  int closed = 0;
  for (uint64_t seed = 1; seed <= 40; seed += kSeedStep) {
    PairSim::Options options = Small(seed);
    options.senders = 5;
    options.receivers = 5;
    options.limits.max_pairs = 2;
    PairSim sim(options);
    sim.Run(seconds(6));
    ASSERT_TRUE(sim.violations.empty()) << "seed " << seed << ": " << Joined(sim);
    EXPECT_LE(sim.most_pairs, 2u);
    closed += sim.closed;
  }
  EXPECT_GT(closed, 40 / kSeedStep);
}

}  // namespace
}  // namespace baton
