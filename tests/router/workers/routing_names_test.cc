// What each of --routing's names goes by.
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "common/rpc/protocol_version.h"
#include "router/placement/choose_place.h"

namespace baton {
namespace {

constexpr int32_t kBlockTokens = 16;
constexpr char kFingerprint[] = "m";

class RoutingNamesTest : public ::testing::Test {
 protected:
  RoutingNamesTest() : RoutingNamesTest(100) {}
  explicit RoutingNamesTest(int decode_workers) {
    for (int i = 0; i < decode_workers; ++i) Add(WorkerKind::kDecode, "d" + std::to_string(i));
  }

  void Add(WorkerKind kind, const std::string& address,
           WorkerFacts facts = {.max_model_len = 8192}) {
    table_.Add(kind, address, nullptr);
    facts.incarnation = ++incarnations_;
    facts.kinds = {kind};
    facts.fingerprint = kFingerprint;
    facts.layout = {.dtype = "float32", .block_size = kBlockTokens, .layers = 1};
    table_.Learn(kind, address, std::move(facts), /*accepted=*/true);
    keys_[address] = {address, incarnations_};
    Say(kind, address, {});
  }
  void Say(WorkerKind kind, const std::string& address, WorkerLoad load) {
    load.takes_new = true;
    load.blocks_total = 1000;
    load.share = WorkerShare{.places = 8, .prompt_tokens = 100'000};
    table_.Update(kind, address, load, now_);
  }
  // `address` reports the first `tokens` of the prompt.
  void Hold(const std::string& address, int64_t tokens) {
    const auto end = need_.prefix->blocks.begin() + tokens / kBlockTokens;
    hints_.Report(keys_.at(address),
                  {.whole = true, .version = 1, .added = {need_.prefix->blocks.begin(), end}},
                  now_);
  }
  Route Pick(Routing routing, int64_t local_prefill_below = 0) {
    const auto [outcome, route] = Try(routing, need_, local_prefill_below);
    EXPECT_EQ(outcome, RequestQueue::Try::kPlaced);
    return route;
  }
  std::pair<RequestQueue::Try, Route> Try(Routing routing, const RoutingNeed& need,
                                          int64_t local_prefill_below = 0) {
    const PlacementView view{.workers = table_,
                             .failed_pairs = no_pairs_,
                             .routing = routing,
                             .hints = &hints_,
                             .local_prefill_below = local_prefill_below,
                             .now = now_};
    ChosenPlace place;
    const RequestQueue::Try outcome = ChoosePlace(view, need, {}, &random_, &place);
    return {outcome, place.route};
  }

  static std::shared_ptr<const PrefixChain> Prompt(int tokens) {
    std::vector<TokenId> ids(static_cast<size_t>(tokens));
    std::iota(ids.begin(), ids.end(), 5);
    return std::make_shared<PrefixChain>(ChainOf("", ids, {}, kBlockTokens));
  }

  base::Instant now_{std::chrono::hours(1)};
  WorkerTable table_{
      {.status_fresh = std::chrono::seconds(2), .full_backoff = std::chrono::seconds(1)}};
  uint64_t incarnations_ = 0;
  std::map<std::string, WorkerKey> keys_;
  PrefixHints hints_;
  const PairSet no_pairs_;
  std::mt19937_64 random_{5};
  RoutingNeed need_{.tokens = 1600, .peak_tokens = 2000, .prefix = Prompt(1600)};
};

TEST_F(RoutingNamesTest, ByPrefixTheHolderOfTheMostIsFoundAmongMany) {
  Hold("d71", 1280);
  Hold("d72", 640);
  for (int i = 0; i < 50; ++i) {
    const Route route = Pick(Routing::kPrefix);
    EXPECT_EQ(route.decode->address, "d71");
    EXPECT_EQ(route.cached_tokens(), 1280);
    EXPECT_EQ(route.chosen_by, ChosenBy::kPrefix);
  }
}

TEST_F(RoutingNamesTest, ByPrefixEvenABusyHolderIsChosenByScoreOnlyWhileItPays) {
  Hold("d71", 1280);
  Say(WorkerKind::kDecode, "d71", {.queued_prompt_tokens = 1000});
  EXPECT_EQ(Pick(Routing::kScore).decode->address, "d71");
  Say(WorkerKind::kDecode, "d71", {.queued_prompt_tokens = 3000});
  EXPECT_EQ(Pick(Routing::kPrefix).decode->address, "d71");
  const Route route = Pick(Routing::kScore);
  EXPECT_NE(route.decode->address, "d71");
  EXPECT_EQ(route.chosen_by, ChosenBy::kLoad);
  EXPECT_EQ(route.cached_tokens(), 0);
}

TEST_F(RoutingNamesTest, AHolderWithoutAPlaceIsNotChosen) {
  Hold("d71", 1280);
  Say(WorkerKind::kDecode, "d71", {});
  for (int i = 0; i < 8; ++i) {
    table_.Take(WorkerKind::kDecode, keys_.at("d71"), {.tokens = 1600, .decodes = true});
  }
  EXPECT_NE(Pick(Routing::kPrefix).decode->address, "d71");
  EXPECT_NE(Pick(Routing::kScore).decode->address, "d71");
}

TEST_F(RoutingNamesTest, AHolderOfAPromptThatIsScoredIsAsGoodAsAnyOther) {
  Hold("d71", 1280);
  need_.cacheable_tokens = 0;
  for (const Routing routing : {Routing::kPrefix, Routing::kScore}) {
    int there = 0;
    for (int i = 0; i < 200; ++i) there += Pick(routing).decode->address == "d71" ? 1 : 0;
    EXPECT_LT(there, 40) << "one of seventeen that are looked at";
  }
}

TEST_F(RoutingNamesTest, ByLoadTheCacheIsNotAskedFor) {
  Hold("d71", 1280);
  int there = 0;
  for (int i = 0; i < 200; ++i) there += Pick(Routing::kLoad).decode->address == "d71" ? 1 : 0;
  EXPECT_LT(there, 20);
}

TEST_F(RoutingNamesTest, ByWhatRemainsAFullWorkerThatIsSoonEmptyIsBetterThanAnEmptierOne) {
  for (int i = 0; i < 100; ++i) {
    Say(WorkerKind::kDecode, "d" + std::to_string(i),
        i % 2 == 0 ? WorkerLoad{.blocks_in_use = 900,
                                .running = 10,
                                .foreseen = 10,
                                .expected_tokens = 50,
                                .expected_kv_tokens = 14'400.0 * 5}
                   : WorkerLoad{.blocks_in_use = 300,
                                .running = 10,
                                .foreseen = 10,
                                .expected_tokens = 10'000,
                                .expected_kv_tokens = 4'800.0 * 1000});
  }
  int soon = 0;
  for (int i = 0; i < 200; ++i) {
    const Route route = Pick(Routing::kRemaining);
    EXPECT_EQ(route.chosen_by, ChosenBy::kRemaining);
    soon += route.decode->blocks_expected >= 900 ? 1 : 0;
  }
  EXPECT_GT(soon, 130) << "three of four draws of two have one";
}

TEST_F(RoutingNamesTest, WhereNothingIsForeseenWhatRemainsIsTheLoad) {
  for (int i = 1; i < 100; ++i) {
    Say(WorkerKind::kDecode, "d" + std::to_string(i), {.blocks_in_use = 500 + i});
  }
  for (int i = 0; i < 100; ++i) {
    const Route route = Pick(Routing::kRemaining);
    EXPECT_EQ(route.chosen_by, ChosenBy::kLoad);
    EXPECT_NE(route.decode->address, "d99") << "the fullest of all loses to any other";
  }
}

class RoutingOfFewTest : public RoutingNamesTest {
 protected:
  RoutingOfFewTest() : RoutingNamesTest(5) {}
};

// Who is about to be sent a prompt draws those that begin alike, and does not have it yet.
TEST_F(RoutingOfFewTest, WhatIsOnlyExpectedDrawsRequestsAndIsNotHeld) {
  Add(WorkerKind::kPrefill, "p0");
  Hold("d3", 0);
  hints_.Expect(keys_.at("d3"), *need_.prefix, now_);
  for (int i = 0; i < 50; ++i) {
    const Route route = Pick(Routing::kPrefix, /*local_prefill_below=*/500);
    EXPECT_EQ(route.decode->address, "d3");
    EXPECT_NE(route.prefill, nullptr) << "a long prompt that nobody has computed";
    EXPECT_EQ(route.held_tokens, 0) << "which the worker would be distrusted for";
  }
  Hold("d3", 1280);
  EXPECT_EQ(Pick(Routing::kPrefix, 500).prefill, nullptr);
}

// Prompts that are queued have no blocks yet.
TEST_F(RoutingOfFewTest, ByPrefixAmongEqualsALongQueueIsALoad) {
  for (int i = 0; i < 5; ++i) {
    Say(WorkerKind::kDecode, "d" + std::to_string(i), {.blocks_in_use = 100});
  }
  Say(WorkerKind::kDecode, "d2", {.queued_prompt_tokens = 5000, .blocks_in_use = 50});
  for (int i = 0; i < 50; ++i) EXPECT_NE(Pick(Routing::kPrefix).decode->address, "d2");
}

TEST_F(RoutingOfFewTest, OfEqualWorkersAnyIsChosen) {
  Add(WorkerKind::kPrefill, "p0");
  Add(WorkerKind::kPrefill, "p1");
  for (const Routing routing : {Routing::kPrefix, Routing::kScore}) {
    std::map<std::string, int> decode, prefill;
    for (int i = 0; i < 200; ++i) {
      const Route route = Pick(routing);
      ++decode[route.decode->address];
      ++prefill[route.prefill->address];
    }
    EXPECT_EQ(decode.size(), 5u) << "routers that know the same would all run to one worker";
    EXPECT_EQ(prefill.size(), 2u);
    for (const auto& [address, times] : decode) EXPECT_LT(times, 100) << address;
  }
}

TEST_F(RoutingOfFewTest, OfWarmPairsTheOneThatHasThePromptCachedIsChosen) {
  std::vector<uint64_t> decodes;
  for (const auto& [address, key] : keys_) decodes.push_back(key.incarnation);
  for (const char* const address : {"p0", "p1", "p2", "p3"}) {
    Add(WorkerKind::kPrefill, address);
    Say(WorkerKind::kPrefill, address, {.warm_pairs = decodes});
  }
  Hold("p2", 1280);
  for (const Routing routing : {Routing::kPrefix, Routing::kScore}) {
    for (int i = 0; i < 50; ++i) EXPECT_EQ(Pick(routing).prefill->address, "p2");
  }
}

TEST_F(RoutingOfFewTest, OfManyWarmPairsToo) {
  std::vector<uint64_t> decodes;
  for (const auto& [address, key] : keys_) decodes.push_back(key.incarnation);
  for (int i = 0; i < 100; ++i) {
    const std::string address = "p" + std::to_string(i);
    Add(WorkerKind::kPrefill, address);
    Say(WorkerKind::kPrefill, address, {.warm_pairs = decodes});
  }
  Hold("p62", 1280);
  for (int i = 0; i < 50; ++i) EXPECT_EQ(Pick(Routing::kPrefix).prefill->address, "p62");
}

TEST_F(RoutingNamesTest, AHolderIsFoundAmongHoldersThatCannotBeChosen) {
  for (int i = 0; i < 100; ++i) Add(WorkerKind::kPrefill, "p" + std::to_string(i));
  Hold("p33", 1280);
  for (int i = 0; i < 10; ++i) Hold("d" + std::to_string(i), 1280);
  for (int i = 0; i < 50; ++i) EXPECT_EQ(Pick(Routing::kPrefix).prefill->address, "p33");
}

TEST_F(RoutingNamesTest, ThePrefillWorkerThatHasThePromptCachedComputesIt) {
  for (int i = 0; i < 100; ++i) Add(WorkerKind::kPrefill, "p" + std::to_string(i));
  Hold("p33", 1280);
  for (const Routing routing : {Routing::kPrefix, Routing::kScore}) {
    const Route route = Pick(routing);
    ASSERT_NE(route.prefill, nullptr);
    EXPECT_EQ(route.prefill->address, "p33");
    EXPECT_EQ(route.cached_tokens(), 1280);
  }
  Say(WorkerKind::kPrefill, "p33", {.queued_prompt_tokens = 2000});
  EXPECT_NE(Pick(Routing::kScore).prefill->address, "p33");
}

// Workers that hold a search by its length or by its pool, and none by both.
class RoutingOfBeamsTest : public RoutingNamesTest {
 protected:
  RoutingOfBeamsTest() : RoutingNamesTest(0) {}

  void AddDecode(const std::string& address, int32_t max_model_len, int32_t blocks,
                 int32_t protocol_minor = kProtocolMinorOfBeams) {
    Add(WorkerKind::kDecode, address,
        {.protocol_minor = protocol_minor, .max_model_len = max_model_len});
    table_.Update(WorkerKind::kDecode, address,
                  {.takes_new = true,
                   .blocks_total = blocks,
                   .share = WorkerShare{.places = 1, .prompt_tokens = 100'000}},
                  now_);
  }
  RequestQueue::Try TrySearch() { return Try(Routing::kLoad, search_).first; }

  const RoutingNeed search_{.tokens = 1600, .peak_tokens = 3200, .beam_tokens = 2000};
};

TEST_F(RoutingOfBeamsTest, ASearchThatNoWorkerHoldsIsAbsentAndNotOnlyWithoutAPlace) {
  AddDecode("long", 8192, 2500 / kBlockTokens);
  AddDecode("large", 1900, 6400 / kBlockTokens);
  EXPECT_EQ(TrySearch(), RequestQueue::Try::kAbsent);
  AddDecode("both", 2000, 3200 / kBlockTokens);
  EXPECT_EQ(TrySearch(), RequestQueue::Try::kPlaced);
  table_.Take(WorkerKind::kDecode, keys_.at("both"), {.tokens = 1600, .decodes = true});
  EXPECT_EQ(TrySearch(), RequestQueue::Try::kNoDecode) << "it has no place now";
}

TEST_F(RoutingOfBeamsTest, WorkersThatKnowNoBeamsGetNoSearch) {
  AddDecode("old", 8192, 1000, kProtocolMinorOfBeams - 1);
  EXPECT_EQ(TrySearch(), RequestQueue::Try::kAbsent);
  EXPECT_EQ(Try(Routing::kLoad, need_).first, RequestQueue::Try::kPlaced);
  AddDecode("new", 8192, 1000);
  Add(WorkerKind::kPrefill, "p0",
      {.protocol_minor = kProtocolMinorOfBeams - 1, .max_model_len = 8192});
  for (int i = 0; i < 20; ++i) {
    const auto [outcome, route] = Try(Routing::kLoad, search_);
    ASSERT_EQ(outcome, RequestQueue::Try::kPlaced);
    EXPECT_EQ(route.decode->address, "new");
    EXPECT_EQ(route.prefill, nullptr) << "who sends no candidates computes no prompt of a search";
  }
  Add(WorkerKind::kPrefill, "p1", {.protocol_minor = kProtocolMinorOfBeams, .max_model_len = 8192});
  const auto [outcome, route] = Try(Routing::kLoad, search_);
  ASSERT_EQ(outcome, RequestQueue::Try::kPlaced);
  ASSERT_NE(route.prefill, nullptr);
  EXPECT_EQ(route.prefill->address, "p1");
}

}  // namespace
}  // namespace baton
