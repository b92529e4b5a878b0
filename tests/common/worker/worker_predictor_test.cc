// Which predictor a worker takes, and what becomes of what it learnt.
#include "common/worker/worker_predictor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>
#include <thread>

#include "common/eos/predict/sealed_json.h"
#include "common/eos/predict/survival_state.h"
#include "common/worker/survival_saver.h"
#include "tests/fakes/eventually.h"
#include "tests/fakes/scratch_folder.h"

namespace baton {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class WorkerPredictorTest : public testing::Test {
 protected:
  std::string path(const std::string& name) const { return folder_ / name; }
  static std::string FileOfModel(const std::string& fingerprint) {
    return SealJson(
        kPredictorFormat, kPredictorVersion,
        R"({"model_fingerprint":")" + fingerprint +
            R"(","name":"lengths","made_by":"test","bins":[1,2,4,8,16,32,64,128,256,1024],)"
            R"("tail_mean":2048,"probe":null,"features":[],"mean":[],"scale":[],"model":)"
            R"({"kind":"survival","classes":{"a":{"steps":[9],"hazard":[0.1]}},"default":"a"},)"
            R"("calibration":null})");
  }
  void Write(const std::string& name, const std::string& text) const { folder_.Write(name, text); }
  // The kind that a worker of the model "f1" in the folder gets; kNone when it is off.
  PredictorKind KindWith(const std::string& flag) const {
    const PredictionFlags flags{.predictor = flag};
    auto chosen = ChoosePredictor(flags, folder_.path());
    EXPECT_TRUE(chosen.ok()) << chosen.status();
    const auto predictor = MakePredictor(*std::move(chosen), flags, "f1", {});
    return predictor == nullptr ? PredictorKind::kNone : predictor->kind();
  }

 private:
  const ScratchFolder folder_;
};

TEST_F(WorkerPredictorTest, ItsProbeIsComputedUnlessAnotherIsNamed) {
  ChosenPredictor none;
  EXPECT_EQ(ProbeFor(&none, nullptr), nullptr);
  const auto with_probe = [] {
    ChosenPredictor chosen{.file = std::make_unique<PredictorFile>()};
    chosen.file->probe = EosProbe{.hidden = 2, .dims = 1, .directions = {1, 2}, .biases = {0}};
    return chosen;
  };
  ChosenPredictor alone = with_probe();
  EXPECT_EQ(ProbeFor(&alone, nullptr), &*alone.file->probe);
  ChosenPredictor same = with_probe();
  const EosProbe equal = {.hidden = 2, .dims = 1, .directions = {1, 2}};
  EXPECT_EQ(ProbeFor(&same, &equal), nullptr) << "--probe has it computed";
  EXPECT_NE(same.file, nullptr);
  ChosenPredictor beside = with_probe();
  const EosProbe other = {.hidden = 2, .dims = 1, .directions = {1, 3}};
  EXPECT_EQ(ProbeFor(&beside, &other), nullptr);
  EXPECT_EQ(beside.file, nullptr) << "it would read products of another probe";
}

// In a file of the model "f1".
ChosenPredictor WithProbe(EosProbe probe, bool named) {
  ChosenPredictor chosen{
      .file = std::make_unique<PredictorFile>(), .path = "a/predictor.json", .named = named};
  chosen.file->model_fingerprint = "f1";
  chosen.file->name = "gru";
  chosen.file->probe = std::move(probe);
  return chosen;
}

