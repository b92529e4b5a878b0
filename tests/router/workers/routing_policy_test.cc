#include "router/workers/routing_policy.h"

#include <gtest/gtest.h>

#include <map>
#include <vector>

namespace baton {
namespace {

WorkerView View(const std::string& address, WorkerKind kind) {
  WorkerView view;
  view.link = std::make_shared<WorkerLink>();
  view.link->address = address;
  view.link->kind = kind;
  view.facts = {.incarnation = std::hash<std::string>()(address),
                .fingerprint = "m",
                .layout = {.dtype = "float32", .block_size = 16, .layers = 1},
                .numerics = "n",
                .protocol_major = 1,
                .max_model_len = 1000};
  view.places_free = 1;
  view.blocks_total = 100;
  return view;
}

class RoutingPolicyTest : public ::testing::Test {
 protected:
  std::optional<Route> Pick(RoutingNeed need = {}) {
    const RoutingInput input{.decode = decode_,
                             .prefill = prefill_,
                             .failed_pairs = failed_,
                             .hints = &hints_,
                             .local_prefill_below = local_below_,
                             .now = now_};
    return PickRoute(need, input, &random_);
  }
  // How often each decode worker is picked in 200 draws.
  std::map<std::string, int> DecodeShares(const RoutingNeed& need = {}) {
    std::map<std::string, int> shares;
    for (int i = 0; i < 200; ++i) {
      if (const auto route = Pick(need)) ++shares[route->decode.link->address];
    }
    return shares;
  }

