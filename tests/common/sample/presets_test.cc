#include "common/sample/presets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>

#include "common/sample/validate.h"

namespace baton {
namespace {

using ::testing::HasSubstr;

TEST(SamplingPresetsTest, DocsSamplingShowsTheTable) {
  std::ifstream file(BATON_SOURCE_DIR "/docs/sampling.md");
  ASSERT_TRUE(file.good());
  std::ostringstream page;
  page << file.rdbuf();
  EXPECT_THAT(page.str(), HasSubstr("\n\n" + SamplingPresetsMarkdown() + "\n"))
      << "put this table into docs/sampling.md";
}

TEST(SamplingPresetsTest, EachHasANameOfItsOwnAndSetsWhatTheSamplerTakes) {
  std::set<std::string_view> names;
  for (const SamplingPreset& preset : SamplingPresets()) {
    EXPECT_TRUE(names.insert(preset.name).second) << preset.name;
    EXPECT_EQ(FindSamplingPreset(preset.name), &preset);
    EXPECT_THAT(SamplingPresetNames(), HasSubstr(std::string(preset.name)));
    SamplingParams params;
    ApplySamplingPreset(preset, &params);
    EXPECT_TRUE(ValidateSampling(params, /*vocab=*/100).ok()) << preset.name;
    EXPECT_FALSE(params == SamplingParams()) << preset.name << " changes nothing";
  }
  EXPECT_EQ(FindSamplingPreset("poetry"), nullptr);
  EXPECT_EQ(FindSamplingPreset(""), nullptr);
}

TEST(SamplingPresetsTest, WhatAPresetDoesNotSetStays) {
  SamplingParams params{.temperature = 0.6F, .top_k = 20, .min_p = 0.1F, .seed = 7};
  params.repetition_penalty = 1.2F;
  ApplySamplingPreset(*FindSamplingPreset("creative"), &params);
  EXPECT_EQ(params.temperature, 0.9F);
  EXPECT_EQ(params.presence_penalty, 0.3F);
  EXPECT_EQ(params.repetition_penalty, 1.2F);
  EXPECT_EQ(params.top_k, 20);
  EXPECT_EQ(params.min_p, 0.1F);
  EXPECT_EQ(params.seed, 7U);
}

}  // namespace
}  // namespace baton
