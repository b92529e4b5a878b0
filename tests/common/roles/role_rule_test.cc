#include "common/roles/role_rule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

namespace baton {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr WorkerRole kPrefill = WorkerRole::kPrefill, kDecode = WorkerRole::kDecode;
constexpr base::Instant kBegin{std::chrono::hours(1)};

// What a router sees where the workers `prefill` and `decode` take requests.
ClusterView Seen(std::vector<uint64_t> prefill, std::vector<uint64_t> decode) {
  const auto view = [](const std::vector<uint64_t>& numbers) {
    RoleView role{.workers = static_cast<int32_t>(numbers.size())};
    for (const uint64_t number : numbers) {
      role.lowest = role.lowest == 0 ? number : std::min(role.lowest, number);
      role.highest = std::max(role.highest, number);
    }
    return role;
  };
  return {.prefill = view(prefill), .decode = view(decode), .prompt_token_s = 0.001};
}

ClusterView PromptsWait(ClusterView view) {
  view.waiting_prompt_tokens = 1000 * view.prefill.workers;
  return view;
}

ClusterView PlacesRunOut(ClusterView view) {
  view.decode.fill = 0.95 * view.decode.workers;
  return view;
}

// One worker that looks as often as workers do, at what does not change.
class RoleRuleTest : public ::testing::Test {
 protected:
  std::optional<RoleReason> LookFor(RoleRule* rule, base::Duration time, const ClusterView& view) {
    return LookFor(rule, time, std::vector{view});
  }
  std::optional<RoleReason> LookFor(RoleRule* rule, base::Duration time,
                                    const std::vector<ClusterView>& views) {
    for (const base::Instant end = now_ + time; now_ < end; now_ += kLookAtRolesEvery) {
      if (const auto reason = rule->Look(views, now_)) return reason;
    }
    return std::nullopt;
  }

  base::Instant now_ = kBegin;
};

TEST_F(RoleRuleTest, TheLastThatDecodesPrefillsWhilePromptsWait) {
  RoleRule last({}, 4, kDecode, kBegin), other({}, 3, kDecode, kBegin);
  const ClusterView view = PromptsWait(Seen({9}, {2, 3, 4}));
  EXPECT_EQ(LookFor(&other, seconds(20), view), std::nullopt);
  now_ = kBegin;
  EXPECT_EQ(LookFor(&last, seconds(20), view), RoleReason::kPrompts);
  EXPECT_EQ(last.role(), kPrefill);
  EXPECT_GE(now_ - kBegin, seconds(5)) << "it began a moment ago";
}

TEST_F(RoleRuleTest, TheFirstThatPrefillsDecodesWherePlacesRunOut) {
  RoleRule first({}, 5, kPrefill, kBegin), other({}, 9, kPrefill, kBegin);
  const ClusterView view = PlacesRunOut(Seen({5, 9}, {2, 3}));
  EXPECT_EQ(LookFor(&other, seconds(20), view), std::nullopt);
  now_ = kBegin;
  EXPECT_EQ(LookFor(&first, seconds(20), view), RoleReason::kPlaces);
  EXPECT_EQ(first.role(), kDecode);
}

TEST_F(RoleRuleTest, NobodyGoesFromThoseThatAreNeeded) {
  RoleRule decodes({}, 4, kDecode, kBegin), prefills({}, 5, kPrefill, kBegin);
  ClusterView view = PromptsWait(PlacesRunOut(Seen({5, 9}, {3, 4})));
  view.prompt_load = 1.9;
  EXPECT_EQ(LookFor(&decodes, seconds(20), view), std::nullopt);
  EXPECT_EQ(LookFor(&prefills, seconds(20), view), std::nullopt);
}

TEST_F(RoleRuleTest, WithoutARouterThatTellsOfTheOthersItStays) {
  RoleRule rule({}, 4, kDecode, kBegin);
  EXPECT_EQ(LookFor(&rule, seconds(20), std::vector<ClusterView>()), std::nullopt);
}

TEST_F(RoleRuleTest, EveryRouterMustSeeThatAnotherOneStays) {
  RoleRule rule({}, 4, kDecode, kBegin);
  const ClusterView all = PromptsWait(Seen({9}, {2, 3, 4})), part = PromptsWait(Seen({9}, {4}));
  EXPECT_EQ(LookFor(&rule, seconds(20), std::vector{all, part}), std::nullopt);
  EXPECT_EQ(LookFor(&rule, seconds(20), std::vector{all, all}), RoleReason::kPrompts);
}

TEST_F(RoleRuleTest, AWorkerWithOneRoleStaysForTheOthers) {
  RoleRule rule({}, 4, kDecode, kBegin);
  ClusterView view = PromptsWait(Seen({9}, {4}));
  EXPECT_EQ(LookFor(&rule, seconds(20), view), std::nullopt);
  view.decode.fixed = true;
  view.decode.workers = 2;
  EXPECT_EQ(LookFor(&rule, seconds(20), view), RoleReason::kPrompts);
}

TEST_F(RoleRuleTest, ARoleThatNobodyTakesIsTakenAtOnceByTheNextInTheRow) {
  RoleRule next({}, 5, kPrefill, kBegin), other({}, 9, kPrefill, kBegin);
  EXPECT_EQ(LookFor(&other, seconds(20), Seen({5, 9}, {})), std::nullopt);
  now_ = kBegin;
  EXPECT_EQ(LookFor(&next, seconds(20), Seen({5, 9}, {})), RoleReason::kNobody);
  EXPECT_LE(now_ - kBegin, milliseconds(1250)) << "no cool-down where nothing goes on";
  // Also by the last one: prompts are then computed where they are decoded.
  now_ = kBegin;
  EXPECT_EQ(LookFor(&other, seconds(20), Seen({9}, {})), RoleReason::kNobody);
}

TEST_F(RoleRuleTest, TheLastThatDecodesStaysThoughNobodyPrefills) {
  RoleRule rule({}, 4, kDecode, kBegin);
  EXPECT_EQ(LookFor(&rule, seconds(20), PromptsWait(Seen({}, {4}))), std::nullopt);
  EXPECT_EQ(LookFor(&rule, seconds(20), Seen({}, {3, 4})), RoleReason::kNobody);
}

TEST_F(RoleRuleTest, AfterAChangeItCoolsDown) {
  RoleRule rule({.cool_down = seconds(9)}, 4, kDecode, kBegin);
  EXPECT_EQ(LookFor(&rule, seconds(20), PromptsWait(Seen({9}, {3, 4}))), RoleReason::kPrompts);
  const base::Instant changed = now_;
  EXPECT_EQ(LookFor(&rule, seconds(20), PlacesRunOut(Seen({4, 9}, {3}))), RoleReason::kPlaces);
  EXPECT_GE(now_ - changed, seconds(9));
  EXPECT_LE(now_ - changed, seconds(9) + milliseconds(250));
}

TEST_F(RoleRuleTest, AfterAChangeOfAnotherItLetsThatSettle) {
  RoleRule rule({}, 4, kDecode, kBegin);
  EXPECT_EQ(LookFor(&rule, seconds(10), Seen({9}, {3, 4, 5})), std::nullopt);
  const base::Instant changed = now_;
  EXPECT_EQ(LookFor(&rule, seconds(10), PromptsWait(Seen({5, 9}, {3, 4}))), RoleReason::kPrompts);
  EXPECT_GE(now_ - changed, seconds(1));
  EXPECT_LE(now_ - changed, milliseconds(1250));
}

// Workers that see each other late, under a load that turns every ten seconds.
class RoleCluster {
 public:
  explicit RoleCluster(uint64_t seed) : dice_(seed) {
    for (size_t i = 0; i < 2 + seed % 6; ++i) {
      const uint64_t number = 1 + dice_();
      const WorkerRole begin = i % 2 == 0 ? kDecode : kPrefill;
      workers_.push_back({number, RoleRule({.cool_down = seconds(1)}, number, begin, kBegin)});
    }
  }

