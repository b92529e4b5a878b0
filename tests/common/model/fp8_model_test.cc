// Models whose projections are stored in e4m3, or have inputs of 8 bits: on a CPU they are the
// models of the numbers that they stand for, bit for bit.
#include <string>
#include <utility>
#include <vector>

#include "common/model/load_memory.h"
#include "common/model/quantize/stored_weights.h"
#include "tests/common/model/fp8_model_fixture.h"

namespace baton::test {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST_F(Fp8ModelTest, IsTheModelOfTheNumbersThatItStandsFor) {
  for (const std::string name : {"fp8", "tensor", "blocks"}) {
    for (const int32_t ranks : {1, 2}) {
      SCOPED_TRACE(name + " on " + std::to_string(ranks));
      const auto stored = TryLoad(Dir(name), ranks);
      const auto plain = TryLoad(Dir(name + ".plain"), ranks);
      ASSERT_TRUE(stored.ok() && plain.ok()) << stored.status() << plain.status();
      EXPECT_EQ((*stored)->weight_bytes, (*plain)->weight_bytes);
      EXPECT_EQ(Tokens(**stored), Tokens(**plain));
      EXPECT_NE((*stored)->fingerprint, (*plain)->fingerprint);
      EXPECT_EQ((*stored)->numerics(),
                (*plain)->numerics() + (name == "blocks" ? "/fp8b16x32" : "/fp8"));
    }
  }
}

// What a device that multiplies by e4m3 is given: codes, where the sides of its share allow it.
TEST_F(Fp8ModelTest, CodesAreGivenToADeviceThatMultipliesByThem) {
  const kernels::BackendInfo info = {.compute_dtype = kernels::DType::kBF16, .fp8_multiple = 16};
  const auto dtype_of = [&](const std::string& name, int64_t rows, int64_t col_end, bool widened) {
    const ModelConfig config = LoadModelConfig(Dir(name)).value();
    const auto files = CheckpointFiles::Open(Dir(name)).value();
    CheckpointSource source(config, *files, info, {}, nullptr);
    const std::string weight = "model.layers.0.self_attn.o_proj.weight";
    const auto data = source.Matrix({.name = weight,
                                     .ranges = {{weight, 0, rows}},
                                     .cols = files->Find(weight)->shape[1],
                                     .col_begin = 0,
                                     .col_end = col_end,
                                     .widened = widened});
    EXPECT_TRUE(data.ok() && !data->quantized.has_value()) << data.status();
    EXPECT_EQ(data->shard.in_end, col_end);
    EXPECT_EQ(data->tensor.row_scales != nullptr, data->tensor.dtype == kernels::DType::kFp8);
    return data->tensor.dtype;
  };
  EXPECT_EQ(dtype_of("fp8", 32, -1, false), kernels::DType::kFp8);
  EXPECT_EQ(dtype_of("fp8", 32, 48, false), kernels::DType::kFp8);
  EXPECT_EQ(dtype_of("tensor", 32, -1, false), kernels::DType::kFp8);
  EXPECT_EQ(dtype_of("fp8", 32, 40, false), kernels::DType::kBF16);
  EXPECT_EQ(dtype_of("fp8", 24, -1, false), kernels::DType::kBF16);
  EXPECT_EQ(dtype_of("fp8", 32, -1, true), kernels::DType::kBF16);
  EXPECT_EQ(dtype_of("blocks", 32, -1, false), kernels::DType::kBF16);
  // Those who ask for finer inputs than such products have get floats.
  for (const json& inputs :
       {json(),
        json{{"num_bits", 8}, {"type", "float"}, {"strategy", "group"}, {"dynamic", true}}}) {
    json config = ConfigIn(Dir("fp8"));
    config["quantization_config"]["config_groups"]["group_0"]["input_activations"] = inputs;
    WriteModel(Dir("finer"), config, TensorsIn(Dir("fp8")));
    EXPECT_EQ(dtype_of("finer", 32, -1, false), kernels::DType::kBF16) << inputs;
  }
}

TEST_F(Fp8ModelTest, IsTheSameOutOfALoadCache) {
  const auto own = TryLoad(Dir("fp8"));
  ASSERT_TRUE(own.ok()) << own.status();
  for (const char* from : {"the checkpoint", "the cache"}) {
    SCOPED_TRACE(from);
    const auto model = TryLoad(Dir("fp8"), 1, Dir("cache"));
    ASSERT_TRUE(model.ok()) << model.status();
    EXPECT_GE((*model)->mapped_bytes, (*own)->weight_bytes);
    EXPECT_EQ(Tokens(**model), Tokens(**own));
  }
}

TEST_F(Fp8ModelTest, LoadsModulesThatWereLeftAsTheyWere) {
  const Tensors plain = TensorsIn(Dir("fp8.plain"));
  EXPECT_EQ(Refusal([&](Tensors& tensors) {
              const std::string module = "model.layers.1.mlp.down_proj";
              tensors.erase(module + ".weight_scale");
              tensors[module + ".weight"] = plain.at(module + ".weight");
            }),
            "");
  EXPECT_THAT(Refusal([&](Tensors& tensors) {
                const std::string module = "model.layers.1.self_attn.k_proj";
                tensors.erase(module + ".weight_scale");
                tensors[module + ".weight"] = plain.at(module + ".weight");
              }),
              AllOf(HasSubstr("k_proj"), HasSubstr("only one of them")));
}

TEST_F(Fp8ModelTest, RefusesWhatCannotBeMeantByTheNameOfItsTensor) {
  const std::string weight = "model.layers.0.self_attn.o_proj.weight";
  const std::string scale = weight + "_scale";
  EXPECT_THAT(Refusal([&](Tensors& tensors) { tensors[weight].data[5] = std::byte{0xff}; }),
              AllOf(HasSubstr(weight), HasSubstr("NaN")));
  EXPECT_THAT(Refusal([&](Tensors& tensors) { tensors.erase(scale); }),
              AllOf(HasSubstr(scale), HasSubstr("is missing")));
  EXPECT_THAT(
      Refusal([&](Tensors& tensors) { std::fill_n(tensors[scale].data.data(), 4, std::byte{0}); }),
      AllOf(HasSubstr(scale), HasSubstr("above 0")));
  EXPECT_THAT(Refusal([&](Tensors& tensors) { tensors[weight].dtype = "F8_E5M2"; }),
              AllOf(HasSubstr(weight), HasSubstr("F8_E5M2"), HasSubstr("F8_E4M3")));
  EXPECT_THAT(Refusal([&](Tensors& tensors) {
                tensors["model.layers.0.self_attn.o_proj.scale"] = tensors[scale];
              }),
              AllOf(HasSubstr("o_proj.scale"), HasSubstr("has no place")));
}

TEST_F(Fp8ModelTest, ZeroPointsOfZerosAreLeftOut) {
  const std::string name = "model.layers.0.self_attn.o_proj.weight_zero_point";
  TensorBytes zeros = {"I8", {1}, {std::byte{0}}};
  EXPECT_EQ(Refusal([&](Tensors& tensors) { tensors[name] = zeros; }), "");
  zeros.data[0] = std::byte{1};
  EXPECT_THAT(Refusal([&](Tensors& tensors) { tensors[name] = zeros; }),
              AllOf(HasSubstr(name), HasSubstr("has no place")));
}

TEST_F(Fp8ModelTest, IsComparedWithItsOriginal) {
  const ModelConfig config = LoadModelConfig(Dir("fp8")).value();
  const auto files = CheckpointFiles::Open(Dir("fp8")).value();
  EXPECT_EQ(StoredKinds(StoredWeights(config, *files)).at("fp8").weights, 14);
  const auto compared = CompareProjections(config, *files, Dir("original"));
  ASSERT_TRUE(compared.ok()) << compared.status();
  ASSERT_EQ(compared->size(), 14U);
  for (const RoundedProjection& projection : *compared) {
    EXPECT_GT(projection.relative_error, 0.01) << projection.name;
    EXPECT_LT(projection.relative_error, 0.04) << projection.name;
  }
}

// Integers whose inputs a checkpoint asks to be rounded are those of the same checkpoint without.
TEST_F(Fp8ModelTest, IntegersWithRoundedInputsAreTheSameIntegers) {
  ASSERT_TRUE(
      QuantizeCheckpoint(Dir("original"), Dir("w8"), {.layers = {.bits = 8, .group = 32}}, nullptr)
          .ok());
  json config = ConfigIn(Dir("w8"));
  config["quantization_config"]["config_groups"]["group_0"]["input_activations"] = {
      {"num_bits", 8}, {"type", "int"}, {"strategy", "tensor"}, {"dynamic", false}};
  Tensors tensors = TensorsIn(Dir("w8"));
  for (const auto& [name, tensor] : Tensors(tensors)) {
    if (!name.ends_with(".weight_scale")) continue;
    const std::string module = name.substr(0, name.size() - std::string(".weight_scale").size());
    tensors[module + ".input_scale"] = Floats({1}, {0.05F});
  }
  WriteModel(Dir("w8a8"), config, tensors);
  const auto rounded = TryLoad(Dir("w8a8"));
  const auto weights_only = TryLoad(Dir("w8"));
  ASSERT_TRUE(rounded.ok() && weights_only.ok()) << rounded.status() << weights_only.status();
  EXPECT_EQ(Tokens(**rounded), Tokens(**weights_only));
  EXPECT_EQ((*rounded)->weight_bytes, (*weights_only)->weight_bytes);

  tensors.erase("model.layers.0.mlp.up_proj.input_scale");
  WriteModel(Dir("w8a8"), config, tensors);
  EXPECT_THAT(std::string(TryLoad(Dir("w8a8")).status().message()),
              AllOf(HasSubstr("up_proj.input_scale"), HasSubstr("is missing")));
}

}  // namespace
}  // namespace baton::test
