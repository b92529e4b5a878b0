#include "common/worker/watch_request.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

namespace baton {
namespace {

TEST(WatchRequestTest, DemandsAreTakenAsTheyAreSaid) {
  worker::v1::Demand demand;
  demand.set_places_held(2);
  demand.set_places_wanted(5);
  demand.set_prompt_tokens_held(300);
  demand.set_prompt_tokens_wanted(4000);
  const PlaceShares::Demand read = DemandFromProto(demand);
  EXPECT_EQ(read.places.held, 2);
  EXPECT_EQ(read.places.wanted, 5);
  EXPECT_EQ(read.prompt_tokens.held, 300);
  EXPECT_EQ(read.prompt_tokens.wanted, 4000);
}

TEST(WatchRequestTest, NoDemandIsNegativeOrTooLargeToBeSummed) {
  worker::v1::Demand demand;
  demand.set_places_held(-1);
  demand.set_places_wanted(std::numeric_limits<int32_t>::min());
  demand.set_prompt_tokens_held(std::numeric_limits<int64_t>::min());
  demand.set_prompt_tokens_wanted(std::numeric_limits<int64_t>::max());
  const PlaceShares::Demand read = DemandFromProto(demand);
  EXPECT_EQ(read.places.held, 0);
  EXPECT_EQ(read.places.wanted, 0);
  EXPECT_EQ(read.prompt_tokens.held, 0);
  EXPECT_EQ(read.prompt_tokens.wanted, int64_t{1} << 40);
}

TEST(WatchRequestTest, WhatIsSeenOfTheClusterIsTakenAsItIsSaid) {
  worker::v1::Cluster cluster;
  worker::v1::RoleView* const decode = cluster.mutable_decode();
  decode->set_workers(3);
  decode->set_fixed(true);
  decode->set_lowest(4);
  decode->set_highest(9);
  decode->set_queued_prompt_tokens(70);
  decode->set_fill(1.5);
  cluster.set_waiting_prompt_tokens(1000);
  cluster.set_prompt_token_seconds(0.001);
  cluster.set_prompt_load(0.5);
  const ClusterView expected = {.prefill = {},
                                .decode = {.workers = 3,
                                           .fixed = true,
                                           .lowest = 4,
                                           .highest = 9,
                                           .queued_prompt_tokens = 70,
                                           .fill = 1.5},
                                .waiting_prompt_tokens = 1000,
                                .prompt_token_s = 0.001,
                                .prompt_load = 0.5};
  EXPECT_EQ(ClusterFromProto(cluster), expected);
}

TEST(WatchRequestTest, WhatIsNoNumberCountsAsNothing) {
  worker::v1::Cluster cluster;
  cluster.mutable_prefill()->set_workers(-1);
  cluster.mutable_prefill()->set_fill(std::numeric_limits<double>::quiet_NaN());
  cluster.mutable_prefill()->set_queued_prompt_tokens(-1);
  cluster.set_waiting_prompt_tokens(-1);
  cluster.set_prompt_token_seconds(std::numeric_limits<double>::infinity());
  cluster.set_prompt_load(-1);
  EXPECT_EQ(ClusterFromProto(cluster), ClusterView());
}

TEST(WatchRequestTest, ALowestOrHighestAloneNamesNobody) {
  worker::v1::Cluster cluster;
  cluster.mutable_decode()->set_highest(4);
  cluster.mutable_prefill()->set_lowest(5);
  EXPECT_EQ(ClusterFromProto(cluster), ClusterView());
  cluster.mutable_prefill()->set_highest(3);
  EXPECT_EQ(ClusterFromProto(cluster), ClusterView());
}

}  // namespace
}  // namespace baton