TEST_F(WorkerPredictorTest, AProbeThatDoesNotFitItsModelIsAnErrorOnlyWhereItWasNamed) {
  ModelConfig config;
  config.hidden = 2;
  config.layers = 4;
  const EosProbe deep = {.hidden = 2, .dims = 1, .layer = 77, .directions = {1, 2}};
  const EosProbe wide = {.hidden = 3, .dims = 1, .directions = {1, 2, 3}};
  for (const EosProbe& probe : {deep, wide}) {
    ChosenPredictor named = WithProbe(probe, true);
    const absl::Status error = CheckProbeOf(&named, "f1", config);
    EXPECT_TRUE(absl::IsInvalidArgument(error)) << error;
    EXPECT_THAT(error.message(),
                AllOf(HasSubstr("a/predictor.json"), HasSubstr("'gru' is of this model, f1")));
    EXPECT_THAT(error.message(), probe.layer ? AllOf(HasSubstr("layer 77"), HasSubstr("has 4"))
                                             : AllOf(HasSubstr("size of 3"), HasSubstr("has 2")));
    ChosenPredictor found = WithProbe(probe, false);
    EXPECT_TRUE(CheckProbeOf(&found, "f1", config).ok());
    EXPECT_EQ(found.file, nullptr) << "it would foretell nothing";
    ChosenPredictor others = WithProbe(probe, true);
    EXPECT_TRUE(CheckProbeOf(&others, "f2", config).ok()) << "MakePredictor tells of it";
    EXPECT_NE(others.file, nullptr);
  }
  ChosenPredictor fits =
      WithProbe({.hidden = 2, .dims = 1, .layer = 3, .directions = {1, 2}}, true);
  EXPECT_TRUE(CheckProbeOf(&fits, "f1", config).ok());
  EXPECT_NE(fits.file, nullptr);
  ChosenPredictor none;
  EXPECT_TRUE(CheckProbeOf(&none, "f1", config).ok());
}

TEST_F(WorkerPredictorTest, AutoTakesTheModelsFileIfThereIsOne) {
  EXPECT_EQ(KindWith("auto"), PredictorKind::kLearnt);
  Write("eos_predictor.json", FileOfModel("f1"));
  EXPECT_EQ(KindWith("auto"), PredictorKind::kSurvival);
  EXPECT_EQ(KindWith("off"), PredictorKind::kNone);
}

TEST_F(WorkerPredictorTest, AFileOfAnotherModelIsLeftAlone) {
  Write("eos_predictor.json", FileOfModel("f2"));
  EXPECT_EQ(KindWith("auto"), PredictorKind::kLearnt);
  EXPECT_EQ(KindWith(path("eos_predictor.json")), PredictorKind::kLearnt);
  const auto chosen = ChoosePredictor({.predictor = "auto"}, path(""));
  ASSERT_TRUE(chosen.ok()) << chosen.status();
  EXPECT_TRUE(IsOfAnotherModel(*chosen, "f1"));
  EXPECT_FALSE(IsOfAnotherModel(*chosen, "f2"));
  EXPECT_FALSE(IsOfAnotherModel(ChosenPredictor{}, "f1"));
}

TEST_F(WorkerPredictorTest, ACorruptFileIsAnErrorOnlyWhereItWasNamed) {
  Write("eos_predictor.json", FileOfModel("f1").substr(0, 200));
  EXPECT_EQ(KindWith("auto"), PredictorKind::kLearnt);
  const auto named = ChoosePredictor({.predictor = path("eos_predictor.json")}, "");
  EXPECT_THAT(named.status().message(), HasSubstr("eos_predictor.json: "));
  Write("whole", FileOfModel("f1"));
  const auto whole = ChoosePredictor({.predictor = path("whole")}, "");
  EXPECT_TRUE(whole->named && whole->path == path("whole"));
  const auto missing = ChoosePredictor({.predictor = path("nowhere")}, "");
  EXPECT_EQ(std::string(missing.status().message()),
            "cannot load --predictor " + path("nowhere") + ": No such file or directory");
}

TEST_F(WorkerPredictorTest, AStateFileWithoutAPredictorIsAMistake) {
  const auto chosen = ChoosePredictor({.predictor = "off", .state = path("state")}, "");
  EXPECT_THAT(chosen.status().message(), HasSubstr("nothing is learnt"));
}

