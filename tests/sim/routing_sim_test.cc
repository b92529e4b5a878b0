// How requests wait: in the order of their arrival, in the routers' queues, for places that workers
// lend by demand.
#include "tests/sim/routing_sim.h"

#include <gtest/gtest.h>

#include "common/sched/policies/named.h"

namespace baton::sim {
namespace {

// A request of 20 tokens takes 100 ms here and the next one is 10 ms away, so a router that waits
// for each end would leave a tenth of the seats empty; a short line at the worker makes up for a
// part.
constexpr double kSeatsUsed = 0.88;

TEST(RoutingSimTest, ThreeHundredClientsOfSixtyFourPlacesAreServedInOrder) {
  RoutingSim sim({.seats = 64, .num_blocks = 4000, .concurrency = {300}, .requests = 900});
  ASSERT_EQ(sim.Run(), "");
  EXPECT_EQ(sim.refusals(), 0);
  EXPECT_LE(sim.MostOvertaken(), 64);
  EXPECT_LE(sim.longest_line(), 16);
  EXPECT_GE(sim.seats_used(), kSeatsUsed);
}

TEST(RoutingSimTest, RoutersOfEqualLoadWaitEquallyLong) {
  RoutingSim sim({.routers = 3,
                  .workers = 4,
                  .seats = 16,
                  .num_blocks = 1000,
                  .concurrency = {100, 100, 100},
                  .requests = 400});
  ASSERT_EQ(sim.Run(), "");
  EXPECT_EQ(sim.refusals(), 0);
  EXPECT_LE(sim.MostOvertaken(), 64);
  EXPECT_GE(sim.seats_used(), kSeatsUsed);
  const double first = sim.MeanWaitMs(0);
  for (int32_t router = 1; router < 3; ++router) {
    EXPECT_NEAR(sim.MeanWaitMs(router), first, 0.2 * first);
  }
}

// Routers that cannot see what the others place, in front of four workers that are wanted twice
// over.
RoutingSimOptions BlindRouters(int32_t routers, int32_t ticks_per_status) {
  return {.routers = routers,
          .workers = 4,
          .seats = 16,
          .num_blocks = 1000,
          .concurrency = std::vector<int32_t>(static_cast<size_t>(routers), 128 / routers),
          .requests = 2000 / routers,
          .ticks_per_status = ticks_per_status};
}

TEST(RoutingSimTest, ManyRoutersSpendNoPlaceTwiceHoweverSeldomWorkersSpeak) {
  using std::chrono::milliseconds;
  RoutingSim alone(BlindRouters(1, 10));
  ASSERT_EQ(alone.Run(), "");
  for (const int32_t ticks_per_status : {10, 100}) {
    for (const int32_t routers : {3, 10}) {
      SCOPED_TRACE(testing::Message() << routers << " routers, " << ticks_per_status << " ticks");
      RoutingSim sim(BlindRouters(routers, ticks_per_status));
      ASSERT_EQ(sim.Run(), "");
      EXPECT_EQ(sim.refusals(), 0);
      EXPECT_GE(sim.seats_used(), kSeatsUsed);
      // A short line at a worker is there for one router, too.
      EXPECT_LE(sim.Overspent(milliseconds(20)), alone.Overspent(milliseconds(20)) + 0.05);
      EXPECT_LE(sim.Overspent(milliseconds(50)), 0.01);
    }
  }
}

TEST(RoutingSimTest, PlacesThatOneRouterDoesNotNeedServeTheOther) {
  RoutingSim sim(
      {.routers = 2, .seats = 32, .num_blocks = 2000, .concurrency = {200, 1}, .requests = 200});
  ASSERT_EQ(sim.Run(), "");
  // The one that always has a single request is never made to queue behind the other's two hundred.
  EXPECT_LT(sim.MeanWaitMs(1), sim.MeanWaitMs(0) / 4);
}

TEST(RoutingSimTest, FewPlacesGoRoundAmongManyRouters) {
  RoutingSim sim({.routers = 5, .seats = 2, .concurrency = {10, 10, 10, 10, 10}, .requests = 40});
  ASSERT_EQ(sim.Run(), "");
  for (int32_t a = 0; a < 5; ++a) {
    for (int32_t b = 0; b < 5; ++b) EXPECT_LT(sim.MeanWaitMs(a), 2 * sim.MeanWaitMs(b));
  }
}

TEST(RoutingSimTest, LongPromptsAreNotStarvedByShortOnes) {
  // The pool holds about sixteen short requests, or one long one and a few.
  RoutingSim sim({.seats = 32,
                  .num_blocks = 120,
                  .concurrency = {60},
                  .requests = 300,
                  .long_every = 30,
                  .long_prompt_tokens = 360});
  ASSERT_EQ(sim.Run(), "");
  EXPECT_LE(sim.MostOvertaken(), 32);
}

// A worker of 16 seats ends about 0.7 requests of 20 tokens in a tick.
constexpr double kCapacity = 0.7;

RoutingSimOptions WithTenants(std::vector<SimTenant> tenants) {
  return {.seats = 16, .num_blocks = 1000, .requests = 400, .tenants = std::move(tenants)};
}

TEST(RoutingSimTest, ATenantOfLittleLoadFeelsNothingOfOneThatSendsThreeTimesTheCapacity) {
  const SimTenant a{.name = "a", .per_tick = 0.1 * kCapacity, .rule = {}};
  RoutingSim alone(WithTenants({a}));
  ASSERT_EQ(alone.Run(), "");
  RoutingSim beside(
      WithTenants({a, {.name = "b", .per_tick = 3 * kCapacity, .rule = {.max_running = 8}}}));
  ASSERT_EQ(beside.Run(), "");
  EXPECT_LE(beside.WaitOfTenantMs("a", 0.99), 2 * alone.WaitOfTenantMs("a", 0.99));
  EXPECT_GT(beside.WaitOfTenantMs("b", 0.5), 20 * beside.WaitOfTenantMs("a", 0.99));
}

TEST(RoutingSimTest, WithoutBoundsATenantOfLittleLoadWaitsForOnePlaceNotForABacklog) {
  RoutingSim sim(WithTenants({{.name = "a", .per_tick = 0.1 * kCapacity, .rule = {}},
                              {.name = "b", .per_tick = 3 * kCapacity, .rule = {}}}));
  ASSERT_EQ(sim.Run(), "");
  EXPECT_LT(sim.WaitOfTenantMs("a", 0.99), 200) << "two times what a request takes";
  EXPECT_GT(sim.WaitOfTenantMs("b", 0.5), 20 * sim.WaitOfTenantMs("a", 0.99));
}

// Tenants who always have something waiting, the one of three times the weight with the longer
// answers; the pool is too small for all seats.
TEST(RoutingSimTest, TenantsGetTokensByTheirWeightsUnderEveryPolicy) {
  for (const std::string& name : PolicyNames()) {
    SCOPED_TRACE(name);
    RoutingSimOptions options = WithTenants(
        {{.name = "a", .per_tick = kCapacity, .rule = {.weight = 3}, .output_tokens = 40},
         {.name = "b", .per_tick = 3 * kCapacity, .rule = {}, .output_tokens = 8}});
    options.num_blocks = 130;
    options.policy = *PolicyNamed(name);
    RoutingSim sim(options);
    ASSERT_EQ(sim.Run(), "");
    EXPECT_NEAR(sim.ShareOfTenant("a"), 0.75, 0.05);
  }
}

}  // namespace
}  // namespace baton::sim
