#include "common/eos/predict/learnt_survival.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <string>

#include "common/eos/predict/sealed_json.h"
#include "common/eos/predict/survival_state.h"
#include "tests/fakes/scratch_folder.h"

namespace baton {
namespace {

constexpr double kTail = 2048;

void AddEnds(LearntSurvival* survival, std::string_view length_class, int32_t to, int32_t count,
             bool natural = true) {
  for (int32_t i = 0; i < count; ++i) {
    survival->Add({.length_class = length_class, .from = 0, .to = to, .natural = natural});
  }
}

TEST(LearntSurvivalTest, KnowsNothingUntilSomeEndsWereSeen) {
  LearntSurvival survival;
  EXPECT_FALSE(survival.ChancesAfter("a", 1).has_value());
  AddEnds(&survival, "a", 10, 100, /*natural=*/false);
  EXPECT_FALSE(survival.ChancesAfter("a", 1).has_value()) << "nothing ended by itself";
  const auto fewest = static_cast<int32_t>(LearntSurvival::kFewestEnds);
  AddEnds(&survival, "a", 10, fewest - 1);
  EXPECT_FALSE(survival.ChancesAfter("a", 1).has_value()) << "one too few";
  AddEnds(&survival, "a", 10, 1);
  EXPECT_TRUE(survival.ChancesAfter("a", 1).has_value());
}

TEST(LearntSurvivalTest, AFixedLengthIsForeseen) {
  LearntSurvival survival;
  AddEnds(&survival, "a", 20, 200);
  const EndChances chances = *survival.ChancesAfter("a", 12);  // 8 to go
  EXPECT_LT(chances[2], 0.01) << "within 4";
  EXPECT_GT(chances[3], 0.98) << "within 8";
  const EndEstimate estimate = EstimateOf(chances, kTail, 12, PredictorKind::kLearnt);
  EXPECT_GT(estimate.p50, 4);
  EXPECT_LE(estimate.p90, 8);
}

TEST(LearntSurvivalTest, ARareEndIsForeseenAsRare) {
  // Constant hazard of 1 %: the chance of an end within 16 is 1 - .99^16, at any step.
  std::mt19937 random(7);
  std::geometric_distribution<int32_t> length(0.01);
  LearntSurvival survival;
  for (int32_t i = 0; i < 6000; ++i) {
    survival.Add({.length_class = "a", .to = length(random) + 1, .natural = true});
  }
  for (const int32_t step : {1, 50, 200, 300}) {
    EXPECT_NEAR((*survival.ChancesAfter("a", step))[4], 1 - std::pow(0.99, 16), 0.05) << step;
  }
}

TEST(LearntSurvivalTest, CutOffRequestsCensor) {
  // Half of the requests that reach step 10 end at 20, and half are cut off at 10: what was cut off
  // says nothing about ends behind it.
  LearntSurvival survival;
  for (int32_t i = 0; i < 300; ++i) {
    AddEnds(&survival, "a", 10, 1, /*natural=*/false);
    AddEnds(&survival, "a", 20, 1);
  }
  const EndChances chances = *survival.ChancesAfter("a", 4);
  EXPECT_LT(chances[3], 0.02) << "within 8";
  EXPECT_GT(chances[4], 0.97) << "within 16";
}

TEST(LearntSurvivalTest, StepsOfEarlierAttemptsWereNotWatchedHere) {
  LearntSurvival survival;
  for (int32_t i = 0; i < 100; ++i) {
    survival.Add({.length_class = "a", .from = 0, .to = 5, .natural = true});
    survival.Add({.length_class = "a", .from = 50, .to = 60, .natural = true});
  }
  EXPECT_GT((*survival.ChancesAfter("a", 1))[2], 0.95) << "who came later did not survive step 5";
}

TEST(LearntSurvivalTest, ClassesDifferAndAnUnknownOneIsAsAll) {
  LearntSurvival survival;
  AddEnds(&survival, "short", 4, 100);
  AddEnds(&survival, "long", 100, 100);
  EXPECT_GT((*survival.ChancesAfter("short", 1))[2], 0.95);
  EXPECT_LT((*survival.ChancesAfter("long", 1))[2], 0.05);
  EXPECT_NEAR((*survival.ChancesAfter("other", 1))[2], 0.5, 0.05);
}

TEST(LearntSurvivalTest, ClassesBeyondTheBoundAreAsAll) {
  LearntSurvival survival;
  for (size_t i = 0; i < LearntSurvival::kMostClasses; ++i) {
    AddEnds(&survival, "c" + std::to_string(i), 100, 10);
  }
  AddEnds(&survival, "one too many", 4, 640);
  const auto all = *survival.ChancesAfter("never seen", 1);
  EXPECT_EQ((*survival.ChancesAfter("one too many", 1)), all);
  EXPECT_LT((*survival.ChancesAfter("c5", 1))[2], all[2]);
}

TEST(LearntSurvivalTest, ForgetsSlowly) {
  LearntSurvival survival;
  AddEnds(&survival, "a", 4, 1000);
  AddEnds(&survival, "a", 100, 1000);
  EXPECT_GT((*survival.ChancesAfter("a", 1))[2], 0.2);
  AddEnds(&survival, "a", 100, 40000);
  EXPECT_LT((*survival.ChancesAfter("a", 1))[2], 0.01);
}

TEST(LearntSurvivalTest, BehindTheLongestItIsAsOnTheWhole) {
  LearntSurvival survival;
  AddEnds(&survival, "a", 10, 100);
  const EndChances chances = *survival.ChancesAfter("a", 5'000'000);
  EXPECT_NEAR(chances[0], 0.1, 0.01);
  EXPECT_LE(chances[9], 1);
}

class SurvivalStateTest : public testing::Test {
 protected:
  std::string path(const char* name) const { return folder_ / name; }
  static void Write(const std::string& path, const std::string& text) {
    std::ofstream(path, std::ios::binary) << text;
  }
  static std::string Read(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path, std::ios::binary).rdbuf();
    return text.str();
  }

