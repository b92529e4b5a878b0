#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <vector>

#include "tests/router/workers/routing_fixture.h"

namespace baton::testing {
namespace {

// --local-prefill-below auto, with two workers of each kind that take 0.1 ms for a token.
class RoutingByCostTest : public RoutingPolicyTest {
 protected:
  RoutingByCostTest() {
    local_below_ = std::nullopt;
    for (WorkerView& view : decode_) view.prompt_times = kTimes;
    for (WorkerView& view : prefill_) view.prompt_times = kTimes;
    for (int i = 0; i < 8; ++i) table_.NoteHandoff(100, std::chrono::milliseconds(1));
  }
  // Decode workers have so many sequences, prefill workers so many tokens queued.
  void Load(int64_t sequences, int64_t queued_tokens) {
    for (WorkerView& view : decode_) view.sequences = sequences;
    for (WorkerView& view : prefill_) view.queued_tokens = queued_tokens;
  }
  SplitReason ReasonOf(const std::optional<Route>& route) { return route->split.reason; }

  static constexpr PromptTimes kTimes = {.step_s = 0.01, .token_s = 1e-4, .step_tokens = 512};
  const RoutingNeed need_ = {.tokens = 100, .peak_tokens = 200};
};

TEST_F(RoutingByCostTest, BusyPrefillWorkersMakePromptsGoLocalAndIdleOnesSplitThem) {
  Load(20, 0);
  ASSERT_TRUE(Pick(need_));
  EXPECT_NE(Pick(need_)->prefill, nullptr);
  EXPECT_EQ(ReasonOf(Pick(need_)), SplitReason::kOthers);
  Load(20, 5000);
  EXPECT_EQ(Pick(need_)->prefill, nullptr);
  EXPECT_EQ(ReasonOf(Pick(need_)), SplitReason::kWait);
  Load(20, 0);
  prefill_[0].queued_tokens = 5000;  // the other one is free
  EXPECT_NE(Pick(need_)->prefill, nullptr);
}

TEST_F(RoutingByCostTest, ALongLineIsExpectedToDelayAsManyMore) {
  Load(20, 100);
  EXPECT_NE(Pick(need_)->prefill, nullptr);
  for (WorkerView& view : prefill_) {
    view.sequences = 3;
    view.line = 20;
  }
  EXPECT_EQ(Pick(need_)->prefill, nullptr);
  for (WorkerView& view : decode_) view.line = 20;
  EXPECT_NE(Pick(need_)->prefill, nullptr);
  for (WorkerView& view : decode_) view.line = 0;
  for (WorkerView& view : prefill_) view.sequences = 1;  // whatever came before, it is over soon
  EXPECT_NE(Pick(need_)->prefill, nullptr);
}

TEST_F(RoutingByCostTest, WithoutAPlaceTheShorterLineCounts) {
  for (WorkerView& view : prefill_) view.places_free = 0;
  Load(20, 5000);
  EXPECT_EQ(Pick(need_)->prefill, nullptr);
  prefill_[1].queued_tokens = 10;
  EXPECT_EQ(std::get<Lack>(Try(need_)), Lack::kPrefill);
}

TEST_F(RoutingByCostTest, WhereAnEarlierOneWaitsForPrefillWorkersALaterOneMayGoLocal) {
  Load(20, 5000);
  const auto picked = Try(need_, {.needs = {}, .prefill = ""});
  ASSERT_TRUE(std::holds_alternative<Route>(picked));
  EXPECT_EQ(std::get<Route>(picked).prefill, nullptr);
  Load(20, 0);
  EXPECT_EQ(std::get<Lack>(Try(need_, {.needs = {}, .prefill = ""})), Lack::kPrefill);
}

TEST_F(RoutingByCostTest, ADecodeWorkerThatTakesNoPromptsIsSpared) {
  Load(20, 5000);
  for (WorkerView& view : decode_) view.prompt_tokens_free = 0;
  EXPECT_NE(Pick(need_)->prefill, nullptr);
  for (WorkerView& view : prefill_) view.places_free = 0;
  EXPECT_EQ(std::get<Lack>(Try(need_)), Lack::kPrefill);
}

TEST_F(RoutingByCostTest, WhatADecodeWorkerHoldsSpeaksForIt) {
  decode_.pop_back();
  std::vector<TokenId> prompt(100, 7);
  RoutingNeed need = need_;
  need.prefix = std::make_shared<PrefixChain>(ChainOf("", prompt, {}, 16));
  Load(4, 0);
  EXPECT_NE(Pick(need)->prefill, nullptr);
  hints_.Note(decode_[0].key(), *need.prefix, 100, now_);
  EXPECT_EQ(Pick(need)->prefill, nullptr);
  hints_.Note(prefill_[0].key(), *need.prefix, 100, now_);
  hints_.Note(prefill_[1].key(), *need.prefix, 100, now_);
  Load(100, 0);
  EXPECT_NE(Pick(need)->prefill, nullptr);
}

TEST_F(RoutingByCostTest, WithoutPrefillWorkersEveryPromptIsLocal) {
  prefill_.clear();
  Load(1000, 0);
  EXPECT_EQ(Pick(need_)->prefill, nullptr);
  EXPECT_EQ(ReasonOf(Pick(need_)), SplitReason::kNoPrefill);
}

TEST_F(RoutingByCostTest, SplitsWhileNoHandoffWasSeen) {
  Load(0, 5000);
  EXPECT_EQ(Pick(need_)->prefill, nullptr);
  const WorkerTable new_table{{}};
  known_ = &new_table;
  EXPECT_NE(Pick(need_)->prefill, nullptr);
  EXPECT_EQ(ReasonOf(Pick(need_)), SplitReason::kUnknown);
}

}  // namespace
}  // namespace baton::testing
