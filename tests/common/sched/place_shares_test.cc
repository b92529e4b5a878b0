#include "common/sched/place_shares.h"

#include <gmock/gmock.h>

#include <numeric>
#include <random>

namespace baton {
namespace {

using ::testing::ElementsAre;

std::vector<int64_t> Divide(int64_t capacity, std::vector<Claim> claims, uint64_t turn = 0) {
  return DivideShares(capacity, claims, turn);
}

TEST(PlaceSharesTest, OneRouterHasEverything) {
  EXPECT_THAT(Divide(64, {{.held = 0, .wanted = 0}}), ElementsAre(64));
  EXPECT_THAT(Divide(64, {{.held = 70, .wanted = 300}}), ElementsAre(64));
}

TEST(PlaceSharesTest, EqualDemandsGetEqualParts) {
  EXPECT_THAT(Divide(64, {{0, 100}, {0, 100}, {0, 100}, {0, 100}}), ElementsAre(16, 16, 16, 16));
}

TEST(PlaceSharesTest, WhatTheModestLeaveGoesToTheOthers) {
  EXPECT_THAT(Divide(64, {{0, 100}, {0, 4}, {0, 100}}), ElementsAre(30, 4, 30));
}

TEST(PlaceSharesTest, WhatNobodyWantsIsDividedEqually) {
  EXPECT_THAT(Divide(64, {{0, 10}, {0, 0}, {0, 0}}), ElementsAre(28, 18, 18));
}

TEST(PlaceSharesTest, WhatIsHeldIsNotLentASecondTime) {
  // The first has more than its fair half: it gets nothing new, the second what is free.
  EXPECT_THAT(Divide(64, {{60, 200}, {0, 200}}), ElementsAre(32, 4));
  EXPECT_THAT(Divide(64, {{64, 200}, {0, 200}}), ElementsAre(32, 0));
}

TEST(PlaceSharesTest, AnOddUnitGoesRound) {
  EXPECT_THAT(Divide(1, {{0, 5}, {0, 5}}, 0), ElementsAre(1, 0));
  EXPECT_THAT(Divide(1, {{0, 5}, {0, 5}}, 1), ElementsAre(0, 1));
}

TEST(PlaceSharesTest, NeverLendsMoreThanThereIsBesideWhatIsHeld) {
  std::mt19937 random(7);
  for (int round = 0; round < 5000; ++round) {
    const int64_t capacity = random() % 200;
    std::vector<Claim> claims(1 + random() % 12);
    for (Claim& claim : claims) {
      claim.held = random() % 40;
      claim.wanted = claim.held + (random() % 3 == 0 ? 0 : random() % 200);
    }
    const std::vector<int64_t> shares = Divide(capacity, claims, random());
    int64_t used = 0, held = 0;
    for (size_t i = 0; i < claims.size(); ++i) {
      ASSERT_GE(shares[i], 0);
      used += std::max(shares[i], claims[i].held);
      held += claims[i].held;
    }
    ASSERT_LE(used, std::max(capacity, held)) << "round " << round;
    // Nothing that somebody wants lies idle.
    const bool wanted = std::any_of(claims.begin(), claims.end(), [&](const Claim& claim) {
      return claim.wanted >
             std::max(claim.held, shares[static_cast<size_t>(&claim - claims.data())]);
    });
    if (wanted) {
      ASSERT_EQ(used, std::max(capacity, held)) << "round " << round;
    }
  }
}

TEST(PlaceSharesTest, ALineIsAsLongAsEndsComeDuringAPlacement) {
  EndRate rate;
  base::Instant now(std::chrono::hours(1));
  EXPECT_EQ(rate.LineFor(0, now), 0);
  now += std::chrono::seconds(1);
  EXPECT_EQ(rate.LineFor(1000, now), 10);
  now += std::chrono::seconds(1);
  EXPECT_EQ(rate.LineFor(1010, now), 0);
}

TEST(PlaceSharesTest, ALineIsLentOnlyWhileSeatsAreAllThatIsShort) {
  PlaceShares shares(LoanTurns::kQuick);
  const auto router = shares.Join();
  base::Instant now(std::chrono::hours(1));
  PlaceCapacity capacity{.places = 64, .seats = 64, .ended = 0, .step_prompt_tokens = 100};
  shares.Of(router, capacity, now);
  now += std::chrono::seconds(1);
  capacity.ended = 500;
  EXPECT_EQ(shares.Of(router, capacity, now).places, 64 + 5);
  capacity.ended = 10'000;  // a line of ninety would be too long
  now += std::chrono::seconds(1);
  EXPECT_EQ(shares.Of(router, capacity, now).places, 64 + 16);
  capacity.short_of_blocks = true;
  EXPECT_EQ(shares.Of(router, capacity, now).places, 64);
  capacity = {.places = 40, .seats = 64, .ended = 10'000, .step_prompt_tokens = 100};
  EXPECT_EQ(shares.Of(router, capacity, now).places, 40);
}

constexpr base::Duration kStatus = std::chrono::milliseconds(50);
constexpr PlaceShares::Demand kWaits{.places = {0, 5}, .prompt_tokens = {0, 500}};

TEST(PlaceSharesTest, APlaceThatNobodyTakesGoesRound) {
  PlaceShares shares(LoanTurns::kQuick);
  const PlaceCapacity capacity{.places = 1, .seats = 1, .step_prompt_tokens = 100};
  std::vector<PlaceShares::RouterId> routers;
  for (int i = 0; i < 3; ++i) routers.push_back(shares.Join());
  for (const auto router : routers) shares.SetDemand(router, kWaits);
  base::Instant now(std::chrono::hours(1));
  std::vector<size_t> lent_to;  // in turn
  for (int status = 0; status < 40; ++status, now += kStatus) {
    int64_t lent = 0;
    for (size_t i = 0; i < routers.size(); ++i) {
      const int64_t share = shares.Of(routers[i], capacity, now).places;
      lent += share;
      if (share > 0 && (lent_to.empty() || lent_to.back() != i)) lent_to.push_back(i);
    }
    EXPECT_LE(lent, 1) << "at status " << status;
  }
  ASSERT_GE(lent_to.size(), 4u);
  for (size_t i = 1; i < lent_to.size(); ++i) EXPECT_EQ(lent_to[i], (lent_to[i - 1] + 1) % 3);
}

TEST(PlaceSharesTest, APlaceStaysWhereItIsTakenOrNobodyElseWaits) {
  PlaceShares shares(LoanTurns::kQuick);
  const PlaceCapacity capacity{.places = 1, .seats = 1, .step_prompt_tokens = 100};
  const auto first = shares.Join();
  const auto second = shares.Join();
  base::Instant now(std::chrono::hours(1));
  const auto stays = [&] {
    for (int status = 0; status < 40; ++status, now += kStatus) {
      if (shares.Of(first, capacity, now).places != 1) return false;
      if (shares.Of(second, capacity, now).places != 0) return false;
    }
    return true;
  };
  shares.SetDemand(first, kWaits);
  EXPECT_TRUE(stays()) << "nobody else waits";
  shares.SetDemand(first, {.places = {1, 5}, .prompt_tokens = {0, 500}});
  shares.SetDemand(second, kWaits);
  EXPECT_TRUE(stays()) << "it is taken";
}

TEST(PlaceSharesTest, ARareStatusIsHeardBeforeAPlaceGoesOn) {
  PlaceShares shares(LoanTurns::kQuick);
  const PlaceCapacity capacity{.places = 1, .seats = 1, .step_prompt_tokens = 100};
  const auto first = shares.Join();
  const auto second = shares.Join();
  shares.SetDemand(first, kWaits);
  shares.SetDemand(second, kWaits);
  base::Instant now(std::chrono::hours(1));
  EXPECT_EQ(shares.Of(first, capacity, now).places, 1);
  now += std::chrono::milliseconds(500);
  EXPECT_EQ(shares.Of(first, capacity, now).places, 0);
  // Whoever is next has all its time from when it is told, however late that is.
  now += std::chrono::seconds(10);
  EXPECT_EQ(shares.Of(second, capacity, now).places, 1);
  now += std::chrono::milliseconds(200);
  EXPECT_EQ(shares.Of(second, capacity, now).places, 1);
}

// Workers of each kind with one place, and routers that want it, told at times of their own.
class LastPlaces {
 public:
  LastPlaces(size_t num_routers, base::Duration interval, uint64_t seed) : interval_(interval) {
    std::mt19937_64 random(seed);
    for (Lender* const lender : {&decode_, &prefill_}) {
      lender->turn = random() % num_routers;
      for (size_t i = 0; i < num_routers; ++i) {
        lender->shares.SetDemand(lender->shares.Join(), kWaits);
        lender->next.push_back(kBegin + kTick * static_cast<int64_t>(random() % 50));
        lender->told.push_back(false);
      }
    }
  }

  // Whether both places are, at a time within `limit`, with one router as it was told.
  bool Meet(base::Duration limit) {
    for (base::Instant now = kBegin; now <= kBegin + limit; now += kTick) {
      for (Lender* const lender : {&decode_, &prefill_}) Tell(lender, now);
      for (size_t i = 0; i < decode_.told.size(); ++i) {
        if (decode_.told[i] && prefill_.told[i]) return true;
      }
    }
    return false;
  }

 private:
  static constexpr base::Instant kBegin{std::chrono::hours(1)};
  static constexpr base::Duration kTick = std::chrono::milliseconds(10);
  struct Lender {
    explicit Lender(LoanTurns turns) : shares(turns) {}
    PlaceShares shares;
    uint64_t turn = 0;
    std::vector<base::Instant> next;
    std::vector<bool> told;
  };

  void Tell(Lender* lender, base::Instant now) {
    const PlaceCapacity capacity{
        .places = 1, .seats = 1, .ended = lender->turn, .step_prompt_tokens = 100};
    for (size_t i = 0; i < lender->told.size(); ++i) {
      if (now < lender->next[i]) continue;
      lender->next[i] = now + interval_;
      lender->told[i] = lender->shares.Of(i + 1, capacity, now).places > 0;
    }
  }

  const base::Duration interval_;
  Lender decode_{LoanTurns::kQuick}, prefill_{LoanTurns::kSlow};
};

TEST(PlaceSharesTest, LastPlacesOfTwoWorkersMeetAtARouterInARound) {
  for (const size_t num_routers : {2u, 3u, 5u, 16u}) {
    const base::Duration round = std::chrono::seconds(num_routers + 1);
    for (const base::Duration interval : {kStatus, 10 * kStatus}) {
      for (uint64_t seed = 1; seed <= 50; ++seed) {
        EXPECT_TRUE(LastPlaces(num_routers, interval, seed).Meet(round))
            << num_routers << " routers, a status each " << base::Milliseconds(interval)
            << " ms, seed " << seed;
      }
    }
  }
}

TEST(PlaceSharesTest, WhoLeftHasNoShareAndTakesNone) {
  PlaceShares shares(LoanTurns::kQuick);
  const auto first = shares.Join();
  const auto second = shares.Join();
  const PlaceCapacity capacity{.places = 8, .seats = 8, .step_prompt_tokens = 100};
  const base::Instant now(std::chrono::hours(1));
  shares.SetDemand(first, {.places = {0, 50}, .prompt_tokens = {0, 5000}});
  shares.SetDemand(second, {.places = {0, 50}, .prompt_tokens = {0, 5000}});
  EXPECT_EQ(shares.Of(first, capacity, now).places, 4);
  EXPECT_EQ(shares.Of(first, capacity, now).prompt_tokens, 100);
  shares.Leave(second);
  EXPECT_EQ(shares.Of(second, capacity, now).places, 0);
  EXPECT_EQ(shares.Of(first, capacity, now).places, 8);
  EXPECT_EQ(shares.Of(first, capacity, now).prompt_tokens, 200);
}

}  // namespace
}  // namespace baton
