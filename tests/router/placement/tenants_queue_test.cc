// Several tenants in one queue: whose turn it is, and what their bounds do.
#include <gmock/gmock.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "router/placement/request_queue.h"

namespace baton {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Outcome = RequestQueue::Try;

constexpr int64_t kPrompt = 10;
constexpr int64_t kOutput = 20;

class TenantsQueueTest : public ::testing::Test {
 protected:
  void Use(int32_t max_new, TenantRules rules = {}) {
    queue_ = std::make_unique<RequestQueue>(max_new, std::move(rules));
  }
  static RequestQueue::Waiting Request(uint64_t id, const std::string& tenant) {
    return {.id = id,
            .arrived = base::Instant(std::chrono::seconds(id)),
            .need = {.tokens = kPrompt, .peak_tokens = kPrompt + kOutput},
            .tenant = tenant,
            .prompt_tokens = kPrompt};
  }
  // Adds `count` requests with the ids `first`, `first` + 1, …
  void Add(const std::string& tenant, uint64_t first, int count) {
    for (uint64_t id = first; id < first + static_cast<uint64_t>(count); ++id) {
      ASSERT_TRUE(queue_->Add(Request(id, tenant)).ok());
      tenant_of_[id] = tenant;
    }
  }
  // Whom a request of `tenant` displaces.
  std::optional<uint64_t> Displaced(uint64_t id, const std::string& tenant) {
    const auto displaced = queue_->MakeRoomFor(Request(id, tenant));
    if (!displaced) return std::nullopt;
    EXPECT_EQ(displaced->tenant, tenant_of_[displaced->id]);
    return displaced->id;
  }
  // A pass for `places` places; returns who got them, in order. `outcome` may say that an id waits
  // for another worker.
  std::vector<uint64_t> Pass(
      int places,
      const std::function<Outcome(uint64_t)>& outcome = [](uint64_t) { return Outcome::kPlaced; }) {
    std::vector<uint64_t> placed;
    tried_ = 0;
    queue_->Pass({}, {.place =
                          [&](const RequestQueue::Waiting& waiting, const auto& ahead) {
                            ++tried_;
                            ahead_ = ahead.needs.size();
                            if (std::ssize(placed) == places) return Outcome::kNoDecode;
                            const Outcome what = outcome(waiting.id);
                            if (what == Outcome::kPlaced) placed.push_back(waiting.id);
                            return what;
                          },
                      .room =
                          [&](const auto&) {
                            const int64_t most = std::ssize(placed) < places ? 1'000'000 : 0;
                            return RequestQueue::Room{.context = most, .pool = most};
                          },
                      .hopeless = [](const auto&, base::Instant) { return false; }});
    return placed;
  }
  // Serves one request after the other, each to its end; returns how many each tenant got.
  std::map<std::string, int> Serve(int requests, int64_t output = kOutput) {
    std::map<std::string, int> got;
    for (int i = 0; i < requests; ++i) {
      for (const uint64_t id : Pass(1)) {
        ++got[tenant_of_[id]];
        queue_->Ended(id, {.output_tokens = output});
      }
    }
    return got;
  }

