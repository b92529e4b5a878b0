// Where the decode worker that is picked first has no room for the prompt, or its prefill workers
// have none: who else gets it.
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/router/workers/routing_fixture.h"

namespace baton::testing {
namespace {

using Shares = std::map<std::string, int>;

// Of the two decode workers d1 is the lighter, so that it is always picked first.
class RoutingSecondTryTest : public RoutingPolicyTest {
 protected:
  RoutingSecondTryTest() {
    one_model_ = true;
    decode_[1].blocks_expected = 50;
  }
  static void TakeNoPrompts(std::vector<WorkerView>* views) {
    for (WorkerView& view : *views) view.prompt_tokens_free = 0;
  }
  // What picking came to, in each of 20 draws.
  Lack LackOf(const RoutingNeed& need) {
    const Lack lack = std::get<Lack>(Try(need));
    for (int i = 1; i < 20; ++i) EXPECT_EQ(std::get<Lack>(Try(need)), lack);
    return lack;
  }
  // Of 100 tokens, and d`number` holds 96 of them.
  RoutingNeed HeldBy(size_t number) {
    const auto prefix =
        std::make_shared<PrefixChain>(ChainOf("", std::vector<TokenId>(100, 7), {}, 16));
    hints_.Note(decode_[number - 1].key(), *prefix, 100, now_);
    return {.tokens = 100, .peak_tokens = 200, .prefix = prefix};
  }
};

TEST_F(RoutingSecondTryTest, WithoutPrefillWorkersAPromptGoesWhereThereIsRoomForIt) {
  prefill_.clear();
  decode_[0].prompt_tokens_free = 0;
  EXPECT_EQ(DecodeShares({.tokens = 100}), (Shares{{"d2", 200}}));
  decode_[1].prompt_tokens_free = 0;
  EXPECT_EQ(LackOf({.tokens = 100}), Lack::kDecode);
}

TEST_F(RoutingSecondTryTest, SoDoesAShortOne) {
  local_below_ = 32;
  decode_[0].prompt_tokens_free = 0;
  EXPECT_EQ(DecodeShares({.tokens = 31}), (Shares{{"d2", 200}}));
  EXPECT_EQ(DecodeShares({.tokens = 32}), (Shares{{"d1", 200}})) << "which is pushed";
}

TEST_F(RoutingSecondTryTest, AndOneForWhichNoPrefillWorkerIsLargeEnough) {
  for (WorkerView& view : prefill_) view.facts.max_model_len = 100;
  decode_[0].prompt_tokens_free = 0;
  EXPECT_EQ(DecodeShares({.tokens = 100}), (Shares{{"d2", 200}}));
}

TEST_F(RoutingSecondTryTest, OfManyWorkersTheOneWithRoomIsFound) {
  prefill_.clear();
  for (int i = 3; i <= 400; ++i) decode_.push_back(View("d" + std::to_string(i)));
  TakeNoPrompts(&decode_);
  decode_[211].prompt_tokens_free = 1;
  EXPECT_EQ(Pick({.tokens = 100})->decode->address, "d212");
}

TEST_F(RoutingSecondTryTest, AHeldPromptForWhichItsHolderHasNoRoomIsComputedElsewhere) {
  local_below_ = 32;
  const RoutingNeed need = HeldBy(1);
  decode_[0].prompt_tokens_free = 0;
  const auto route = Pick(need);
  ASSERT_TRUE(route);
  EXPECT_EQ(route->decode->address, "d2");
  EXPECT_NE(route->prefill, nullptr);
}

TEST_F(RoutingSecondTryTest, AHeldPromptGoesToItsHolderWherePrefillWorkersAreFull) {
  local_below_ = 32;
  TakeNoPrompts(&prefill_);
  EXPECT_EQ(DecodeShares(HeldBy(2)), (Shares{{"d2", 200}}));
}

// A pair of each of two layouts: that of d1 is full, that of d2 is idle.
TEST_F(RoutingSecondTryTest, OfTwoLayoutsThePairThatHasRoomIsTaken) {
  decode_[0].facts.layout.dtype = prefill_[0].facts.layout.dtype = "int8";
  prefill_[0].prompt_tokens_free = 0;
  for (const auto& local_below : {std::optional<int64_t>(0), std::optional<int64_t>(32), {}}) {
    local_below_ = local_below;
    const auto route = Pick({.tokens = 100});
    ASSERT_TRUE(route);
    EXPECT_EQ(route->decode->address, "d2");
    EXPECT_EQ(route->prefill->address, "p2");
  }
}

TEST_F(RoutingSecondTryTest, WhoFindsNeitherWaitsForAPrefillWorker) {
  local_below_ = 32;
  const RoutingNeed need = HeldBy(1);
  TakeNoPrompts(&prefill_);
  TakeNoPrompts(&decode_);
  EXPECT_EQ(LackOf(need), Lack::kPrefill);
  decode_[0].blocks_expected = 99;  // who has it is now the second
  EXPECT_EQ(LackOf(need), Lack::kPrefill);
}

// By cost d1, which has much to do, is better off if the prompt waits. That d2 would compute it at
// once is no reason not to.
TEST_F(RoutingSecondTryTest, WhoseWaitIsCheaperWaits) {
  local_below_ = std::nullopt;
  for (auto* const views : {&decode_, &prefill_}) {
    for (WorkerView& view : *views) {
      view.prompt_times = {.step_s = 0.01, .token_s = 1e-4, .step_tokens = 512};
    }
  }
  for (int i = 0; i < 8; ++i) table_.NoteHandoff(100, std::chrono::milliseconds(1));
  decode_[0].sequences = 500;
  TakeNoPrompts(&prefill_);
  EXPECT_EQ(LackOf({.tokens = 100}), Lack::kPrefill);
}

}  // namespace
}  // namespace baton::testing