  std::vector<WorkerView> decode_ = {View("d1", WorkerKind::kDecode),
                                     View("d2", WorkerKind::kDecode)};
  std::vector<WorkerView> prefill_ = {View("p1", WorkerKind::kPrefill),
                                      View("p2", WorkerKind::kPrefill)};
  PairSet failed_;
  PrefixHints hints_;
  int64_t local_below_ = 0;
  base::Instant now_ = base::Instant(std::chrono::hours(1));
  std::mt19937_64 random_{17};
};

TEST_F(RoutingPolicyTest, LighterDecodeWorkerWins) {
  decode_[0].blocks_expected = 50;
  EXPECT_EQ(DecodeShares(), (std::map<std::string, int>{{"d2", 200}}));
}

TEST_F(RoutingPolicyTest, OccupancyIsOfThePoolNotInBlocks) {
  decode_[0].blocks_expected = 60;
  decode_[0].blocks_total = 1000;
  decode_[1].blocks_expected = 20;
  EXPECT_EQ(DecodeShares().count("d2"), 0u);
}

TEST_F(RoutingPolicyTest, OfManyWorkersTheHeaviestIsNeverPicked) {
  for (int i = 3; i <= 8; ++i) {
    decode_.push_back(View("d" + std::to_string(i), WorkerKind::kDecode));
  }
  decode_[4].blocks_expected = 99;
  const auto shares = DecodeShares();
  EXPECT_EQ(shares.count("d5"), 0u);
  EXPECT_EQ(shares.size(), 7u);
}

TEST_F(RoutingPolicyTest, PrefillWorkerWithFewerQueuedTokensWins) {
  prefill_[1].queued_tokens = 500;
  for (int i = 0; i < 50; ++i) EXPECT_EQ(Pick()->prefill->link->address, "p1");
}

TEST_F(RoutingPolicyTest, WaitsWhenNoPrefillWorkerHasAPlace) {
  for (WorkerView& view : prefill_) view.places_free = 0;
  EXPECT_FALSE(Pick().has_value());
  prefill_[1].places_free = 1;
  EXPECT_EQ(Pick()->prefill->link->address, "p2");
}

TEST_F(RoutingPolicyTest, LocalPrefillNeedsAPlaceToo) {
  prefill_.clear();
  EXPECT_FALSE(Pick()->prefill.has_value());
  for (WorkerView& view : decode_) view.places_free = 0;
  EXPECT_FALSE(Pick().has_value());
}

TEST_F(RoutingPolicyTest, ShortPromptsStayLocal) {
  local_below_ = 32;
  EXPECT_FALSE(Pick({.tokens = 31})->prefill.has_value());
  EXPECT_TRUE(Pick({.tokens = 32})->prefill.has_value());
}

TEST_F(RoutingPolicyTest, OnlyWhatTheDecodeWorkerDoesNotHoldCounts) {
  local_below_ = 32;
  decode_.pop_back();
  const std::vector<TokenId> prompt(100, 7);
  const auto prefix = std::make_shared<PrefixChain>(ChainOf("", prompt, {}, 16));
  const RoutingNeed need{.tokens = 100, .prefix = prefix};
  EXPECT_TRUE(Pick(need)->prefill.has_value());
  hints_.Note(decode_[0].key(), *prefix, 100, now_);
  const auto route = Pick(need);
  EXPECT_FALSE(route->prefill.has_value());
  EXPECT_EQ(route->held_tokens, 96);
}

TEST_F(RoutingPolicyTest, OnlyEqualModelLayoutAndProtocolArePaired) {
  const WorkerFacts facts = decode_[0].facts;
  EXPECT_TRUE(CanPair(facts, facts));
  WorkerFacts other = facts;
  other.fingerprint = "x";
  EXPECT_FALSE(CanPair(other, facts));
  other = facts;
  other.layout.block_size = 32;
  EXPECT_FALSE(CanPair(other, facts));
  other = facts;
  other.protocol_major = 2;
  EXPECT_FALSE(CanPair(other, facts));
}

TEST_F(RoutingPolicyTest, TensorParallelSizesMayDifferWhereHeadsDivide) {
  WorkerFacts facts = decode_[0].facts;
  facts.layout.kv_heads = 4;
  WorkerFacts other = facts;
  for (const int32_t ranks : {2, 4, 8}) {
    other.layout.tensor_parallel = ranks;
    EXPECT_TRUE(CanPair(other, facts) && CanPair(facts, other)) << ranks;
  }
  other.layout.tensor_parallel = 3;
  EXPECT_FALSE(CanPair(other, facts));
}

TEST_F(RoutingPolicyTest, EqualNumericsArePreferredOtherOnesStillServe) {
  prefill_[0].facts.numerics = "x";
  for (int i = 0; i < 50; ++i) EXPECT_EQ(Pick()->prefill->link->address, "p2");
  prefill_.pop_back();
  EXPECT_EQ(Pick()->prefill->link->address, "p1");
}

TEST_F(RoutingPolicyTest, FailedPairIsPassedOverWhileThereIsAnother) {
  failed_ = {{"p1", "d1"}, {"p1", "d2"}};
  for (int i = 0; i < 50; ++i) EXPECT_EQ(Pick()->prefill->link->address, "p2");
  prefill_.pop_back();
  EXPECT_EQ(Pick()->prefill->link->address, "p1");
}

TEST_F(RoutingPolicyTest, AvoidedWorkersAreALastResort) {
  RoutingNeed need;
  need.avoid = {decode_[0].key(), prefill_[1].key()};
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ(Pick(need)->decode.link->address, "d2");
    EXPECT_EQ(Pick(need)->prefill->link->address, "p1");
  }
  decode_.pop_back();
  EXPECT_EQ(Pick(need)->decode.link->address, "d1");
}

TEST_F(RoutingPolicyTest, FullDecodeWorkerGetsNothingForAWhile) {
  decode_[0].full_until = now_ + std::chrono::milliseconds(1);
  EXPECT_EQ(DecodeShares(), (std::map<std::string, int>{{"d2", 200}}));
  decode_.pop_back();
  EXPECT_FALSE(Pick().has_value());
}

TEST_F(RoutingPolicyTest, WorkerThatCouldNeverHoldTheRequestIsALastResort) {
  decode_[0].blocks_total = 10;
  RoutingNeed need{.tokens = 100, .peak_tokens = 500};
  EXPECT_EQ(DecodeShares(need), (std::map<std::string, int>{{"d2", 200}}));
}

TEST_F(RoutingPolicyTest, RequestStaysWithItsModel) {
  decode_[0].facts.fingerprint = "old";
  RoutingNeed need;
  need.fingerprint = "old";
  EXPECT_EQ(DecodeShares(need), (std::map<std::string, int>{{"d1", 200}}));
  need.fingerprint = "gone";
  EXPECT_FALSE(Pick(need).has_value());
}

TEST_F(RoutingPolicyTest, OtherPrefillIsNeverOneThatRefused) {
  const RoutingInput input{.decode = {}, .prefill = prefill_, .failed_pairs = failed_, .now = now_};
  RoutingNeed need;
  need.avoid = {prefill_[0].key()};
  const auto other = PickOtherPrefill(need, decode_[0], input, &random_);
  ASSERT_TRUE(other.has_value());
  EXPECT_EQ(other->link->address, "p2");
  need.avoid.insert(prefill_[1].key());
  EXPECT_FALSE(PickOtherPrefill(need, decode_[0], input, &random_).has_value());
}

}  // namespace
}  // namespace baton
