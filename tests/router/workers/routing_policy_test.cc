#include "router/workers/routing_policy.h"

#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "common/rpc/protocol_version.h"
#include "tests/router/workers/routing_fixture.h"

namespace baton::testing {
namespace {

// Of random needs and workers: who is said to want all that another wants can run wherever that
// one can.
TEST_F(RoutingPolicyTest, WhoWantsAllThatAnotherWantsCouldUseAllItsWorkers) {
  const auto need = [&] {
    RoutingNeed made{.peak_tokens = static_cast<int64_t>(1 + random_() % 30)};
    if (random_() % 2 == 0) {
      made.beam_tokens =
          1 + static_cast<int64_t>(random_() % static_cast<uint64_t>(made.peak_tokens));
    }
    if (random_() % 2 == 0) made.fingerprint = random_() % 2 == 0 ? "m" : "n";
    for (const char* unfit : {"v", "w"}) {
      if (random_() % 4 == 0) made.unfit.insert(View(unfit).key());
    }
    return made;
  };
  int found = 0;
  for (int i = 0; i < 40'000; ++i) {
    const RoutingNeed one = need(), other = need();
    WorkerView worker = View("w");
    worker.facts.fingerprint = random_() % 2 == 0 ? "m" : "n";
    worker.facts.layout.block_size = 1;
    worker.facts.max_model_len = static_cast<int32_t>(1 + random_() % 30);
    worker.facts.protocol_minor = random_() % 2 == 0 ? 0 : kProtocolMinorOfBeams;
    worker.blocks_total = static_cast<int32_t>(1 + random_() % 30);
    if (!WantsAllThat(one, other) || !CouldDecode(worker, other)) continue;
    ++found;
    EXPECT_TRUE(CouldDecode(worker, one));
  }
  EXPECT_GT(found, 200);
}

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
    decode_.push_back(View("d" + std::to_string(i)));
  }
  decode_[4].blocks_expected = 99;
  const auto shares = DecodeShares();
  EXPECT_EQ(shares.count("d5"), 0u);
  EXPECT_EQ(shares.size(), 7u);
}

TEST_F(RoutingPolicyTest, PrefillWorkerWithFewerQueuedTokensWins) {
  prefill_[1].queued_tokens = 500;
  for (int i = 0; i < 50; ++i) EXPECT_EQ(Pick()->prefill->address, "p1");
}

TEST_F(RoutingPolicyTest, PrefillWorkerWithAWarmPairWinsWhileItIsAboutAsFree) {
  decode_.pop_back();
  warm_.Set(&prefill_[1], {decode_[0].facts.incarnation});
  prefill_[1].queued_tokens = 100;
  for (int i = 0; i < 50; ++i) EXPECT_EQ(Pick({.tokens = 100})->prefill->address, "p2");
  prefill_[1].queued_tokens = 101;
  for (int i = 0; i < 50; ++i) EXPECT_EQ(Pick({.tokens = 100})->prefill->address, "p1");
}

TEST_F(RoutingPolicyTest, WarmPairOutweighsNoFaultAndBringsNobodyBack) {
  decode_.pop_back();
  warm_.Set(&prefill_[1], {decode_[0].facts.incarnation});
  const auto never_p2 = [&](const RoutingNeed& need = {.tokens = 100}) {
    for (int i = 0; i < 20; ++i) EXPECT_EQ(Pick(need)->prefill->address, "p1");
  };
  never_p2({.tokens = 100, .avoid = {prefill_[1].key()}});
  failed_ = {{"p2", "d1"}};
  never_p2();
  failed_.clear();
  prefill_[1].full_until = now_ + std::chrono::milliseconds(1);
  never_p2();
  prefill_[1].full_until = {};
  prefill_[1].places_free = 0;
  never_p2();
}

TEST_F(RoutingPolicyTest, WarmPairOfAWorkerThatGetsNothingIsNotUsed) {
  decode_.pop_back();
  WorkerView gone = View("p3");
  gone.serving = false;
  warm_.Set(&gone, {decode_[0].facts.incarnation});
  for (int i = 0; i < 20; ++i) EXPECT_NE(Pick({.tokens = 100})->prefill->address, "p3");
}