  std::unique_ptr<RequestQueue> queue_ = std::make_unique<RequestQueue>(10'000);
  std::map<uint64_t, std::string> tenant_of_;
  int tried_ = 0;
  size_t ahead_ = 0;
};

TEST_F(TenantsQueueTest, TakeTurnsWhoeverCameFirst) {
  Add("b", 100, 4);
  Add("a", 200, 3);
  EXPECT_THAT(Pass(7), ElementsAre(100, 200, 101, 201, 102, 202, 103));
}

TEST_F(TenantsQueueTest, AreServedTokensByTheirWeights) {
  Use(10'000, {.others = {}, .named = {{"heavy", {.weight = 3}}}});
  Add("heavy", 1000, 400);
  Add("light", 2000, 400);
  auto got = Serve(200);
  EXPECT_NEAR(got["heavy"], 150, 2);
  EXPECT_NEAR(got["light"], 50, 2);
}

TEST_F(TenantsQueueTest, TokensCountNotRequests) {
  for (uint64_t id = 0; id < 300; ++id) {
    RequestQueue::Waiting large = Request(1000 + id, "large");
    large.need = {.tokens = 110, .peak_tokens = 110 + kOutput};
    large.prompt_tokens = 110;  // 110 + 2 * 20 against 10 + 2 * 20: three times as much
    ASSERT_TRUE(queue_->Add(std::move(large)).ok());
    tenant_of_[1000 + id] = "large";
  }
  Add("small", 2000, 300);
  auto got = Serve(200);
  EXPECT_NEAR(got["small"], 150, 3);
  EXPECT_NEAR(got["large"], 50, 3);
}

TEST_F(TenantsQueueTest, WhatAnAnswerReallyHadIsWhatCounts) {
  Add("a", 1000, 400);
  Add("b", 2000, 400);
  std::map<std::string, int> got;
  for (int i = 0; i < 300; ++i) {
    for (const uint64_t id : Pass(1)) {
      const std::string& tenant = tenant_of_[id];
      ++got[tenant];
      // Both may have twenty tokens; a's answers end after five.
      queue_->Ended(id, {.output_tokens = tenant == "a" ? 5 : 20});
    }
  }
  EXPECT_NEAR(got["a"] * (10 + 2 * 5), got["b"] * (10 + 2 * 20), 100);
}

TEST_F(TenantsQueueTest, IdlenessIsNoCredit) {
  Add("a", 1000, 1000);
  Serve(500);
  Add("late", 5000, 100);
  auto got = Serve(100);
  EXPECT_NEAR(got["late"], 50, 1);
  EXPECT_NEAR(got["a"], 50, 1);
}

TEST_F(TenantsQueueTest, DebtOutlivesAMomentWithoutRequests) {
  RequestQueue::Waiting large = Request(1, "a");
  large.prompt_tokens = 1000;
  ASSERT_TRUE(queue_->Add(std::move(large)).ok());
  Pass(1);  // and nothing waits any more, while it runs
  Add("b", 2000, 10);
  Add("a", 3000, 10);
  const auto placed = Pass(9);
  EXPECT_EQ(std::ranges::count_if(placed, [&](uint64_t id) { return tenant_of_[id] == "b"; }), 9);
}

TEST_F(TenantsQueueTest, AnAttemptInVainGivesTheTenantItsTurnBack) {
  Add("a", 100, 2);
  Add("b", 200, 2);
  EXPECT_THAT(Pass(1), ElementsAre(100));
  queue_->Ended(100, {.in_vain = true});
  RequestQueue::Waiting again = Request(100, "a");
  again.is_new = false;
  ASSERT_TRUE(queue_->Add(std::move(again)).ok());
  EXPECT_THAT(Pass(4), ElementsAre(100, 200, 101, 201));
}

TEST_F(TenantsQueueTest, ANewcomerPaysNothingForWhatOthersGotBack) {
  Add("a", 100, 20);
  EXPECT_EQ(Pass(16).size(), 16u);
  for (uint64_t id = 100; id < 116; ++id) {
    queue_->Ended(id, {.in_vain = true});
    RequestQueue::Waiting again = Request(id, "a");
    again.is_new = false;
    ASSERT_TRUE(queue_->Add(std::move(again)).ok());
  }
  Add("b", 200, 2);
  EXPECT_THAT(Pass(4), ElementsAre(100, 200, 101, 201));
}

TEST_F(TenantsQueueTest, ATenantAtItsBoundHoldsNobodyBackAndComesAgainWhenOneEnds) {
  Use(100, {.others = {}, .named = {{"b", {.max_running = 2}}}});
  Add("b", 100, 5);
  Add("a", 200, 3);
  EXPECT_THAT(Pass(10), ElementsAre(100, 200, 101, 201, 202));
  EXPECT_EQ(ahead_, 0u);
  EXPECT_THAT(Pass(10), IsEmpty());
  EXPECT_EQ(tried_, 0) << "nobody who may not run is looked at";
  EXPECT_EQ(queue_->size(), 3);
  EXPECT_EQ(queue_->wanted().requests, 0);
  EXPECT_FALSE(queue_->Ended(200, {}));
  EXPECT_TRUE(queue_->Ended(100, {}));
  EXPECT_EQ(queue_->wanted().requests, 1);
  EXPECT_EQ(queue_->wanted().tokens, kPrompt);
  EXPECT_THAT(Pass(10), ElementsAre(102));
}

TEST_F(TenantsQueueTest, TheOwnBoundIsNoCreditEither) {
  Use(10'000, {.others = {}, .named = {{"bound", {.max_running = 1}}}});
  Add("bound", 1000, 1000);
  Add("a", 3000, 3000);
  // For a while `bound` has one place, and all others go to the other.
  uint64_t held = Pass(1).front();
  for (int i = 0; i < 500; ++i) {
    for (const uint64_t id : Pass(1)) queue_->Ended(id, {.output_tokens = kOutput});
  }
  queue_->Ended(held, {.output_tokens = kOutput});
  auto got = Serve(100);
  EXPECT_NEAR(got["bound"], 50, 1);
}

TEST_F(TenantsQueueTest, WhoWaitsForWorkersOfItsOwnHoldsBackNoOtherTenantForLong) {
  for (uint64_t id = 100; id < 140; ++id) {
    RequestQueue::Waiting large = Request(id, "large");
    large.need.peak_tokens = 1000;
    ASSERT_TRUE(queue_->Add(std::move(large)).ok());
  }
  Add("small", 200, 3);
  const auto placed =
      Pass(10, [](uint64_t id) { return id < 200 ? Outcome::kNoDecode : Outcome::kPlaced; });
  EXPECT_THAT(placed, ElementsAre(200, 201, 202));
  EXPECT_EQ(tried_, 1 + 3) << "those that want what one ahead waits for are not tried";
}

TEST_F(TenantsQueueTest, TheBoundOfATenantRefusesItAlone) {
  Use(100, {.others = {.max_queued = 2}, .named = {{"vip", {.max_queued = 0}}}});
  Add("a", 100, 2);
  const absl::Status refused = queue_->Add(Request(102, "a"));
  EXPECT_EQ(ReasonOf(refused), Reason::kQueueFull);
  EXPECT_TRUE(DetailOf(refused).retry_after.has_value());
  EXPECT_THAT(
      DetailOf(refused).values,
      ElementsAre(std::pair("tenant", "a"), std::pair("have", "2"), std::pair("limit", "2")));
  Add("b", 200, 2);
  Add("vip", 300, 50);
  RequestQueue::Waiting back = Request(1, "a");
  back.is_new = false;
  EXPECT_TRUE(queue_->Add(std::move(back)).ok());
}

TEST_F(TenantsQueueTest, AFullQueueMakesRoomForWhoHasLessThere) {
  Use(4);
  Add("a", 100, 4);
  EXPECT_EQ(Displaced(104, "a"), std::nullopt);
  EXPECT_EQ(ReasonOf(queue_->Add(Request(104, "a"))), Reason::kQueueFull);
  EXPECT_EQ(Displaced(200, "b"), 103u);
  Add("b", 200, 1);
  EXPECT_EQ(Displaced(201, "b"), 102u);
  Add("b", 201, 1);
  EXPECT_EQ(Displaced(202, "b"), std::nullopt) << "they have equally many";
  EXPECT_THAT(Pass(4), ElementsAre(100, 200, 101, 201));
}

TEST_F(TenantsQueueTest, RoomIsNotMadeInVainNorAtTheCostOfWhoComesBack) {
  Use(3, {.others = {}, .named = {{"b", {.max_queued = 1}}}});
  Add("b", 200, 1);
  Add("a", 100, 2);
  RequestQueue::Waiting back = Request(300, "a");
  back.is_new = false;
  ASSERT_TRUE(queue_->Add(std::move(back)).ok());
  EXPECT_EQ(Displaced(201, "b"), std::nullopt) << "b is at its own bound";
  EXPECT_EQ(Displaced(400, "c"), 101u);
}

TEST_F(TenantsQueueTest, TenantsThatAreGoneAreForgottenAndGainNothingByIt) {
  for (uint64_t i = 0; i < 5000; ++i) {
    Add(absl::StrCat("t", i), i, 1);
    for (const uint64_t id : Pass(1)) queue_->Ended(id, {.output_tokens = 4});
  }
  int known = 0;
  queue_->EachTenant([&](const auto&) { ++known; });
  EXPECT_LE(known, 1024);
  EXPECT_TRUE(queue_->empty());
  EXPECT_EQ(queue_->wanted().requests, 0);
  EXPECT_EQ(queue_->wanted().tokens, 0);
}

}  // namespace
}  // namespace baton
