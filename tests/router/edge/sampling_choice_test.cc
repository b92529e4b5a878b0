#include "router/edge/sampling_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "common/base/status.h"

namespace baton {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

SamplingParams Resolved(const v1::GenerationSpec& spec, const ServedModel& model) {
  auto params = ResolveSampling(spec, model, /*seed=*/9);
  EXPECT_TRUE(params.ok()) << params.status();
  return params.ok() ? *params : SamplingParams();
}

TEST(SamplingChoiceTest, RequestGoesBeforePresetBeforeModelBeforeDefault) {
  ServedModel model;
  model.generation.temperature = 0.6F;
  model.generation.top_k = 20;
  model.generation.repetition_penalty = 1.2F;
  v1::GenerationSpec spec;
  EXPECT_EQ(Resolved(spec, model).temperature, 0.6F);
  spec.set_preset("qa");
  spec.mutable_sampling()->set_top_p(0.5F);
  const SamplingParams params = Resolved(spec, model);
  EXPECT_EQ(params.top_p, 0.5F);                // the request's
  EXPECT_EQ(params.temperature, 0.3F);          // the preset's, as the next two
  EXPECT_EQ(params.repetition_penalty, 1.05F);  // over the model's
  EXPECT_EQ(params.frequency_penalty, 0.5F);
  EXPECT_EQ(params.top_k, 20);            // the model's
  EXPECT_EQ(params.presence_penalty, 0);  // the default
  EXPECT_EQ(params.seed, 9U);
}

TEST(SamplingChoiceTest, ARequestTurnsOffWhatItsPresetTurnsOn) {
  v1::GenerationSpec spec;
  spec.set_preset("dialogue");
  spec.mutable_sampling()->set_temperature(0);
  spec.mutable_sampling()->set_no_repeat_ngram_size(0);
  const SamplingParams params = Resolved(spec, ServedModel());
  EXPECT_EQ(params.temperature, 0);
  EXPECT_EQ(params.no_repeat_ngram_size, 0);
  EXPECT_EQ(params.top_p, 0.9F);
}

TEST(SamplingChoiceTest, AnUnknownPresetIsRefusedWithThoseThatThereAre) {
  for (const std::string& name : {std::string("QA"), std::string(1000, 'x')}) {
    v1::GenerationSpec spec;
    spec.set_preset(name);
    const absl::Status status = ResolveSampling(spec, ServedModel(), 0).status();
    EXPECT_EQ(ReasonOf(status), Reason::kInvalidSampling);
    EXPECT_EQ(DetailOf(status).field, "spec.preset");
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr("qa, code, creative, dialogue"), HasSubstr("no preset")));
    EXPECT_LT(status.message().size(), 200U);
  }
}

TEST(SamplingChoiceTest, NumbersAreToldAllAndWithoutSeedAndBias) {
  v1::GenerationSpec spec;
  (*spec.mutable_sampling()->mutable_logit_bias())[3] = 1;
  const v1::SamplingParams told = SamplingNumbers(Resolved(spec, ServedModel()));
  EXPECT_TRUE(told.has_temperature() && told.has_top_p() && told.has_top_k() && told.has_min_p());
  EXPECT_TRUE(told.has_repetition_penalty() && told.has_presence_penalty());
  EXPECT_TRUE(told.has_frequency_penalty() && told.has_no_repeat_ngram_size());
  EXPECT_FALSE(told.has_seed());
  EXPECT_TRUE(told.logit_bias().empty());
}

}  // namespace
}  // namespace baton