TEST_F(RoutingPolicyTest, WarmPairIsFoundAmongManyWorkers) {
  decode_.pop_back();
  for (int i = 3; i <= 400; ++i) prefill_.push_back(View("p" + std::to_string(i)));
  warm_.Set(&prefill_[300], {decode_[0].facts.incarnation});
  for (int i = 0; i < 50; ++i) EXPECT_EQ(Pick({.tokens = 100})->prefill->address, "p301");
}

TEST_F(RoutingPolicyTest, WaitsWhenNoPrefillWorkerHasAPlace) {
  for (WorkerView& view : prefill_) view.places_free = 0;
  EXPECT_FALSE(Pick().has_value());
  prefill_[1].places_free = 1;
  EXPECT_EQ(Pick()->prefill->address, "p2");
}

TEST_F(RoutingPolicyTest, LocalPrefillNeedsAPlaceToo) {
  prefill_.clear();
  EXPECT_FALSE(Pick()->prefill != nullptr);
  for (WorkerView& view : decode_) view.places_free = 0;
  EXPECT_FALSE(Pick().has_value());
}

TEST_F(RoutingPolicyTest, ShortPromptsStayLocal) {
  local_below_ = 32;
  EXPECT_FALSE(Pick({.tokens = 31})->prefill != nullptr);
  EXPECT_TRUE(Pick({.tokens = 32})->prefill != nullptr);
}

TEST_F(RoutingPolicyTest, OnlyWhatTheDecodeWorkerDoesNotHoldCounts) {
  local_below_ = 32;
  decode_.pop_back();
  const std::vector<TokenId> prompt(100, 7);
  const auto prefix = std::make_shared<PrefixChain>(ChainOf("", prompt, {}, 16));
  const RoutingNeed need{.tokens = 100, .prefix = prefix};
  EXPECT_TRUE(Pick(need)->prefill != nullptr);
  hints_.Note(decode_[0].key(), *prefix, 100, now_);
  const auto route = Pick(need);
  EXPECT_EQ(route->prefill, nullptr);
  EXPECT_EQ(route->held_tokens, 96);
}

TEST_F(RoutingPolicyTest, WhatIsScoredIsComputedWhereverItIsHeld) {
  local_below_ = 32;
  decode_.pop_back();
  const std::vector<TokenId> prompt(100, 7);
  RoutingNeed need{.tokens = 100};
  need.prefix = std::make_shared<PrefixChain>(ChainOf("", prompt, {}, 16));
  hints_.Note(decode_[0].key(), *need.prefix, 100, now_);
  need.cacheable_tokens = 0;
  EXPECT_NE(Pick(need)->prefill, nullptr);
  EXPECT_EQ(Pick(need)->held_tokens, 0);
  need.cacheable_tokens = 79;
  EXPECT_NE(Pick(need)->prefill, nullptr) << "the blocks of 64 tokens";
  need.cacheable_tokens = 80;
  EXPECT_EQ(Pick(need)->prefill, nullptr);
  EXPECT_EQ(Pick(need)->held_tokens, 80);
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
  for (int i = 0; i < 50; ++i) EXPECT_EQ(Pick()->prefill->address, "p2");
  prefill_.pop_back();
  EXPECT_EQ(Pick()->prefill->address, "p1");
}

TEST_F(RoutingPolicyTest, FailedPairIsPassedOverWhileThereIsAnother) {
  failed_ = {{"p1", "d1"}, {"p1", "d2"}};
  for (int i = 0; i < 50; ++i) EXPECT_EQ(Pick()->prefill->address, "p2");
  prefill_.pop_back();
  EXPECT_EQ(Pick()->prefill->address, "p1");
}

// As when the device of its host is lost: it looks the lightest, because nothing runs there.
TEST_F(RoutingPolicyTest, DecodeWorkerThatNobodyCanPushToIsPassedOverWhileThereIsAnother) {
  decode_[1].blocks_expected = 50;
  failed_ = {{"p1", "d1"}, {"p2", "d1"}};
  const RoutingNeed need{.tokens = 100, .peak_tokens = 200};
  EXPECT_EQ(DecodeShares(need), (std::map<std::string, int>{{"d2", 200}}));
  failed_ = {{"p1", "d1"}};
  EXPECT_EQ(DecodeShares(need), (std::map<std::string, int>{{"d1", 200}})) << "p2 may reach it";
  prefill_[1].facts.layout.block_size = 32;
  EXPECT_EQ(DecodeShares(need), (std::map<std::string, int>{{"d2", 200}})) << "p2 fits nobody";
  failed_.insert({"p1", "d2"});
  EXPECT_EQ(DecodeShares(need), (std::map<std::string, int>{{"d1", 200}})) << "both are as bad";
}

