#include "common/sample/beam_params.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "common/base/status.h"

namespace baton {
namespace {

struct BeamRequest {
  BeamParams beams = {.width = 4, .results = 2};
  SamplingParams sampling = {.temperature = 0};
  StopParams stop;
};

absl::Status Validate(const BeamRequest& request) {
  return ValidateBeams(request.beams, request.sampling, request.stop);
}

TEST(BeamParamsTest, EdgesOfTheRangesAreAllowed) {
  BeamRequest request;
  EXPECT_TRUE(Validate(request).ok());
  request.beams = {.width = 16, .results = 16, .length_penalty = -10};
  EXPECT_TRUE(Validate(request).ok());
  request.beams = {.width = 1, .results = 1, .length_penalty = 10};
  EXPECT_TRUE(Validate(request).ok());
}

TEST(BeamParamsTest, NothingIsRefusedWhereThereAreNone) {
  EXPECT_TRUE(ValidateBeams({}, {.temperature = 2}, {.min_tokens = 4}).ok());
}

TEST(BeamParamsTest, WhatDoesNotFitIsRefusedByName) {
  const struct {
    const char* field;
    Reason reason;
    std::function<void(BeamRequest*)> set;
  } cases[] = {
      {"spec.sampling.beam_width", Reason::kLimitExceeded, [](auto* r) { r->beams.width = 17; }},
      {"n", Reason::kConflictingOptions, [](auto* r) { r->beams.results = 5; }},
      {"n", Reason::kConflictingOptions, [](auto* r) { r->beams.results = 0; }},
      {"length_penalty", Reason::kInvalidSampling, [](auto* r) { r->beams.length_penalty = 11; }},
      {"length_penalty", Reason::kInvalidSampling, [](auto* r) { r->beams.length_penalty = NAN; }},
      {"temperature", Reason::kConflictingOptions, [](auto* r) { r->sampling.temperature = 1; }},
      {"top_k", Reason::kConflictingOptions, [](auto* r) { r->sampling.top_k = 4; }},
      {"top_p", Reason::kConflictingOptions, [](auto* r) { r->sampling.top_p = 0.5F; }},
      {"min_p", Reason::kConflictingOptions, [](auto* r) { r->sampling.min_p = 0.5F; }},
      {"repetition_penalty", Reason::kConflictingOptions,
       [](auto* r) { r->sampling.repetition_penalty = 1.5F; }},
      {"presence_penalty", Reason::kConflictingOptions,
       [](auto* r) { r->sampling.presence_penalty = 1; }},
      {"frequency_penalty", Reason::kConflictingOptions,
       [](auto* r) { r->sampling.frequency_penalty = 1; }},
      {"no_repeat_ngram_size", Reason::kConflictingOptions,
       [](auto* r) { r->sampling.no_repeat_ngram_size = 2; }},
      {"logit_bias", Reason::kConflictingOptions,
       [](auto* r) {
         r->sampling.logit_bias = {{3, 1.0F}};
       }},
      {"eos_policy", Reason::kConflictingOptions,
       [](auto* r) { r->stop.eos_policy = EosPolicy::kIgnoreMask; }},
      {"min_tokens", Reason::kConflictingOptions, [](auto* r) { r->stop.min_tokens = 1; }},
      {"length_control", Reason::kConflictingOptions,
       [](auto* r) { r->stop.length_control = {.target = 4, .strength = 1}; }},
  };
  for (const auto& one : cases) {
    BeamRequest request;
    one.set(&request);
    const absl::Status status = Validate(request);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << one.field;
    EXPECT_EQ(ReasonOf(status), one.reason) << one.field << ": " << status;
    EXPECT_EQ(DetailOf(status).field, one.field) << status;
  }
}

TEST(BeamParamsTest, EachIdThatEndsAnAnswerNeedsACandidate) {
  EXPECT_EQ(BeamCandidates(4, std::vector<TokenId>{2}, {}), 5);
  EXPECT_EQ(BeamCandidates(4, std::vector<TokenId>{2, 3}, std::vector<TokenId>{3, 9}), 7);
  const BeamParams widest = {.width = 16, .results = 1};
  StopParams stop{.stop_token_ids = {5, 6, 7}};
  EXPECT_TRUE(CheckBeamCandidates(widest, std::vector<TokenId>{2}, stop, 1000).ok());
  stop.stop_token_ids.push_back(8);
  const absl::Status many = CheckBeamCandidates(widest, std::vector<TokenId>{2}, stop, 1000);
  EXPECT_EQ(ReasonOf(many), Reason::kLimitExceeded) << many;
  const absl::Status tiny =
      CheckBeamCandidates({.width = 4, .results = 1}, std::vector<TokenId>{2}, {}, 4);
  EXPECT_EQ(ReasonOf(tiny), Reason::kLimitExceeded) << tiny;
}

TEST(BeamParamsTest, BlocksAreThoseOfThePromptOnceAndTheRestForEachBeam) {
  EXPECT_EQ(BeamPoolTokens(6, 3, 4, 4), (1 + 4 * 2) * 4);
  EXPECT_EQ(BeamPoolTokens(8, 1, 4, 4), (2 + 4 * 1) * 4);
  for (const int64_t pool : {8, 9, 40, 41, 100, 1000}) {
    for (const int64_t prompt : {1, 4, 6, 8}) {
      for (const int32_t width : {1, 3, 16}) {
        const int64_t output = BeamOutputThatFits(prompt, width, 4, pool);
        if (output > 0) {
          EXPECT_LE(BeamPoolTokens(prompt, output, width, 4), pool);
        }
        EXPECT_GT(BeamPoolTokens(prompt, output + 1, width, 4), pool)
            << prompt << " " << width << " " << pool;
      }
    }
  }
}

}  // namespace
}  // namespace baton
