#include "common/eos/predict/end_predictor.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <fstream>
#include <string>

#include "nlohmann/json.hpp"

namespace baton {
namespace {

constexpr SequenceId kId{1}, kOther{2};
const PredictRequest kRequest = {.prompt_tokens = 5, .temperature = 1, .length_class = "a"};

std::unique_ptr<PredictorFile> FileOf(const std::string& kind) {
  std::ifstream in(std::string(BATON_SOURCE_DIR) + "/tests/common/eos/predict/vectors/" + kind +
                   ".json");
  const auto json = nlohmann::json::parse(in);
  auto file = ParsePredictorFile(json["predictor"].get<std::string>());
  EXPECT_TRUE(file.ok()) << file.status();
  return std::make_unique<PredictorFile>(*std::move(file));
}

SampledToken TokenOf(TokenId id) {
  SampledToken token{.token = id};
  token.eos = {.eos_logprob = -1.0f - static_cast<float>(id % 7),
               .eos_prob_sampling = 0.01f * static_cast<float>(id % 5),
               .eos_rank = id % 9,
               .entropy = 1,
               .top1_prob = 0.5f};
  return token;
}

// Lets a request of 20 tokens end `count` times.
void Teach(EndPredictor* predictor, int32_t count) {
  for (int32_t i = 0; i < count; ++i) {
    const SequenceId id(1000 + static_cast<uint64_t>(i));
    predictor->Begin(id, kRequest, {}, /*learns=*/true);
    for (int32_t step = 1; step <= 20; ++step) predictor->Take(id, step, TokenOf(step));
    predictor->End(id, {.reason = FinishReason::kStopEos, .generated_tokens = 20});
  }
}

TEST(EndPredictorTest, LearnsFromEndsAndForeseesTheNext) {
  EndPredictor predictor(nullptr, {});
  EXPECT_FALSE(predictor.Begin(kId, kRequest, {}, true).has_value());
  EXPECT_FALSE(predictor.Take(kId, 1, TokenOf(1)).has_value()) << "nothing was learnt yet";
  Teach(&predictor, 60);
  const auto prior = predictor.Begin(kOther, kRequest, {}, true);
  ASSERT_TRUE(prior.has_value());
  EXPECT_EQ(prior->at_step, 0);
  EXPECT_NEAR(prior->expected_remaining, 20, 5);
  const auto estimate = predictor.Take(kOther, 1, TokenOf(1));
  ASSERT_TRUE(estimate.has_value());
  EXPECT_EQ(estimate->at_step, 1);
  EXPECT_EQ(estimate->kind, PredictorKind::kLearnt);
  EXPECT_LT(estimate->p_within[2], 0.1f) << "within 16, of 19";
  EXPECT_GT(estimate->p_within[3], 0.9f) << "within 64";
}

// Where the answer must go on, nothing is learnt of when it would have ended, nor said that it may.
TEST(EndPredictorTest, NoEndIsForeseenBeforeMinTokens) {
  EndPredictor learnt(nullptr, {}), file(FileOf("gru"), {});
  Teach(&learnt, 60);
  PredictRequest longer = kRequest;
  longer.min_tokens = 100;
  for (EndPredictor* predictor : {&learnt, &file}) {
    predictor->Begin(kId, longer, {}, true);
    predictor->Begin(kOther, kRequest, {}, true);
    for (int32_t step = 1; step <= 99; ++step) {
      const auto estimate = predictor->Take(kId, step, TokenOf(step));
      const auto unbarred = predictor->Take(kOther, step, TokenOf(step));
      ASSERT_TRUE(estimate.has_value() && unbarred.has_value());
      const int32_t barred = 100 - step;
      for (size_t i = 0; i < kEndHorizons.size(); ++i) {
        if (kEndHorizons[i] > barred) continue;
        EXPECT_EQ(estimate->p_within[i], 0) << step;
      }
      EXPECT_GE(estimate->expected_remaining, static_cast<float>(barred + 1)) << step;
      EXPECT_GE(estimate->p50, static_cast<float>(barred + 1)) << step;
      EXPECT_GE(estimate->p90, estimate->p50);
      if (predictor == &file) {
        EXPECT_NEAR(estimate->expected_remaining, unbarred->expected_remaining + barred, 1e-2);
      }
    }
    EXPECT_EQ(predictor->Take(kId, 100, TokenOf(100)), predictor->Take(kOther, 100, TokenOf(100)));
    const auto scores =
        predictor->End(kId, {.reason = FinishReason::kLength, .generated_tokens = 100});
    EXPECT_TRUE(scores.empty());
  }
}

TEST(EndPredictorTest, AnswersThatHadToGoOnDoNotChangeWhatIsLearntOfTheOthers) {
  EndPredictor predictor(nullptr, {});
  Teach(&predictor, 40);
  const auto before = predictor.Learnt("a", 0, 0);
  PredictRequest longer = kRequest;
  longer.min_tokens = 250;
  for (uint64_t i = 0; i < 40; ++i) {
    const SequenceId id(2000 + i);
    predictor.Begin(id, longer, {}, true);
    for (int32_t step = 1; step <= 258; ++step) predictor.Take(id, step, TokenOf(step));
    predictor.End(id, {.reason = FinishReason::kStopEos, .generated_tokens = 258});
  }
  const auto after = predictor.Learnt("a", 0, 0);
  ASSERT_TRUE(before && after);
  EXPECT_NEAR(after->p50, before->p50, 3);
  EXPECT_NEAR(predictor.Learnt("a", 10, 250)->p50, 248, 12);
}

TEST(EndPredictorTest, APrefillWorkerDoesNotLearnFromSequencesThatGoOnElsewhere) {
  EndPredictor predictor(nullptr, {});
  for (uint64_t i = 1; i < 100; ++i) {
    predictor.Begin(SequenceId(i), kRequest, {}, /*learns=*/false);
    predictor.Take(SequenceId(i), 1, TokenOf(1));
    predictor.End(SequenceId(i), {.reason = FinishReason::kStopEos, .generated_tokens = 1});
  }
  EXPECT_EQ(predictor.survival().ends(), 0u);
}

TEST(EndPredictorTest, EveryKindGoesOnAsIfNothingHadHappenedAround) {
  for (const char* kind : {"survival", "logistic", "trees", "mlp", "gru"}) {
    SCOPED_TRACE(kind);
    EndPredictor alone(FileOf(kind), {}), busy(FileOf(kind), {});
    alone.Begin(kId, kRequest, {}, true);
    busy.Begin(kId, kRequest, {}, true);
    busy.Begin(kOther, kRequest, {}, true);
    for (int32_t step = 1; step < 50; ++step) {
      busy.Take(kOther, step, TokenOf(step + 3));
      EXPECT_EQ(busy.Take(kId, step, TokenOf(step)), alone.Take(kId, step, TokenOf(step)));
    }
  }
}

TEST(EndPredictorTest, AStepThatIsMissingEndsTheEstimates) {
  EndPredictor predictor(FileOf("survival"), {});
  predictor.Begin(kId, kRequest, {}, true);
  EXPECT_TRUE(predictor.Take(kId, 1, TokenOf(1)).has_value());
  EXPECT_FALSE(predictor.Take(kId, 3, TokenOf(1)).has_value());
  EXPECT_FALSE(predictor.Take(kId, 4, TokenOf(1)).has_value());
  EXPECT_TRUE(
      predictor.End(kId, {.reason = FinishReason::kStopEos, .generated_tokens = 5}).empty());
  EXPECT_EQ(predictor.survival().ends(), 0u);
  EXPECT_EQ(predictor.live(), 0u);
}

TEST(EndPredictorTest, BehindAnEarlierAttemptSurvivalIsExactAndWindowsWarmUpFirst) {
  const std::vector<TokenId> generated(30, 4);
  EndPredictor survival(FileOf("survival"), {}), whole(FileOf("survival"), {});
  whole.Begin(kId, kRequest, {}, true);
  for (int32_t step = 1; step <= 30; ++step) whole.Take(kId, step, TokenOf(4));
  survival.Begin(kId, kRequest, generated, true);
  EXPECT_EQ(survival.Take(kId, 31, TokenOf(1)), whole.Take(kId, 31, TokenOf(1)));

  EndPredictor gru(FileOf("gru"), {});
  Teach(&gru, 60);
  gru.Begin(kId, kRequest, generated, true);
  for (int32_t row = 1; row < 60; ++row) {
    const auto estimate = gru.Take(kId, 30 + row, TokenOf(1));
    ASSERT_TRUE(estimate.has_value());
    EXPECT_EQ(estimate->at_step, 30 + row);
    EXPECT_EQ(estimate->kind, row < 32 ? PredictorKind::kLearnt : PredictorKind::kGru) << row;
  }
}

TEST(EndPredictorTest, BehindANaturalEndThereIsNothingToForesee) {
  EndPredictor predictor(FileOf("survival"), {});
  predictor.Begin(kId, kRequest, {}, true);
  for (int32_t step = 1; step <= 5; ++step) predictor.Take(kId, step, TokenOf(1));
  predictor.NaturalEnd(kId);
  for (int32_t step = 6; step <= 9; ++step) {
    EXPECT_FALSE(predictor.Take(kId, step, TokenOf(1)).has_value()) << step;
  }
  const auto scores = predictor.End(
      kId, {.reason = FinishReason::kLength, .natural_end_step = 5, .generated_tokens = 9});
  ASSERT_EQ(scores.size(), 1u);
  EXPECT_EQ(scores[0].remaining, 4);
  EXPECT_EQ(predictor.survival().ends(), 1u);
}

// What came of the estimate at step 1 of an answer of ten tokens.
EndScore ScoreOfTen(FinishReason reason, int32_t max_tokens) {
  EndPredictor predictor(FileOf("survival"), {});
  predictor.Begin(kId, kRequest, {}, true);
  for (int32_t step = 1; step <= 10; ++step) predictor.Take(kId, step, TokenOf(1));
  const auto scores =
      predictor.End(kId, {.reason = reason, .generated_tokens = 10, .max_tokens = max_tokens});
  EXPECT_EQ(scores.size(), 1u) << "step 1 of every 16";
  if (scores.size() != 1) return {};
  EXPECT_EQ(scores[0].estimate.at_step, 1);
  return scores[0];
}

constexpr EndOutcome kNotJudged = EndOutcome::kNotJudged, kEnded = EndOutcome::kEnded,
                     kWentOn = EndOutcome::kWentOn, kUnknown = EndOutcome::kUnknown;
using Outcomes = std::array<EndOutcome, kEndHorizons.size()>;

TEST(EndPredictorTest, ScoresSayWhatIsKnownAndNoMore) {
  const EndScore natural = ScoreOfTen(FinishReason::kStopEos, 1000);
  EXPECT_EQ(natural.remaining, 9);
  EXPECT_EQ(natural.outcomes, (Outcomes{kWentOn, kWentOn, kEnded, kEnded, kEnded}));
  const EndScore cancelled = ScoreOfTen(FinishReason::kAborted, 1000);
  EXPECT_EQ(cancelled.remaining, 0);
  EXPECT_EQ(cancelled.outcomes, (Outcomes{kWentOn, kWentOn, kUnknown, kUnknown, kUnknown}));
}

// Were ends near the limit judged, and what the limit cut off not, all that is judged would end.
TEST(EndPredictorTest, HorizonsBeyondTheLimitAreNotJudgedHoweverTheAnswerEnded) {
  const Outcomes expected = {kWentOn, kWentOn, kNotJudged, kNotJudged, kNotJudged};
  EXPECT_EQ(ScoreOfTen(FinishReason::kStopEos, 16).outcomes, expected);
  EXPECT_EQ(ScoreOfTen(FinishReason::kLength, 10).outcomes, expected);
  EXPECT_EQ(ScoreOfTen(FinishReason::kAborted, 16).outcomes, expected);
  EXPECT_EQ(ScoreOfTen(FinishReason::kStopEos, 17).outcomes[2], kEnded);
}

TEST(EndPredictorTest, AnAnswerIsScoredOnceEverySixteenSteps) {
  EndPredictor predictor(FileOf("survival"), {});
  predictor.Begin(kId, kRequest, {}, true);
  for (int32_t step = 1; step <= 1600; ++step) predictor.Take(kId, step, TokenOf(1));
  const auto scores =
      predictor.End(kId, {.reason = FinishReason::kStopEos, .generated_tokens = 1600});
  ASSERT_EQ(scores.size(), 100u);
  for (size_t i = 0; i < scores.size(); ++i) {
    EXPECT_EQ(scores[i].estimate.at_step, 1 + 16 * static_cast<int32_t>(i));
  }
}

TEST(EndPredictorTest, OfALongAnswerTheFirstAndTheLastEstimatesAreScored) {
  EndPredictor predictor(FileOf("survival"), {});
  predictor.Begin(kId, kRequest, {}, true);
  for (int32_t step = 1; step <= 40000; ++step) predictor.Take(kId, step, TokenOf(1));
  const auto scores =
      predictor.End(kId, {.reason = FinishReason::kStopEos, .generated_tokens = 40000});
  ASSERT_EQ(scores.size(), 128u);
  EXPECT_EQ(scores[0].estimate.at_step, 1);
  EXPECT_EQ(scores[0].outcomes[4], kWentOn);
  EXPECT_EQ(scores[63].estimate.at_step, 1 + 63 * 16);
  EXPECT_EQ(scores[64].estimate.at_step, 39985 - 63 * 16);
  EXPECT_EQ(scores[127].remaining, 40000 - 39985);
}

// A file that reads a probe, on a worker that computes none.
TEST(EndPredictorTest, WithoutTheProductsThatAFileReadsSurvivalStandsIn) {
  auto with_probe = FileOf("mlp");
  with_probe->probe = EosProbe{.hidden = 1, .dims = 2};
  with_probe->reads_probe = with_probe->reads_first_probe = true;
  EndPredictor predictor(std::move(with_probe), {});
  Teach(&predictor, 60);
  predictor.Begin(kId, kRequest, {}, true);
  EXPECT_EQ(predictor.Take(kId, 1, TokenOf(1))->kind, PredictorKind::kLearnt);
  predictor.Begin(kOther, kRequest, {}, true);
  SampledToken token = TokenOf(1);
  token.probe = {1, 2};
  EXPECT_EQ(predictor.Take(kOther, 1, token)->kind, PredictorKind::kMlp);
  token.probe.clear();
  EXPECT_EQ(predictor.Take(kOther, 2, token)->kind, PredictorKind::kLearnt);
}

}  // namespace
}  // namespace baton