TEST_F(RoutingPolicyTest, NobodyNeedReachAWorkerThatComputesThePromptItself) {
  decode_[1].blocks_expected = 50;
  failed_ = {{"p1", "d1"}, {"p2", "d1"}};
  local_below_ = 32;
  const auto prefix =
      std::make_shared<PrefixChain>(ChainOf("", std::vector<TokenId>(100, 7), {}, 16));
  EXPECT_EQ(DecodeShares({.tokens = 31}), (std::map<std::string, int>{{"d1", 200}}));
  const RoutingNeed need{.tokens = 100, .prefix = prefix};
  EXPECT_EQ(DecodeShares(need), (std::map<std::string, int>{{"d2", 200}}));
  hints_.Note(decode_[0].key(), *prefix, 100, now_);
  EXPECT_EQ(DecodeShares(need), (std::map<std::string, int>{{"d1", 200}}));
}

TEST_F(RoutingPolicyTest, AvoidedWorkersAreALastResort) {
  RoutingNeed need;
  need.avoid = {decode_[0].key(), prefill_[1].key()};
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ(Pick(need)->decode->address, "d2");
    EXPECT_EQ(Pick(need)->prefill->address, "p1");
  }
  decode_.pop_back();
  EXPECT_EQ(Pick(need)->decode->address, "d1");
}

TEST_F(RoutingPolicyTest, FullDecodeWorkerGetsNothingForAWhile) {
  decode_[0].full_until = now_ + std::chrono::milliseconds(1);
  EXPECT_EQ(DecodeShares(), (std::map<std::string, int>{{"d2", 200}}));
  decode_.pop_back();
  EXPECT_FALSE(Pick().has_value());
}

TEST_F(RoutingPolicyTest, WorkerThatCouldNeverHoldTheRequestDoesNotGetIt) {
  decode_[0].blocks_total = 10;
  const RoutingNeed need{.tokens = 100, .peak_tokens = 500};
  EXPECT_EQ(DecodeShares(need), (std::map<std::string, int>{{"d2", 200}}));
  decode_.pop_back();
  EXPECT_EQ(std::get<Lack>(Try(need)), Lack::kDecode);
}

TEST_F(RoutingPolicyTest, PrefillWorkerTooSmallForThePromptDoesNotGetIt) {
  prefill_[0].blocks_total = 4;
  const RoutingNeed need{.tokens = 100, .peak_tokens = 150};
  for (int i = 0; i < 50; ++i) EXPECT_EQ(Pick(need)->prefill->address, "p2");
  prefill_[1].facts.max_model_len = 100;  // the prompt, but not the token after it
  EXPECT_EQ(Pick(need)->prefill, nullptr);
}

// Older ones would refuse it, others compute the prompt.
TEST_F(RoutingPolicyTest, PrefillWorkerTooShortForTheAnswerIsPassedOverWhileThereIsAnother) {
  prefill_[0].facts.max_model_len = 400;
  prefill_[1].queued_tokens = 500;
  const RoutingNeed need{.tokens = 100, .peak_tokens = 401};
  for (int i = 0; i < 50; ++i) EXPECT_EQ(Pick(need)->prefill->address, "p2");
  prefill_[1].facts.numerics = "x";
  EXPECT_EQ(Pick(need)->prefill->address, "p2");
  EXPECT_EQ(Pick({.tokens = 100, .peak_tokens = 400})->prefill->address, "p1") << "it fits";
  failed_ = {{"p2", "d1"}, {"p2", "d2"}};
  EXPECT_EQ(Pick(need)->prefill->address, "p1");
  prefill_.pop_back();
  EXPECT_EQ(Pick(need)->prefill->address, "p1");
}

TEST_F(RoutingPolicyTest, DecodeWorkerWithoutAPlaceIsNoCandidate) {
  decode_[0].places_free = 0;
  EXPECT_EQ(DecodeShares(), (std::map<std::string, int>{{"d2", 200}}));
  decode_[1].places_free = -3;
  EXPECT_EQ(std::get<Lack>(Try({})), Lack::kDecode);
}

