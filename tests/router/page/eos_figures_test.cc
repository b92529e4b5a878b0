#include "router/page/eos_figures.h"

#include <cmath>

#include "gtest/gtest.h"

namespace baton {
namespace {

EosSignal SignalOf(float eos_prob) { return {.eos_logprob = std::log(eos_prob)}; }

EndEstimate EstimateAt(int32_t step, float within_16) {
  return {.at_step = step, .p_within = {0, 0, within_16, 1, 1}};
}

constexpr int32_t kAmple = 100'000;

// An answer of so many tokens whose end was foreseen with the same chance all the time.
void Answer(EosFigures* figures, int32_t tokens, FinishReason reason, float within_16,
            int32_t max_tokens = kAmple) {
  const auto watched = figures->Watch(false);
  ASSERT_NE(watched, nullptr);
  for (int32_t step = 1; step <= tokens; ++step) {
    watched->Token(SignalOf(step == tokens ? 0.9f : 0.01f));
    watched->Foresee(EstimateAt(step, within_16));
  }
  watched->End("r" + std::to_string(tokens), {.reason = reason, .max_tokens = max_tokens});
}

TEST(EosFigures, WatchesASampleAndThoseThatAskedUpToABound) {
  EosFigures figures;
  std::vector<std::unique_ptr<WatchedAnswer>> watched;
  while (auto one = figures.Watch(false)) watched.push_back(std::move(one));
  EXPECT_EQ(watched.size(), EosFigures::kSample);
  while (auto one = figures.Watch(true)) watched.push_back(std::move(one));
  EXPECT_EQ(watched.size(), EosFigures::kMost);
  EXPECT_EQ(figures.Get().watched, EosFigures::kMost);
  watched.clear();
  EXPECT_EQ(figures.Get().watched, 0u);
  EXPECT_NE(figures.Watch(false), nullptr);
}

TEST(EosFigures, RemembersTheLastAnswersTheNewestFirst) {
  EosFigures figures;
  for (int32_t i = 1; i <= 40; ++i) Answer(&figures, i, FinishReason::kLength, 0);
  figures.Watch(false)->End("without a token", {.reason = FinishReason::kError});
  const auto answers = figures.Get().answers;
  ASSERT_EQ(answers.size(), EosFigures::kAnswers);
  EXPECT_EQ(answers[0].request_id, "r40");
  EXPECT_EQ(answers[0].trace.steps(), 40);
  EXPECT_NEAR(answers[0].trace.cells().back(), 0.9, 1e-6);
}

TEST(EosFigures, CountsEstimatesByWhatWasSaidAndWhatCame) {
  EosFigures figures;
  Answer(&figures, 33, FinishReason::kStopEos, 0.25f);  // estimates at 1 and 17; none behind 33
  const auto bin = figures.Get().calibration[2][2];
  EXPECT_EQ(bin.estimates, 2);
  EXPECT_NEAR(bin.said, 0.5, 1e-6);
  EXPECT_EQ(bin.ended, 1);  // from 17 on it was 16 tokens to the end, from 1 on 32
}

TEST(EosFigures, EstimatesThatTheLimitLeavesNoRoomForDoNotCountHoweverTheAnswerEnded) {
  for (const FinishReason reason : {FinishReason::kLength, FinishReason::kStopEos}) {
    EosFigures figures;
    Answer(&figures, 30, reason, 0.25f, /*max_tokens=*/30);  // behind 17 there are but 13 steps
    const auto bin = figures.Get().calibration[2][2];
    EXPECT_EQ(bin.estimates, 1);
    EXPECT_EQ(bin.ended, 0);
    EXPECT_EQ(bin.unknown, 0);
  }
}

TEST(EosFigures, OfWhatSomethingElseEndedItIsNotKnownWhetherItWasRight) {
  EosFigures figures;
  Answer(&figures, 30, FinishReason::kStopString, 0.25f);
  const auto bin = figures.Get().calibration[2][2];
  EXPECT_EQ(bin.estimates, 2);
  EXPECT_EQ(bin.ended, 0);
  EXPECT_EQ(bin.unknown, 1);
}

TEST(EosFigures, AnAnswerThatIgnoredItsEndHadItWhereTheModelWantedIt) {
  EosFigures figures;
  const auto watched = figures.Watch(false);
  for (int32_t step = 1; step <= 100; ++step) watched->Token(SignalOf(0.01f));
  watched->Foresee(EstimateAt(1, 0.75f));
  watched->End("ignores",
               {.reason = FinishReason::kLength, .natural_end_step = 12, .max_tokens = 100});
  EXPECT_EQ(figures.Get().calibration[2][7].ended, 1);
}

TEST(EosFigures, AllOfAVeryLongAnswerCountsNotOnlyItsBeginningAndItsEnd) {
  EosFigures figures;
  Answer(&figures, 16'000, FinishReason::kStopEos, 0.25f);
  const auto bin = figures.Get().calibration[2][2];
  EXPECT_EQ(bin.estimates, 1000);
  EXPECT_EQ(bin.said, 250);
  EXPECT_EQ(bin.ended, 1);
}

TEST(EosFigures, OlderAnswersCountLess) {
  EosFigures figures;
  Answer(&figures, 10, FinishReason::kStopEos, 0.95f);
  for (int i = 0; i < 1000; ++i) Answer(&figures, 10, FinishReason::kStopEos, 0.05f);
  const auto calibration = figures.Get().calibration[2];
  EXPECT_LT(calibration[9].estimates, 0.4);
  EXPECT_LT(calibration[0].estimates, 1000);
}

}  // namespace
}  // namespace baton
