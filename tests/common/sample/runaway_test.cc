#include "common/sample/runaway.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <set>
#include <vector>

#include "common/base/token_boundary.h"

namespace baton {
namespace {

constexpr int32_t kWindow = RunawayGuard::kWindow;

// The rule as it is told, without the guard's book-keeping.
bool IsRunaway(const std::vector<TokenId>& answer, int32_t end_chance_step) {
  const auto length = static_cast<int32_t>(answer.size());
  if (length - end_chance_step < kWindow) return false;
  std::set<std::vector<TokenId>> seen;
  int32_t runs = 0;
  int32_t repeated = 0;
  for (auto run = answer.end() - kWindow; run + RunawayGuard::kGram <= answer.end(); ++run) {
    ++runs;
    repeated += seen.insert({run, run + RunawayGuard::kGram}).second ? 0 : 1;
  }
  return repeated >= RunawayGuard::kRepeated * runs;
}

TEST(RunawayGuardTest, AgreesWithTheRuleAtEveryStepAndFromEveryStep) {
  std::mt19937 random(7);
  for (const uint32_t loop : {2u, 13u, 37u, 38u, 60u}) {
    RunawayGuard guard({}, 0, {});
    std::vector<TokenId> answer;
    int32_t last_chance = 0;
    for (int32_t step = 1; step <= 900; ++step) {
      const bool wanders = step < 150 || (step > 500 && step < 560);
      answer.push_back(static_cast<TokenId>(wanders ? random() % 1000 : answer.size() % loop));
      SampledToken token{.token = answer.back()};
      token.eos.eos_logprob = std::log(step == 40 || step == 120 ? 0.06f : 0.04f);
      guard.Take(answer, &token);
      EXPECT_EQ(token.end_chance, step == 40 || step == 120);
      if (token.end_chance) last_chance = step;
      ASSERT_EQ(guard.runaway(), IsRunaway(answer, last_chance)) << loop << " " << step;
      if (step % 37 == 0) {
        ASSERT_EQ(RunawayGuard(answer, last_chance, {}).runaway(), guard.runaway()) << step;
      }
    }
    EXPECT_EQ(guard.runaway(), loop <= 37) << "at most 37 of 253 runs may be distinct";
  }
}

TEST(RunawayGuardTest, AModelWithoutEosHasNoChanceToEnd) {
  SampledToken token{.token = 5};
  token.eos.eos_logprob = std::nanf("");
  RunawayGuard guard({}, 0, {});
  const std::vector<TokenId> answer = {5};
  guard.Take(answer, &token);
  EXPECT_FALSE(token.end_chance);
}

TEST(RunawayGuardTest, AChanceIsAtTheStepBehindABoundary) {
  std::vector<uint8_t> boundaries(10);
  boundaries[3] = kEndsLine;
  boundaries[4] = kEndsSentence;
  const std::vector<TokenId> answer = {3, 4, 5, 6};
  RunawayGuard guard({}, 0, boundaries);
  std::vector<bool> chances;
  for (size_t n = 1; n <= answer.size(); ++n) {
    SampledToken token{.token = answer[n - 1]};
    guard.Take(std::span(answer).first(n), &token);
    chances.push_back(token.end_chance);
  }
  EXPECT_EQ(chances, (std::vector<bool>{false, true, true, false}));
}

TEST(RunawayGuardTest, ChancesThatCannotBeAreTakenAsTheNearestThatCan) {
  const std::vector<TokenId> answer(kWindow, 5);
  EXPECT_TRUE(RunawayGuard(answer, -7, {}).runaway());
  EXPECT_FALSE(RunawayGuard(answer, 1'000'000, {}).runaway());
  EXPECT_FALSE(RunawayGuard(answer, std::nullopt, {}).runaway());
}

}  // namespace
}  // namespace baton