TEST_F(RoutingPolicyTest, PrefillWorkerTakesPromptsWhileItsTokensLast) {
  prefill_[0].prompt_tokens_free = 0;
  for (int i = 0; i < 50; ++i) EXPECT_EQ(Pick()->prefill->address, "p2");
  prefill_[1].prompt_tokens_free = 1;  // the last prompt may go beyond
  EXPECT_NE(Pick({.tokens = 500, .peak_tokens = 600})->prefill, nullptr);
  prefill_[1].prompt_tokens_free = -499;
  EXPECT_EQ(std::get<Lack>(Try({})), Lack::kPrefill);
}

TEST_F(RoutingPolicyTest, WorkersThatAnEarlierRequestWaitsForAreKeptForIt) {
  decode_[0].blocks_total = 10;
  const RoutingNeed large{.tokens = 100, .peak_tokens = 500};
  const RoutingNeed* const ahead[] = {&large};
  for (int i = 0; i < 50; ++i) {
    const auto picked = Try({.tokens = 1, .peak_tokens = 10}, {.needs = ahead});
    EXPECT_EQ(std::get<Route>(picked).decode->address, "d1");
  }
  EXPECT_EQ(std::get<Lack>(Try(large, {.needs = ahead})), Lack::kDecode);
  EXPECT_EQ(std::get<Lack>(Try({}, {.prefill = ""})), Lack::kPrefill);
  EXPECT_EQ(std::get<Lack>(Try({}, {.prefill = "m"})), Lack::kPrefill);
  EXPECT_TRUE(std::holds_alternative<Route>(Try({}, {.prefill = "another model"})));
}

TEST_F(RoutingPolicyTest, DuringARolloutTheOtherVersionsPrefillWorkersServe) {
  decode_[0].facts.fingerprint = prefill_[0].facts.fingerprint = "new";
  prefill_[0].places_free = 0;
  for (int i = 0; i < 50; ++i) EXPECT_EQ(Pick()->decode->address, "d2");
}

TEST_F(RoutingPolicyTest, SilentWorkersAreNoCandidates) {
  decode_[0].fresh_until = now_ - std::chrono::milliseconds(1);
  EXPECT_EQ(DecodeShares(), (std::map<std::string, int>{{"d2", 200}}));
}

TEST_F(RoutingPolicyTest, OfAThousandWorkersOneThatFitsIsFound) {
  decode_.clear();
  for (int i = 0; i < 1000; ++i) {
    decode_.push_back(View("d" + std::to_string(i)));
    if (i != 577) decode_.back().blocks_total = 10;
  }
  EXPECT_EQ(Pick({.tokens = 100, .peak_tokens = 500})->decode->address, "d577");
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
  const auto prefill = Pointers(prefill_);
  const RoutingInput input{.decode = {},
                           .prefill = prefill,
                           .serving_prefill = prefill,
                           .failed_pairs = failed_,
                           .now = now_};
  RoutingNeed need;
  need.avoid = {prefill_[0].key()};
  const WorkerView* other = PickOtherPrefill(need, decode_[0], input, &random_);
  ASSERT_NE(other, nullptr);
  EXPECT_EQ(other->address, "p2");
  need.avoid.insert(prefill_[1].key());
  EXPECT_EQ(PickOtherPrefill(need, decode_[0], input, &random_), nullptr);
}

TEST_F(RoutingPolicyTest, AProcessOfBothRolesHandsNothingToItself) {
  decode_ = {View("both")};
  prefill_ = {View("both"), View("p1")};
  prefill_[1].queued_tokens = 100'000;
  for (int i = 0; i < 50; ++i) {
    const auto route = Pick();
    ASSERT_TRUE(route);
    EXPECT_EQ(route->prefill->address, "p1");
  }
  // Also where it is reached at another address.
  prefill_[0].address = "the same";
  prefill_[0].facts.incarnation = decode_[0].facts.incarnation;
  for (int i = 0; i < 50; ++i) {
    const auto route = Pick();
    ASSERT_TRUE(route);
    EXPECT_EQ(route->prefill->address, "p1");
  }
  // Where nobody else prefills it computes the prompt where it decodes.
  prefill_.pop_back();
  const auto route = Pick();
  ASSERT_TRUE(route);
  EXPECT_EQ(route->prefill, nullptr);
  EXPECT_EQ(route->split.reason, SplitReason::kNoPrefill);
}

}  // namespace
}  // namespace baton::testing