TEST_F(WorkerPredictorTest, AStateThatCannotBeReadBackIsAMistake) {
  ASSERT_EQ(mkfifo(path("pipe").c_str(), 0600), 0);
  for (const std::string& state : {path("pipe"), path(""), std::string("/dev/null")}) {
    const auto chosen = ChoosePredictor({.state = state}, "");
    EXPECT_THAT(chosen.status().message(), AllOf(HasSubstr(state), HasSubstr("to be a file")));
  }
  for (const std::string& state : {path("none"), path("no/folder")}) {
    EXPECT_TRUE(ChoosePredictor({.state = state}, "").ok()) << state;
  }
}

TEST_F(WorkerPredictorTest, WhatWasLearntIsReadAndACorruptStateStartsAnew) {
  LearntSurvival learnt;
  for (int i = 0; i < 20; ++i) learnt.Add({.length_class = "a", .to = 9, .natural = true});
  ASSERT_TRUE(SaveSurvival(learnt, "f1", path("state")).ok());
  const PredictionFlags flags{.state = path("state")};
  const auto made = [&] {
    auto chosen = ChoosePredictor(flags, "");
    EXPECT_TRUE(chosen.ok()) << chosen.status();
    return MakePredictor(*std::move(chosen), flags, "f1", {});
  };
  EXPECT_TRUE(made()->Learnt("a", 1, 0).has_value());
  Write("state", "what is this");
  EXPECT_FALSE(made()->Learnt("a", 1, 0).has_value());
}

TEST_F(WorkerPredictorTest, APrefillWorkerReadsNoState) {
  LearntSurvival learnt;
  for (int i = 0; i < 20; ++i) learnt.Add({.length_class = "a", .to = 9, .natural = true});
  ASSERT_TRUE(SaveSurvival(learnt, "f1", path("state")).ok());
  const PredictionFlags flags{.state = path("state")};
  EXPECT_EQ(FlagsOfRole(flags, WorkerRole::kDecode).state, path("state"));
  EXPECT_EQ(FlagsOfRole(flags, WorkerRole::kPrefill).state, "");
  EXPECT_EQ(FlagsOfRole(flags, WorkerRole::kPrefill).predictor, flags.predictor);
  // What the flags would otherwise make a mistake.
  const PredictionFlags off{.predictor = "off", .state = path("state")};
  EXPECT_TRUE(ChoosePredictor(FlagsOfRole(off, WorkerRole::kPrefill), "").ok());
}

TEST_F(WorkerPredictorTest, TheSaverSavesAtIntervalsAndAtTheEnd) {
  LearntSurvival survival;
  {
    const SurvivalSaver saver(&survival, "f1", path("state"), std::chrono::milliseconds(1));
    survival.Add({.length_class = "a", .to = 9, .natural = true});
    EXPECT_TRUE(Eventually([&] { return std::filesystem::exists(path("state")); },
                           std::chrono::seconds(20)));
  }
  {
    const SurvivalSaver saver(&survival, "f1", path("late"), std::chrono::hours(1));
    survival.Add({.length_class = "a", .to = 9, .natural = true});
  }
  LearntSurvival read;
  EXPECT_TRUE(LoadSurvival(path("late"), "f1", &read).ok());
}

TEST_F(WorkerPredictorTest, AFolderThatIsNotThereIsTriedAgain) {
  LearntSurvival survival;
  {
    const SurvivalSaver saver(&survival, "f1", path("later/state"), std::chrono::milliseconds(1));
    survival.Add({.length_class = "a", .to = 9, .natural = true});
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_FALSE(std::filesystem::exists(path("later")));
    std::filesystem::create_directory(path("later"));
    EXPECT_TRUE(Eventually([&] { return std::filesystem::exists(path("later/state")); },
                           std::chrono::seconds(20)))
        << "it does not try again";
  }
  LearntSurvival read;
  EXPECT_TRUE(LoadSurvival(path("later/state"), "f1", &read).ok());
}

}  // namespace
}  // namespace baton
