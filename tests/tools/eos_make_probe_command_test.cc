#include <filesystem>
#include <string>

#include "common/formats/eos_probe_file.h"
#include "common/model/load_model.h"
#include "common/model/random/random_model.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/scratch_folder.h"
#include "tests/tools/run_tool.h"

namespace baton {
namespace {

using ::testing::HasSubstr;

class EosMakeProbeCommand : public ::testing::Test {
 protected:
  EosMakeProbeCommand() {
    EXPECT_TRUE(WriteRandomModel({.layers = 2, .hidden = 48, .heads = 4}, model_).ok());
  }

  const ScratchFolder folder_;
  const std::string model_ = folder_ / "model";
  const std::string file_ = folder_ / "probe.json";
};

// With the fingerprint that a worker finds, and directions that fit its model.
TEST_F(EosMakeProbeCommand, WritesAProbeForTheModel) {
  const ToolRun run = RunTool({"eos", "make-probe", model_, "--dims", "8", "--seed", "5",
                               "--after-layer", "1", "--out", file_});
  ASSERT_EQ(run.exit, 0) << run.err;
  EXPECT_EQ(run.out, file_ + "\n");
  const auto probe = LoadEosProbeFile(file_);
  ASSERT_TRUE(probe.ok()) << probe.status();
  EXPECT_EQ(probe->kind, EosProbeKind::kRandom);
  EXPECT_EQ(probe->seed, 5u);
  EXPECT_EQ(probe->probe.dims, 8);
  EXPECT_EQ(probe->probe.layer, 1);
  EXPECT_EQ(probe->probe.directions, MakeRandomEosProbe(48, 8, 1, 5)->directions);
  ModelOptions options;
  options.kv.tokens = 64;
  options.probe = probe->probe;
  const auto model = LoadModel(model_, options, nullptr);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_TRUE(CheckMadeFor(*probe, file_, (*model)->fingerprint).ok());
}

TEST_F(EosMakeProbeCommand, ALinkStaysAndWhatItLeadsToIsReplaced) {
  const std::string link = folder_ / "link";
  std::filesystem::create_symlink(folder_.Write("probe.json", "old"), link);
  ASSERT_EQ(RunTool({"eos", "make-probe", model_, "--dims", "8", "--out", link}).exit, 0);
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_TRUE(LoadEosProbeFile(file_).ok());
}

TEST_F(EosMakeProbeCommand, NothingElseGoesToADevice) {
  const std::string link = folder_ / "link";
  std::filesystem::create_symlink("/dev/null", link);
  const ToolRun run = RunTool({"eos", "make-probe", model_, "--dims", "8", "--out", link});
  EXPECT_EQ(run.exit, 0) << run.err;
  EXPECT_EQ(run.out, "") << "which may be the device";
  EXPECT_TRUE(std::filesystem::is_symlink(link));
}

TEST_F(EosMakeProbeCommand, TheFingerprintIsOfTheDtype) {
  ASSERT_EQ(RunTool({"eos", "make-probe", model_, "--dims", "8", "--out", file_}).exit, 0);
  const auto automatic = LoadEosProbeFile(file_);
  ASSERT_EQ(
      RunTool({"eos", "make-probe", model_, "--dims", "8", "--dtype", "float16", "--out", file_})
          .exit,
      0);
  const auto half = LoadEosProbeFile(file_);
  ASSERT_TRUE(automatic.ok() && half.ok());
  EXPECT_FALSE(CheckMadeFor(*half, file_, automatic->model_fingerprint).ok());
  EXPECT_EQ(half->probe.directions, automatic->probe.directions);
}

TEST_F(EosMakeProbeCommand, SaysWhatDoesNotFit) {
  // 64 directions are the default, and too many here.
  ToolRun run = RunTool({"eos", "make-probe", model_, "--out", file_});
  EXPECT_EQ(run.exit, 2);
  EXPECT_THAT(run.err, HasSubstr("64 directions in a hidden state of 48"));
  run = RunTool({"eos", "make-probe", model_, "--dims", "8", "--after-layer", "2", "--out", file_});
  EXPECT_EQ(run.exit, 2);
  EXPECT_THAT(run.err, HasSubstr("layer 2 and the model has 2"));
  run = RunTool({"eos", "make-probe", folder_ / "none", "--out", file_});
  EXPECT_EQ(run.exit, 3);
  EXPECT_THAT(run.err, HasSubstr("/none"));
  run = RunTool({"eos", "make-probe", model_, "--dims", "8", "--out", folder_ / "no/such/file"});
  EXPECT_EQ(run.exit, 4);
  run = RunTool({"eos", "make-probe", model_});
  EXPECT_EQ(run.exit, 2);
  EXPECT_THAT(run.err, HasSubstr("--out"));
}

}  // namespace
}  // namespace baton
