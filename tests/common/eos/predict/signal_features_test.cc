// What the vectors do not show: attempts that begin behind tokens of others, and probes.
#include "common/eos/predict/signal_features.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace baton {
namespace {

const PredictRequest kNinePrompt = {.prompt_tokens = 9, .temperature = 0.5f, .top_p = 1};
// Token 3 ends a line, token 4 a sentence.
const std::vector<uint8_t> kBoundaries = {0, 0, 0, 1, 2};

double Of(const SignalFeatures& features, Feature feature) {
  return features.values()[static_cast<size_t>(feature)];
}

SignalRow RowOf(TokenId token, double logprob = -5) {
  return {.eos_logprob = logprob,
          .eos_prob_sampling = std::exp(logprob),
          .token = token,
          .ends_line = token == 3,
          .ends_sentence = token == 4};
}

TEST(SignalFeaturesTest, WhatTokensSayIsRebuiltBehindAnEarlierAttempt) {
  const std::vector<TokenId> generated = {1, 2, 4, 1, 2, 4, 1, 2, 4, 1, 2, 3, 1};
  SignalFeatures whole(kNinePrompt), restarted(kNinePrompt, generated, kBoundaries);
  for (const TokenId token : generated) whole.Add(RowOf(token));
  EXPECT_EQ(restarted.step(), whole.step());
  EXPECT_TRUE(restarted.restarted());
  EXPECT_FALSE(whole.restarted());
  whole.Add(RowOf(2));
  restarted.Add(RowOf(2));
  for (const Feature feature : {Feature::kStep, Feature::kLogStep, Feature::kSinceBoundary,
                                Feature::kBoundaries, Feature::kRepeat4, Feature::kLogPrompt}) {
    EXPECT_EQ(Of(restarted, feature), Of(whole, feature)) << FeatureName(feature);
  }
  EXPECT_EQ(Of(restarted, Feature::kBoundaries), 4);
  EXPECT_GT(Of(restarted, Feature::kRepeat4), 0);
}

TEST(SignalFeaturesTest, WindowsStartAnewBehindAnEarlierAttempt) {
  const std::vector<TokenId> generated(40, 1);
  SignalFeatures features(kNinePrompt, generated, kBoundaries);
  features.Add(RowOf(2, -1));
  EXPECT_EQ(features.rows(), 1);
  EXPECT_EQ(Of(features, Feature::kLoMean32), Of(features, Feature::kLo));
  EXPECT_EQ(Of(features, Feature::kLoStd), 0);
  features.Add(RowOf(2, -3));
  EXPECT_EQ(Of(features, Feature::kLoMean),
            (Of(features, Feature::kLoMax) + Of(features, Feature::kLo)) / 2);
}

TEST(SignalFeaturesTest, ARowBehindABoundaryOfAnEarlierAttemptIsKnownAsThat) {
  const std::vector<TokenId> generated = {1, 4};
  SignalFeatures features(kNinePrompt, generated, kBoundaries);
  features.Add(RowOf(2, -1));
  EXPECT_EQ(Of(features, Feature::kAfterLo), Of(features, Feature::kLo));
  EXPECT_EQ(Of(features, Feature::kSinceBoundary), 1);
}

TEST(SignalFeaturesTest, TheProbeOfTheFirstRowIsKept) {
  const std::vector<float> first = {1, 2}, second = {3, 4};
  SignalFeatures features(kNinePrompt);
  SignalRow row = RowOf(1);
  row.probe = first;
  features.Add(row);
  row.probe = second;
  features.Add(row);
  EXPECT_EQ(features.first_probe()[1], 2);
  EXPECT_EQ(features.probe()[1], 4);

  SignalFeatures later(kNinePrompt, std::vector<TokenId>{7});
  later.Add(row);
  EXPECT_TRUE(later.first_probe().empty()) << "the first row was another attempt's";
}

TEST(SignalFeaturesTest, EveryNameIsFoundAgain) {
  for (size_t i = 0; i < kFeatureCount; ++i) {
    const auto feature = static_cast<Feature>(i);
    EXPECT_EQ(FeatureOfName(FeatureName(feature)), feature);
  }
  EXPECT_FALSE(FeatureOfName("eos_prob").has_value());
}

}  // namespace
}  // namespace baton