 private:
  const ScratchFolder folder_;
};

TEST_F(SurvivalStateTest, WhatWasLearntOutlivesTheProcess) {
  LearntSurvival before, after;
  AddEnds(&before, "chat/256/default", 20, 50);
  AddEnds(&before, "text", 700, 50);
  ASSERT_TRUE(SaveSurvival(before, "f1", path("state")).ok());
  ASSERT_TRUE(LoadSurvival(path("state"), "f1", &after).ok());
  for (const char* name : {"chat/256/default", "text", "other"}) {
    for (const int32_t step : {1, 15, 600}) {
      const auto expected = *before.ChancesAfter(name, step);
      const auto found = *after.ChancesAfter(name, step);
      for (size_t bin = 0; bin < kBins; ++bin) EXPECT_NEAR(found[bin], expected[bin], 1e-4);
    }
  }
  const auto files = std::filesystem::directory_iterator(path("."));
  EXPECT_EQ(std::distance(begin(files), end(files)), 1) << "something else was left";
}

TEST_F(SurvivalStateTest, AMissingFileIsNotFound) {
  LearntSurvival survival;
  EXPECT_TRUE(absl::IsNotFound(LoadSurvival(path("none"), "f1", &survival)));
}

TEST_F(SurvivalStateTest, ForeignAndDamagedFilesAreRefusedAndChangeNothing) {
  LearntSurvival learnt, survival;
  AddEnds(&learnt, "a", 20, 50);
  AddEnds(&survival, "a", 5, 50);
  const auto before = survival.ChancesAfter("a", 1);
  ASSERT_TRUE(SaveSurvival(learnt, "f1", path("state")).ok());
  EXPECT_THAT(LoadSurvival(path("state"), "f2", &survival).message(),
              testing::HasSubstr("learnt from the model f1; this worker serves f2"));
  const std::string whole = Read(path("state"));
  for (size_t size = 0; size + 1 < whole.size(); size += 11) {
    Write(path("cut"), whole.substr(0, size));
    EXPECT_FALSE(LoadSurvival(path("cut"), "f1", &survival).ok()) << size;
  }
  Write(path("later"), SealJson("baton-predictor-state", 2, "{}"));
  EXPECT_FALSE(LoadSurvival(path("later"), "f1", &survival).ok());
  Write(path("odd"), SealJson("baton-predictor-state", 1,
                              R"({"model_fingerprint":"f1","all":{"at_risk":[-1],"ended":[]},)"
                              R"("classes":{}})"));
  EXPECT_FALSE(LoadSurvival(path("odd"), "f1", &survival).ok());
  EXPECT_EQ(survival.ChancesAfter("a", 1), before);
}

TEST_F(SurvivalStateTest, ALinkStaysAndWhatItLeadsToIsReplaced) {
  LearntSurvival survival;
  AddEnds(&survival, "a", 20, 50);
  Write(path("state"), "old");
  std::filesystem::create_symlink("state", path("link"));
  ASSERT_TRUE(SaveSurvival(survival, "f1", path("link")).ok());
  EXPECT_TRUE(std::filesystem::is_symlink(path("link")));
  EXPECT_TRUE(LoadSurvival(path("state"), "f1", &survival).ok());
}

TEST_F(SurvivalStateTest, AFolderThatCannotBeWrittenIsAnErrorAndKeepsTheOldFile) {
  LearntSurvival survival;
  AddEnds(&survival, "a", 20, 50);
  EXPECT_FALSE(SaveSurvival(survival, "f1", path("no/such/folder")).ok());
}

}  // namespace
}  // namespace baton