  // Everybody looks once, at what was up to a second ago.
  void Look() {
    past_.push_back(Now());
    const bool prompts = looks_ / 40 % 2 == 0;
    const base::Instant now = kBegin + looks_++ * kLookAtRolesEvery;
    for (Worker& worker : workers_) {
      const size_t age = std::min<size_t>(past_.size() - 1, dice_() % 4);
      const ClusterView& view = past_[past_.size() - 1 - age];
      const std::vector views = {prompts ? PromptsWait(view) : PlacesRunOut(view)};
      if (worker.rule.Look(views, now)) ++changes_;
    }
  }
  ClusterView Now() const {
    std::vector<uint64_t> prefill, decode;
    for (const Worker& worker : workers_) {
      (worker.rule.role() == kPrefill ? prefill : decode).push_back(worker.number);
    }
    return Seen(prefill, decode);
  }
  void KillFirstIn(WorkerRole role) {
    const auto first = std::ranges::find_if(
        workers_, [&](const Worker& worker) { return worker.rule.role() == role; });
    if (first != workers_.end()) workers_.erase(first);
  }
  size_t size() const { return workers_.size(); }
  int changes() const { return changes_; }

 private:
  struct Worker {
    uint64_t number;
    RoleRule rule;
  };
  std::mt19937_64 dice_;
  std::vector<Worker> workers_;
  std::vector<ClusterView> past_;  // at each look
  int looks_ = 0, changes_ = 0;
};

TEST(RoleRuleClusterTest, OneRemainsInEachRoleHoweverOldWhatTheySeeIs) {
  int changes = 0;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    RoleCluster cluster(seed);
    for (int look = 0; look < 400; ++look) {
      cluster.Look();
      ASSERT_GT(cluster.Now().decode.workers, 0) << "seed " << seed << ", look " << look;
      ASSERT_GT(cluster.Now().prefill.workers, 0) << "seed " << seed << ", look " << look;
    }
    changes += cluster.changes();
  }
  EXPECT_GT(changes, 1000);
}

TEST(RoleRuleClusterTest, WhatADeathLeavesEmptyIsTakenWithinSeconds) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    RoleCluster cluster(seed);
    while (cluster.size() > 1) {
      for (int look = 0; look < 40; ++look) cluster.Look();
      cluster.KillFirstIn(cluster.size() % 2 == 0 ? kDecode : kPrefill);
      for (int look = 0; look < 12; ++look) cluster.Look();
      EXPECT_GT(cluster.Now().decode.workers, 0) << "seed " << seed;
      EXPECT_TRUE(cluster.Now().prefill.workers > 0 || cluster.size() == 1) << "seed " << seed;
    }
  }
}

}  // namespace
}  // namespace baton
