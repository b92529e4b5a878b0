// Models whose projections are integers of several kinds, as the groups of modules in config.json
// say: each weight is read by its own kind.
#include <map>
#include <string>
#include <vector>

#include "common/model/footprint.h"
#include "common/model/load_model.h"
#include "common/model/quantize/quantize_checkpoint.h"
#include "common/model/quantize/stored_weights.h"
#include "common/model/tensor_specs.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/common/model/edit_checkpoint.h"
#include "tests/common/model/model_harness.h"
#include "tests/common/model/run_sequences.h"
#include "tests/fakes/scratch_folder.h"

namespace baton::test {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

class SeveralKindsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string plain = dir_ / "plain";
    ASSERT_TRUE(WriteRandomModel({.head_dim = 32, .ffn = 192, .seed = 7}, plain).ok());
    for (const int bits : {4, 8}) {
      const std::string out = dir_ / ("w" + std::to_string(bits));
      ASSERT_TRUE(
          QuantizeCheckpoint(plain, out, {.layers = {.bits = bits, .group = 32}}, nullptr).ok());
    }
  }

  // Writes the model of 4 bits with the modules whose names end so in 8, which the target names.
  void Mix(const std::vector<std::string>& modules_of_8, const std::string& target) {
    Tensors tensors = TensorsIn(dir_ / "w4");
    for (const auto& [name, tensor] : TensorsIn(dir_ / "w8")) {
      for (const std::string& module : modules_of_8) {
        if (name.find(module + ".weight_") != std::string::npos) tensors[name] = tensor;
      }
    }
    json config = ConfigIn(dir_ / "w4");
    json& groups = config["quantization_config"]["config_groups"];
    groups["group_1"] = groups["group_0"];
    groups["group_1"]["targets"] = {target};
    groups["group_1"]["weights"]["num_bits"] = 8;
    WriteModel(Mixed(), config, tensors);
  }

  std::string Mixed() const { return dir_ / "mixed"; }
  std::string Refusal() const {
    const auto model = TryLoad(Mixed(), {"cpu", "auto"}, "bfloat16");
    EXPECT_EQ(model.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(model.status().message());
  }
  // The error of each projection of a model against the one that it was made from.
  std::map<std::string, double> Errors(const std::string& dir) const {
    const ModelConfig config = LoadModelConfig(dir).value();
    const auto files = CheckpointFiles::Open(dir).value();
    const auto compared = CompareProjections(config, *files, dir_ / "plain");
    EXPECT_TRUE(compared.ok()) << compared.status();
    std::map<std::string, double> errors;
    for (const RoundedProjection& one : *compared) errors[one.name] = one.relative_error;
    return errors;
  }

  const ScratchFolder dir_;
};

TEST_F(SeveralKindsTest, EachWeightHasTheNumbersOfItsOwnKind) {
  Mix({"down_proj", "o_proj"}, "re:.*(down|o)_proj$");
  const auto errors = Errors(Mixed());
  const auto of_4 = Errors(dir_ / "w4");
  const auto of_8 = Errors(dir_ / "w8");
  ASSERT_EQ(errors.size(), of_4.size());
  for (const auto& [name, error] : errors) {
    const bool in_8 =
        name.find("down_proj") != std::string::npos || name.find("o_proj") != std::string::npos;
    EXPECT_EQ(error, in_8 ? of_8.at(name) : of_4.at(name)) << name;
  }
}

TEST_F(SeveralKindsTest, AloneEqualsBatchedAndChunkedOnOneRankAndTwo) {
  Mix({"down_proj"}, "re:.*down_proj");
  for (const int32_t ranks : {1, 2}) {
    auto model = LoadOnRanks(Mixed(), {"cpu", "auto"}, kernels::DType::kF32, ranks, "");
    ASSERT_TRUE(model.ok()) << model.status();
    EXPECT_THAT((*model)->numerics(), ::testing::EndsWith("/int8-inputs/w4g32+w8g32"));
    const auto expected = RunAlone(**model);
    for (const int32_t chunk : {512, 5}) {
      EXPECT_EQ(RunTogether(**model, chunk), expected) << ranks << " ranks, chunks of " << chunk;
    }
  }
}

TEST_F(SeveralKindsTest, MemoryIsReckonedByTheKindOfEachWeight) {
  Mix({"down_proj"}, "re:.*down_proj");
  const ModelConfig config = LoadModelConfig(Mixed()).value();
  // An integer of 4 or 8 bits, and of a scale of 2 bytes for 32 a part.
  double bytes = 0;
  double elements = 0;
  for (const TensorSpec& spec : ExpectedTensors(config)) {
    if (!spec.name.ends_with("_proj.weight")) continue;
    const bool in_8 = spec.name.ends_with("down_proj.weight");
    bytes += static_cast<double>(spec.elements()) * ((in_8 ? 1 : 0.5) + 2.0 / 32);
    elements += static_cast<double>(spec.elements());
  }
  EXPECT_DOUBLE_EQ(BytesPerWeight(config, kernels::DType::kBF16), bytes / elements);
  EXPECT_EQ(OutputBytesPerWeight(config, kernels::DType::kBF16), 2);
}

TEST_F(SeveralKindsTest, RefusesKindsThatDifferInWhatIsUsedAsOne) {
  Mix({"k_proj"}, "re:.*k_proj");
  EXPECT_THAT(Refusal(), AllOf(HasSubstr("q_proj.weight (w4g32)"), HasSubstr("k_proj.weight (w8"),
                               HasSubstr("expected one kind for both")));
}

TEST_F(SeveralKindsTest, RefusesWeightsThatAreStoredInAnotherKindThanTheirGroupSays) {
  Mix({"down_proj"}, "re:.*up_proj");
  EXPECT_THAT(Refusal(), AllOf(HasSubstr("up_proj.weight_packed"), HasSubstr("w8g32")));
}

TEST_F(SeveralKindsTest, RefusesAQuantizedModuleThatNoGroupNames) {
  Mix({"down_proj"}, "re:.*down_proj");
  json config = ConfigIn(Mixed());
  config["quantization_config"]["config_groups"]["group_0"]["targets"] = {"re:.*self_attn"};
  WriteModel(Mixed(), config, TensorsIn(Mixed()));
  EXPECT_THAT(Refusal(), AllOf(HasSubstr("layers.0.mlp.gate_proj"), HasSubstr("no group")));

  // A byte for each integer has the name that floats have.
  Tensors tensors = TensorsIn(Mixed());
  const std::string gate = "model.layers.0.mlp.gate_proj.weight";
  const TensorBytes packed = tensors.at(gate + "_packed");
  tensors.erase(gate + "_packed");
  tensors[gate] = {"I8", {packed.shape[0], packed.shape[1] * 4}, packed.data};
  WriteModel(Mixed(), config, tensors);
  EXPECT_THAT(Refusal(), AllOf(HasSubstr("layers.0.mlp.gate_proj"), HasSubstr("no group")));
}

TEST_F(SeveralKindsTest, RefusesAModuleThatTwoGroupsName) {
  Mix({"down_proj"}, "Linear");
  EXPECT_THAT(Refusal(),
              AllOf(HasSubstr("layers.0.self_attn.q_proj"), HasSubstr("several groups")));
}

}  // namespace
}  // namespace baton::test
