#include "common/sched/limits.h"

#include <gtest/gtest.h>

#include "common/base/status.h"
#include "common/sample/request_limits.h"
#include "common/sched/policy.h"

namespace baton {
namespace {

constexpr SequenceLimits kLimits = {.max_model_len = 100, .pool_tokens = 64, .vocab_size = 50};

SequenceSpec Spec(int32_t prompt, int32_t max_tokens, SequenceKind kind = SequenceKind::kLocal) {
  SequenceSpec spec;
  spec.kind = kind;
  spec.prompt.assign(static_cast<size_t>(prompt), 1);
  spec.stop.max_tokens = max_tokens;
  return spec;
}

TEST(LimitsTest, RefusesAnEmptyPrompt) {
  EXPECT_EQ(ReasonOf(CheckSpec(Spec(0, 1), kLimits)), Reason::kEmptyPrompt);
}

TEST(LimitsTest, RefusesIdsOutsideTheVocabulary) {
  for (const TokenId id : {-1, 50}) {
    SequenceSpec in_prompt = Spec(3, 1);
    in_prompt.prompt[1] = id;
    EXPECT_EQ(ReasonOf(CheckSpec(in_prompt, kLimits)), Reason::kInvalidTokenId);
    SequenceSpec in_generated = Spec(3, 5);
    in_generated.generated = {id};
    EXPECT_EQ(ReasonOf(CheckSpec(in_generated, kLimits)), Reason::kInvalidTokenId);
  }
}

TEST(LimitsTest, PromptAndMaxTokensMustFitThePool) {
  EXPECT_TRUE(CheckSpec(Spec(60, 4), kLimits).ok());
  const absl::Status status = CheckSpec(Spec(60, 5), kLimits);
  EXPECT_EQ(ReasonOf(status), Reason::kTooLong);
  const auto values = DetailOf(status).values;
  ASSERT_EQ(values.size(), 2u);
  EXPECT_EQ(values[0], (std::pair<std::string, std::string>("have", "65")));
  EXPECT_EQ(values[1], (std::pair<std::string, std::string>("limit", "64")));
}

TEST(LimitsTest, PromptAndMaxTokensMustFitTheModel) {
  const SequenceLimits large = {.max_model_len = 100, .pool_tokens = 1000, .vocab_size = 50};
  EXPECT_TRUE(CheckSpec(Spec(90, 10), large).ok());
  EXPECT_EQ(ReasonOf(CheckSpec(Spec(90, 11), large)), Reason::kTooLong);
}

TEST(LimitsTest, AnOpenRequestGetsWhatFits) {
  EXPECT_TRUE(CheckSpec(Spec(63, 0), kLimits).ok());
  EXPECT_EQ(ReasonOf(CheckSpec(Spec(64, 0), kLimits)), Reason::kTooLong);
  EXPECT_EQ(ResolveMaxTokens(Spec(10, 0), kLimits), 54);
  EXPECT_EQ(ResolveMaxTokens(Spec(10, 7), kLimits), 7);
}

TEST(LimitsTest, APrefillNeedsRoomForItsPromptOnly) {
  EXPECT_TRUE(CheckSpec(Spec(64, 36, SequenceKind::kPrefill), kLimits).ok());
  EXPECT_EQ(ReasonOf(CheckSpec(Spec(65, 30, SequenceKind::kPrefill), kLimits)), Reason::kTooLong);
  EXPECT_TRUE(CheckSpec(Spec(64, 1000, SequenceKind::kPrefill), kLimits).ok());
  SequenceLimits narrow = kLimits;
  narrow.max_model_len = 64;
  EXPECT_TRUE(CheckSpec(Spec(63, 1000, SequenceKind::kPrefill), narrow).ok());
  EXPECT_EQ(ReasonOf(CheckSpec(Spec(64, 1, SequenceKind::kPrefill), narrow)), Reason::kTooLong);
}

TEST(LimitsTest, RefusesWhenNothingIsLeftToGenerate) {
  SequenceSpec spec = Spec(3, 2);
  spec.generated = {1, 1};
  EXPECT_EQ(ReasonOf(CheckSpec(spec, kLimits)), Reason::kInvalidMaxTokens);
}

TEST(LimitsTest, ChecksSamplingAndStopToo) {
  SequenceSpec spec = Spec(3, 2);
  spec.sampling.top_p = 2;
  EXPECT_EQ(ReasonOf(CheckSpec(spec, kLimits)), Reason::kInvalidSampling);
  spec = Spec(3, 2);
  spec.stop.min_tokens = 3;
  EXPECT_EQ(ReasonOf(CheckSpec(spec, kLimits)), Reason::kConflictingOptions);
}

TEST(LimitsTest, SizesBeyondTheTableOfLimitsAreRefusedWithBothNumbers) {
  const auto refused = [](SequenceSpec spec, std::string_view field, std::string_view have) {
    const ErrorDetail detail = DetailOf(CheckSpec(spec, kLimits));
    EXPECT_EQ(detail.reason, Reason::kLimitExceeded) << field;
    EXPECT_EQ(detail.field, field);
    ASSERT_EQ(detail.values.size(), 2u);
    EXPECT_EQ(detail.values[0].second, have);
  };
  SequenceSpec spec = Spec(3, 2);
  spec.cache_salt = std::string(256, 's');
  spec.stop.stop_token_ids.assign(256, 1);
  spec.sampling.logit_bias.assign(1024, {1, 0.5f});
  spec.sampling.no_repeat_ngram_size = 64;
  EXPECT_TRUE(CheckSpec(spec, kLimits).ok());
  SequenceSpec one_more = spec;
  one_more.cache_salt += 's';
  refused(one_more, "spec.cache_salt", "257");
  one_more = spec;
  one_more.stop.stop_token_ids.push_back(1);
  refused(one_more, "spec.stop.stop_token_ids", "257");
  one_more = spec;
  one_more.sampling.logit_bias.push_back({2, 1});
  refused(one_more, "spec.sampling.logit_bias", "1025");
  one_more = spec;
  one_more.sampling.no_repeat_ngram_size = 65;
  refused(one_more, "spec.sampling.no_repeat_ngram_size", "65");
}

TEST(LimitsTest, HugeLengthsDoNotOverflow) {
  SequenceSpec spec = Spec(50, 2147483647);
  EXPECT_EQ(ReasonOf(CheckSpec(spec, kLimits)), Reason::kTooLong);
}

TEST(PolicyTest, FcfsServesTheOldestAndPreemptsTheYoungest) {
  const SequenceView older{.id = SequenceId(1)}, younger{.id = SequenceId(2)};
  const PolicyMoment now{
      .now = base::Instant(std::chrono::hours(1)), .token_time = {}, .settings = {}};
  EXPECT_TRUE(kFcfsPolicy.starts_before(older, younger, now));
  EXPECT_FALSE(kFcfsPolicy.starts_before(younger, older, now));
  EXPECT_TRUE(kFcfsPolicy.yields_before(younger, older, now));
  EXPECT_FALSE(kFcfsPolicy.yields_before(older, younger, now));
  EXPECT_TRUE(kFcfsPolicy.admits(younger, {.beside = std::span(&older, 1)}, now));
}

TEST(StateNamesTest, AreTheMetricLabels) {
  EXPECT_EQ(SequenceStateName(SequenceState::kQueued), "queued");
  EXPECT_EQ(SequenceStateName(SequenceState::kReserved), "reserved");
  EXPECT_EQ(SequenceStateName(SequenceState::kPrefilling), "prefilling");
  EXPECT_EQ(SequenceStateName(SequenceState::kDecoding), "decoding");
  EXPECT_EQ(SequenceStateName(SequenceState::kPreempted), "preempted");
  EXPECT_EQ(SequenceStateName(SequenceState::kDone), "done");
  EXPECT_EQ(SequenceStateName(SequenceState::kFailed), "failed");
}

TEST(LimitsTest, ABeamSearchNeedsRoomForAllItsBeams) {
  const SequenceLimits limits = {.max_model_len = 100,
                                 .pool_tokens = 64,
                                 .vocab_size = 50,
                                 .block_size = 4,
                                 .max_beams = 8,
                                 .eos_ids = {2}};
  SequenceSpec spec = Spec(8, 12);
  spec.sampling.temperature = 0;
  spec.beams = {.width = 4, .results = 1};
  EXPECT_TRUE(CheckSpec(spec, limits).ok()) << CheckSpec(spec, limits);
  spec.stop.max_tokens = 13;
  const absl::Status status = CheckSpec(spec, limits);
  EXPECT_EQ(ReasonOf(status), Reason::kTooLong) << status;
  EXPECT_EQ(DetailOf(status).values[0].second, "72") << "2 blocks, and 4 for each beam";
  spec.kind = SequenceKind::kPrefill;
  EXPECT_TRUE(CheckSpec(spec, limits).ok()) << "the beams are elsewhere";
  spec.kind = SequenceKind::kReserved;
  spec.stop.max_tokens = 0;
  EXPECT_EQ(ResolveMaxTokens(spec, limits), 12);
}

TEST(LimitsTest, BeamsThatNoStepHoldsAreRefused) {
  const SequenceLimits limits = {
      .max_model_len = 100, .pool_tokens = 640, .vocab_size = 50, .max_beams = 4, .eos_ids = {2}};
  SequenceSpec spec = Spec(8, 12);
  spec.sampling.temperature = 0;
  spec.beams = {.width = 5, .results = 1};
  const absl::Status status = CheckSpec(spec, limits);
  EXPECT_EQ(ReasonOf(status), Reason::kLimitExceeded) << status;
  EXPECT_EQ(DetailOf(status).field, "beam_width");
  spec.beams.width = 4;
  EXPECT_TRUE(CheckSpec(spec, limits).ok());
  spec.generated = {7};
  EXPECT_EQ(ReasonOf(CheckSpec(spec, limits)), Reason::kConflictingOptions);
}

}  // namespace
}  // namespace baton
