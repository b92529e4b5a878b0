#include "common/sample/validate.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "common/base/status.h"

namespace baton {
namespace {

constexpr int32_t kVocab = 100;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

struct Bad {
  std::string field;
  std::function<void(SamplingParams*)> set;
};

TEST(ValidateSamplingTest, AcceptsDefaultsAndEdges) {
  EXPECT_TRUE(ValidateSampling({}, kVocab).ok());
  SamplingParams edges;
  edges.temperature = 0;
  edges.top_k = 0;
  edges.top_p = 1;
  edges.min_p = 1;
  edges.presence_penalty = -2;
  edges.frequency_penalty = 2;
  edges.num_top_logprobs = kMaxTopLogprobs;
  edges.logit_bias = {{0, -100.0f}, {kVocab - 1, 100.0f}};
  EXPECT_TRUE(ValidateSampling(edges, kVocab).ok());
}

TEST(ValidateSamplingTest, RefusesWhatIsOutOfRangeAndNamesTheField) {
  const std::vector<Bad> cases = {
      {"temperature", [](auto* p) { p->temperature = -0.1f; }},
      {"temperature", [](auto* p) { p->temperature = kNan; }},
      {"temperature", [](auto* p) { p->temperature = kInf; }},
      {"top_k", [](auto* p) { p->top_k = -1; }},
      {"top_p", [](auto* p) { p->top_p = 0; }},
      {"top_p", [](auto* p) { p->top_p = 1.01f; }},
      {"top_p", [](auto* p) { p->top_p = kNan; }},
      {"min_p", [](auto* p) { p->min_p = -0.01f; }},
      {"min_p", [](auto* p) { p->min_p = 1.01f; }},
      {"min_p", [](auto* p) { p->min_p = kNan; }},
      {"repetition_penalty", [](auto* p) { p->repetition_penalty = 0; }},
      {"repetition_penalty", [](auto* p) { p->repetition_penalty = kInf; }},
      {"presence_penalty", [](auto* p) { p->presence_penalty = kNan; }},
      {"frequency_penalty", [](auto* p) { p->frequency_penalty = -kInf; }},
      {"no_repeat_ngram_size", [](auto* p) { p->no_repeat_ngram_size = -1; }},
      {"logprobs", [](auto* p) { p->num_top_logprobs = -1; }},
      {"logprobs", [](auto* p) { p->num_top_logprobs = kMaxTopLogprobs + 1; }},
      {"logit_bias",
       [](auto* p) {
         p->logit_bias = {{1, kNan}};
       }},
  };
  for (const Bad& bad : cases) {
    SamplingParams params;
    bad.set(&params);
    const absl::Status status = ValidateSampling(params, kVocab);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << bad.field;
    EXPECT_EQ(ReasonOf(status), Reason::kInvalidSampling) << bad.field;
    EXPECT_EQ(DetailOf(status).field, bad.field);
  }
}

TEST(ValidateSamplingTest, RefusesABiasOutsideTheVocabulary) {
  for (const TokenId id : {-1, kVocab}) {
    SamplingParams params;
    params.logit_bias = {{id, 1.0f}};
    EXPECT_EQ(ReasonOf(ValidateSampling(params, kVocab)), Reason::kInvalidTokenId);
  }
}

TEST(ValidateStopTest, RefusesBadCountsIdsAndConflicts) {
  EXPECT_TRUE(ValidateStop({}, kVocab).ok());
  EXPECT_TRUE(ValidateStop({.max_tokens = 3, .min_tokens = 3}, kVocab).ok());
  EXPECT_EQ(ReasonOf(ValidateStop({.max_tokens = -1}, kVocab)), Reason::kInvalidMaxTokens);
  EXPECT_EQ(ReasonOf(ValidateStop({.min_tokens = -1}, kVocab)), Reason::kInvalidMaxTokens);
  EXPECT_EQ(ReasonOf(ValidateStop({.max_tokens = 2, .min_tokens = 3}, kVocab)),
            Reason::kConflictingOptions);
  EXPECT_EQ(ReasonOf(ValidateStop({.stop_token_ids = {kVocab}}, kVocab)), Reason::kInvalidTokenId);
  for (const auto policy : {EosPolicy::kIgnoreContinue, EosPolicy::kIgnoreMask}) {
    EXPECT_EQ(ReasonOf(ValidateStop({.stop_token_ids = {5}, .eos_policy = policy}, kVocab)),
              Reason::kConflictingOptions);
  }
}

TEST(ValidateStopTest, LengthControlHasARangeAndNeedsEos) {
  const auto checked = [](LengthControl control, EosPolicy policy = EosPolicy::kHonor) {
    return ValidateStop({.eos_policy = policy, .length_control = control}, kVocab);
  };
  EXPECT_TRUE(checked({.target = 1, .strength = 1e-6f}).ok());
  EXPECT_TRUE(checked({.target = 1'000'000, .strength = kMaxLengthStrength}).ok());
  for (const int32_t target : {0, -1}) {
    const absl::Status status = checked({.target = target, .strength = 1});
    EXPECT_EQ(ReasonOf(status), Reason::kInvalidSampling);
    EXPECT_EQ(DetailOf(status).field, "length_control.target");
  }
  for (const float strength : {0.0f, -1.0f, 100.5f, std::numeric_limits<float>::quiet_NaN(),
                               std::numeric_limits<float>::infinity()}) {
    const absl::Status status = checked({.target = 5, .strength = strength});
    EXPECT_EQ(ReasonOf(status), Reason::kInvalidSampling) << strength;
    EXPECT_EQ(DetailOf(status).field, "length_control.strength");
  }
  for (const auto policy : {EosPolicy::kIgnoreContinue, EosPolicy::kIgnoreMask}) {
    EXPECT_EQ(ReasonOf(checked({.target = 5, .strength = 1}, policy)), Reason::kConflictingOptions);
  }
}

}  // namespace
}  // namespace baton
