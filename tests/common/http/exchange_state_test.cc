#include "common/http/exchange_state.h"

#include <memory>
#include <utility>

#include "common/http/http_exchange.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

class ExchangeStateTest : public testing::Test {
 protected:
  base::ManualClock clock_;
  int wakes_ = 0;
  std::shared_ptr<ExchangeState> state_ =
      std::make_shared<ExchangeState>(10, &clock_, [this] { ++wakes_; });
};

TEST_F(ExchangeStateTest, WakesOnceUntilItIsTaken) {
  state_->Begin(200, {});
  EXPECT_TRUE(state_->Write("ab"));
  EXPECT_TRUE(state_->Write("cd"));
  EXPECT_EQ(wakes_, 1);
  const ExchangeState::Outgoing first = state_->Take();
  ASSERT_TRUE(first.head);
  EXPECT_EQ(first.body, "abcd");
  EXPECT_FALSE(first.end);
  state_->End();
  EXPECT_EQ(wakes_, 2);
  const ExchangeState::Outgoing second = state_->Take();
  EXPECT_FALSE(second.head);
  EXPECT_TRUE(second.end);
}

TEST_F(ExchangeStateTest, RefusesWhatDoesNotFitBesideWhatWaits) {
  state_->Begin(200, {});
  EXPECT_TRUE(state_->Write("12345678"));
  EXPECT_FALSE(state_->Write("9ab"));
  EXPECT_TRUE(state_->Write("9a"));
  EXPECT_EQ(state_->Take().body, "123456789a");
  EXPECT_FALSE(state_->Write("b"));  // taken, but not by the client
  state_->Left(0);
  EXPECT_TRUE(state_->Write("more than ten bytes alone"));
}

TEST_F(ExchangeStateTest, AReplyInPiecesIsTakenOneByOne) {
  state_->Reply({.status = 200, .headers = {}, .body = "ab", .rest = {"cde", "f"}});
  const ExchangeState::Outgoing first = state_->Take();
  ASSERT_TRUE(first.head);
  EXPECT_EQ(first.head->body_bytes, 6U);
  EXPECT_EQ(first.body, "ab");
  EXPECT_FALSE(first.end);
  EXPECT_EQ(state_->fate(), ExchangeState::Fate::kEnded);
  const ExchangeState::Outgoing second = state_->Take();
  EXPECT_FALSE(second.head);
  EXPECT_EQ(second.body, "cde");
  EXPECT_FALSE(second.end);
  const ExchangeState::Outgoing third = state_->Take();
  EXPECT_EQ(third.body, "f");
  EXPECT_TRUE(third.end);
}

TEST_F(ExchangeStateTest, AReplyHoldsWhatItHasUntilItIsCompleteOrGone) {
  for (const bool gone : {true, false}) {
    auto state = std::make_shared<ExchangeState>(10, &clock_, nullptr);
    auto held = std::make_shared<int>();
    const std::weak_ptr<int> holds = held;
    state->Reply({.status = 200, .headers = {}, .body = "ab", .held = std::move(held)});
    state->Take();
    EXPECT_FALSE(holds.expired());
    gone ? state->Gone() : state->Complete();
    EXPECT_TRUE(holds.expired());
  }
}

TEST_F(ExchangeStateTest, TheLastChunkIsTakenWhateverWaitsAndHoldsWhatItHas) {
  for (const bool gone : {true, false}) {
    auto state = std::make_shared<ExchangeState>(10, &clock_, nullptr);
    auto held = std::make_shared<int>();
    const std::weak_ptr<int> holds = held;
    state->Begin(200, {});
    EXPECT_TRUE(state->Write("12345678"));
    state->WriteLast("9abcdef", std::move(held));
    EXPECT_EQ(state->fate(), ExchangeState::Fate::kEnded);
    const ExchangeState::Outgoing all = state->Take();
    EXPECT_EQ(all.body, "123456789abcdef");
    EXPECT_TRUE(all.end);
    EXPECT_FALSE(holds.expired());
    gone ? state->Gone() : state->Complete();
    EXPECT_TRUE(holds.expired());
  }
}

TEST_F(ExchangeStateTest, SaysSinceWhenNothingWasTaken) {
  EXPECT_EQ(state_->StalledSince(), std::nullopt);
  state_->Begin(200, {});
  const base::Instant began = clock_.Now();
  EXPECT_EQ(state_->StalledSince(), began);
  state_->Write("abc");
  state_->Take();
  clock_.Advance(std::chrono::seconds(5));
  EXPECT_EQ(state_->StalledSince(), began);
  state_->Left(1);
  EXPECT_EQ(state_->StalledSince(), clock_.Now());
  state_->Left(0);
  EXPECT_EQ(state_->StalledSince(), std::nullopt);
}

TEST_F(ExchangeStateTest, TellsOnceThatTheClientIsGone) {
  int told = 0;
  state_->OnGone([&] { ++told; });
  state_->Gone();
  state_->Gone();
  EXPECT_EQ(told, 1);
  state_->OnGone([&] { ++told; });
  EXPECT_EQ(told, 2);
  EXPECT_TRUE(state_->Write("lost"));
  EXPECT_EQ(wakes_, 0);
}

TEST_F(ExchangeStateTest, NobodyIsToldOfAClientThatHasAll) {
  int told = 0;
  state_->OnGone([&] { ++told; });
  state_->Reply({.status = 200, .headers = {}, .body = "all"});
  state_->Take();
  state_->Complete();
  state_->OnGone([&] { ++told; });
  EXPECT_EQ(told, 0);
}

TEST_F(ExchangeStateTest, AbortDropsWhatWaits) {
  state_->Begin(200, {});
  state_->Write("abc");
  state_->Abort();
  state_->End();
  const ExchangeState::Outgoing next = state_->Take();
  EXPECT_TRUE(next.abort);
  EXPECT_FALSE(next.head);
  EXPECT_EQ(next.body, "");
}

// The connection may have been woken before, and wait for its client to take the rest.
TEST_F(ExchangeStateTest, TheEndWakesOnceMore) {
  state_->Begin(200, {});
  state_->Write("abc");
  EXPECT_EQ(state_->fate(), ExchangeState::Fate::kOpen);
  EXPECT_EQ(wakes_, 1);
  state_->End();
  EXPECT_EQ(wakes_, 2);
  EXPECT_EQ(state_->fate(), ExchangeState::Fate::kEnded);
  EXPECT_EQ(state_->Take().body, "abc");
}

TEST_F(ExchangeStateTest, AbortWakesOnceMore) {
  state_->Begin(200, {});
  state_->Write("abc");
  state_->Abort();
  EXPECT_EQ(wakes_, 2);
  EXPECT_EQ(state_->fate(), ExchangeState::Fate::kAborted);
}

TEST_F(ExchangeStateTest, OneThatIsLetGoOfIsAnswered) {
  std::make_unique<HttpExchange>(HttpRequest{}, state_).reset();
  const ExchangeState::Outgoing next = state_->Take();
  ASSERT_TRUE(next.head);
  EXPECT_EQ(next.head->status, 500);
  EXPECT_TRUE(next.end);
}

TEST_F(ExchangeStateTest, OneThatIsLetGoOfInTheMiddleIsBrokenOff) {
  auto exchange = std::make_unique<HttpExchange>(HttpRequest{}, state_);
  exchange->Begin(200, {});
  exchange.reset();
  EXPECT_TRUE(state_->Take().abort);
}

}  // namespace
}  // namespace baton
