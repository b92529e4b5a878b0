#include "common/sample/stop.h"

#include <gtest/gtest.h>

#include <optional>
#include <set>
#include <vector>

namespace baton {
namespace {

const std::vector<TokenId> kEos = {2, 9};

StopCriteria Make(StopParams params, int32_t max_tokens = 5) {
  return StopCriteria(params, kEos, max_tokens, std::nullopt);
}

StopCriteria::Decision Take(StopCriteria* stop, int32_t step, TokenId id) {
  SampledToken token{.token = id};
  return stop->Take(step, &token);
}

TEST(StopCriteriaTest, EveryEosIdEndsTheRequest) {
  for (const TokenId eos : kEos) {
    StopCriteria stop = Make({});
    EXPECT_EQ(Take(&stop, 1, 7).reason, FinishReason::kNone);
    const auto decision = Take(&stop, 2, eos);
    EXPECT_EQ(decision.reason, FinishReason::kStopEos);
    EXPECT_EQ(decision.stop_token, eos);
    EXPECT_EQ(stop.natural_end_step(), 2);
  }
}

TEST(StopCriteriaTest, AnEosWhereNothingElseWasAllowedIsTheGrammars) {
  StopCriteria stop = Make({}, 3);
  SampledToken token{.token = kEos[0], .only_end = true};
  const auto decision = stop.Take(3, &token);
  EXPECT_EQ(decision.reason, FinishReason::kStopGrammar);
  EXPECT_EQ(decision.stop_token, kEos[0]);
  EXPECT_FALSE(stop.natural_end_step().has_value());
}

TEST(StopCriteriaTest, EosAtTheLastStepIsNotLength) {
  StopCriteria stop = Make({}, 3);
  EXPECT_EQ(Take(&stop, 3, 2).reason, FinishReason::kStopEos);
}

TEST(StopCriteriaTest, LengthEndsAtMaxTokensAndNotBefore) {
  StopCriteria stop = Make({}, 3);
  EXPECT_EQ(Take(&stop, 2, 7).reason, FinishReason::kNone);
  EXPECT_EQ(Take(&stop, 3, 7).reason, FinishReason::kLength);
  EXPECT_FALSE(stop.natural_end_step().has_value());
}

TEST(StopCriteriaTest, StopIdsEndWithTheirOwnReason) {
  StopCriteria stop = Make({.stop_token_ids = {40, 2}});
  const auto decision = Take(&stop, 1, 40);
  EXPECT_EQ(decision.reason, FinishReason::kStopToken);
  EXPECT_EQ(decision.stop_token, 40);
  EXPECT_FALSE(stop.natural_end_step().has_value());
  EXPECT_EQ(Take(&stop, 2, 2).reason, FinishReason::kStopEos);  // an EOS id stays EOS
}

TEST(StopCriteriaTest, IgnoreContinueRunsToMaxTokensAndNotesTheFirstEos) {
  StopCriteria stop = Make({.eos_policy = EosPolicy::kIgnoreContinue}, 4);
  EXPECT_EQ(Take(&stop, 1, 7).reason, FinishReason::kNone);
  SampledToken token{.token = 9};
  EXPECT_EQ(stop.Take(2, &token).reason, FinishReason::kNone);
  EXPECT_TRUE(token.natural_end);
  EXPECT_EQ(Take(&stop, 3, 2).reason, FinishReason::kNone);
  EXPECT_EQ(stop.natural_end_step(), 2);
  EXPECT_EQ(Take(&stop, 4, 2).reason, FinishReason::kLength);
}

TEST(StopCriteriaTest, IgnoreMaskTakesTheNaturalEndFromTheSampler) {
  StopCriteria stop = Make({.eos_policy = EosPolicy::kIgnoreMask}, 4);
  SampledToken redrawn{.token = 33, .natural_end = true};
  EXPECT_EQ(stop.Take(1, &redrawn).reason, FinishReason::kNone);
  EXPECT_TRUE(redrawn.natural_end);
  SampledToken again{.token = 34, .natural_end = true};
  EXPECT_EQ(stop.Take(2, &again).reason, FinishReason::kNone);
  EXPECT_EQ(stop.natural_end_step(), 1);
}

TEST(StopCriteriaTest, HonorNeverMarksATokenAsIgnoredEnd) {
  StopCriteria stop = Make({});
  SampledToken token{.token = 2};
  stop.Take(1, &token);
  EXPECT_FALSE(token.natural_end);
}

TEST(StopCriteriaTest, KeepsTheNaturalEndOfAnEarlierAttempt) {
  StopCriteria stop({.eos_policy = EosPolicy::kIgnoreContinue}, kEos, 9, 3);
  Take(&stop, 6, 2);
  EXPECT_EQ(stop.natural_end_step(), 3);
}

TEST(StopCriteriaTest, MinTokensMasksTheWholeStopSetUntilReached) {
  const StopCriteria stop = Make({.min_tokens = 2, .stop_token_ids = {40}});
  kernels::SampleRow row;
  stop.FillRow(0, &row);
  EXPECT_TRUE(row.mask_stop_ids);
  EXPECT_EQ(std::vector<TokenId>(row.stop_ids.begin(), row.stop_ids.end()),
            (std::vector<TokenId>{2, 9, 40}));
  stop.FillRow(1, &row);
  EXPECT_TRUE(row.mask_stop_ids);
  stop.FillRow(2, &row);
  EXPECT_FALSE(row.mask_stop_ids);
}

TEST(StopCriteriaTest, IdsInAnyOrderAndNamedTwiceAreSets) {
  const std::vector<TokenId> eos = {9, 2, 9};
  StopParams params;
  for (TokenId id = 255; id >= 0; --id) params.stop_token_ids.push_back(id * 37 % 100 * 3);
  const std::set<TokenId> own(params.stop_token_ids.begin(), params.stop_token_ids.end());
  StopCriteria stop(params, eos, 5, std::nullopt);
  for (TokenId id = 0; id < 310; ++id) {
    const FinishReason expected = id == 2 || id == 9 ? FinishReason::kStopEos
                                  : own.contains(id) ? FinishReason::kStopToken
                                                     : FinishReason::kNone;
    EXPECT_EQ(Take(&stop, 1, id).reason, expected) << id;
  }
  kernels::SampleRow row;
  stop.FillRow(0, &row);
  EXPECT_EQ(std::vector<TokenId>(row.eos_ids.begin(), row.eos_ids.end()),
            (std::vector<TokenId>{2, 9}));
  std::set<TokenId> all = own;
  all.insert({2, 9});
  EXPECT_EQ(std::vector<TokenId>(row.stop_ids.begin(), row.stop_ids.end()),
            std::vector<TokenId>(all.begin(), all.end()));
}

TEST(StopCriteriaTest, OnlyIgnoreMaskAsksForARedraw) {
  for (const auto policy :
       {EosPolicy::kHonor, EosPolicy::kIgnoreContinue, EosPolicy::kIgnoreMask}) {
    kernels::SampleRow row;
    Make({.eos_policy = policy}).FillRow(3, &row);
    EXPECT_EQ(row.redraw_eos, policy == EosPolicy::kIgnoreMask);
  }
}

TEST(LengthControlTest, TheBiasGrowsWithTheStepAndIsBounded) {
  const LengthControl control{.target = 50, .strength = 4};
  EXPECT_FLOAT_EQ(LengthBias(control, 1), 4 * (1 / 50.0f - 1));
  EXPECT_EQ(LengthBias(control, 50), 0);
  EXPECT_FLOAT_EQ(LengthBias(control, 100), 4);
  EXPECT_EQ(LengthBias(control, 2'000'000'000), 20);
  EXPECT_EQ(LengthBias({.target = 1'000'000, .strength = 100}, 1), -20);
}

TEST(LengthControlTest, TheStepOfARowIsThatOfItsTokenOverAllAttempts) {
  const LengthControl control{.target = 4, .strength = 8};
  const StopCriteria stop = Make({.length_control = control});
  const std::vector<TokenId> history = {10, 11, 12, 13, 14};
  // Two of the five are the prompt, so the fourth token is drawn; with one more out, the fifth.
  EXPECT_EQ(MakeSampleRow({}, stop, history, 2).eos_bias, LengthBias(control, 4));
  EXPECT_EQ(MakeSampleRow({}, stop, history, 2, /*pending_output=*/true).eos_bias,
            LengthBias(control, 5));
  EXPECT_EQ(MakeSampleRow({}, Make({}), history, 2).eos_bias, 0);
}

TEST(SampleRowTest, CarriesEveryParameterAndSplitsTheHistory) {
  SamplingParams params;
  params.temperature = 0.5f;
  params.top_k = 3;
  params.top_p = 0.9f;
  params.min_p = 0.1f;
  params.repetition_penalty = 1.1f;
  params.presence_penalty = 0.2f;
  params.frequency_penalty = 0.3f;
  params.logit_bias = {{5, 1.5f}};
  params.seed = 77;
  params.num_top_logprobs = 6;
  const std::vector<TokenId> history = {10, 11, 12, 13, 14};
  const StopCriteria stop = Make({});
  const kernels::SampleRow row = MakeSampleRow(params, stop, history, 3);
  EXPECT_EQ(row.temperature, 0.5f);
  EXPECT_EQ(row.top_k, 3);
  EXPECT_EQ(row.top_p, 0.9f);
  EXPECT_EQ(row.min_p, 0.1f);
  EXPECT_EQ(row.repetition_penalty, 1.1f);
  EXPECT_EQ(row.presence_penalty, 0.2f);
  EXPECT_EQ(row.frequency_penalty, 0.3f);
  EXPECT_EQ(row.logit_bias.size(), 1u);
  EXPECT_EQ(row.seed, 77u);
  EXPECT_EQ(row.num_top_logprobs, 6);
  EXPECT_EQ(std::vector<TokenId>(row.prompt.begin(), row.prompt.end()),
            (std::vector<TokenId>{10, 11, 12}));
  EXPECT_EQ(std::vector<TokenId>(row.output.begin(), row.output.end()),
            (std::vector<TokenId>{13, 14}));
  EXPECT_EQ(row.eos_ids.size(), 2u);
}

TEST(NamesTest, AreThoseOfTheLog) {
  EXPECT_EQ(FinishReasonName(FinishReason::kStopEos), "stop_eos");
  EXPECT_EQ(FinishReasonName(FinishReason::kStopToken), "stop_token");
  EXPECT_EQ(FinishReasonName(FinishReason::kStopString), "stop_string");
  EXPECT_EQ(FinishReasonName(FinishReason::kStopGrammar), "stop_grammar");
  EXPECT_EQ(FinishReasonName(FinishReason::kLength), "length");
  EXPECT_EQ(FinishReasonName(FinishReason::kRunaway), "runaway");
  EXPECT_EQ(FinishReasonName(FinishReason::kAborted), "aborted");
  EXPECT_EQ(FinishReasonName(FinishReason::kDeadline), "deadline");
  EXPECT_EQ(FinishReasonName(FinishReason::kError), "error");
  EXPECT_EQ(FinishReasonName(FinishReason::kNone), "");
  EXPECT_EQ(EosPolicyName(EosPolicy::kHonor), "honor");
  EXPECT_EQ(EosPolicyName(EosPolicy::kIgnoreContinue), "continue");
  EXPECT_EQ(EosPolicyName(EosPolicy::kIgnoreMask), "mask");
}

}  // namespace
}  // namespace baton
