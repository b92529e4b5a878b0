#include "common/formats/quantization_config.h"

#include <map>
#include <string>

#include "common/formats/model_config.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/common/formats/quantization_json.h"

namespace baton::test {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using Format = QuantizationConfig::Format;

TEST(QuantizationConfigTest, IsAbsentWhereNoneIsNamed) {
  EXPECT_FALSE(ReadQuantizationConfig(json::object(), "config.json")->has_value());
  EXPECT_FALSE(
      ReadQuantizationConfig({{"quantization_config", nullptr}}, "config.json")->has_value());
}

TEST(QuantizationConfigTest, TakesTheEarlierNameOfTheKeyWhereTheLaterIsAbsent) {
  const json earlier = {{"compression_config", CompressedTensors()}};
  for (const json& config :
       {earlier,
        json{{"compression_config", CompressedTensors()}, {"quantization_config", nullptr}},
        json{{"compression_config", Awq()}, {"quantization_config", CompressedTensors()}}}) {
    const auto read = ReadQuantizationConfig(config, "config.json");
    ASSERT_TRUE(read.ok() && read->has_value()) << read.status() << config;
    EXPECT_EQ((*read)->name(), "w4g128");
  }
  EXPECT_FALSE(
      ReadQuantizationConfig({{"compression_config", nullptr}}, "config.json")->has_value());

  json wrong = CompressedTensors();
  wrong["format"] = "marlin-24";
  for (const char* key : {"compression_config", "quantization_config"}) {
    for (const json& value : {wrong, json("w4")}) {
      const auto read = ReadQuantizationConfig({{key, value}}, "config.json");
      EXPECT_EQ(read.status().code(), absl::StatusCode::kInvalidArgument) << value;
      EXPECT_THAT(std::string(read.status().message()), HasSubstr(key));
    }
  }
}

TEST(QuantizationConfigTest, ReadsCompressedTensors) {
  json config = CompressedTensors();
  EXPECT_EQ(Read(config).format, Format::kPackQuantized);
  EXPECT_EQ(Read(config).bits, 4);
  EXPECT_EQ(Read(config).group, 128);
  EXPECT_TRUE(Read(config).symmetric);
  EXPECT_EQ(Read(config).name(), "w4g128");

  json& weights = config["config_groups"]["group_0"]["weights"];
  weights["num_bits"] = 8;
  weights["strategy"] = "channel";
  weights["group_size"] = nullptr;
  weights["symmetric"] = false;
  config["format"] = "int-quantized";
  EXPECT_EQ(Read(config).format, Format::kIntQuantized);
  EXPECT_EQ(Read(config).group, 0);
  EXPECT_FALSE(Read(config).symmetric);
  EXPECT_EQ(Read(config).name(), "w8");
  EXPECT_EQ(MethodName(Read(config).format), "compressed-tensors");
}

TEST(QuantizationConfigTest, ReadsIntegersWithRoundedInputs) {
  for (const bool dynamic : {false, true}) {
    const QuantizationConfig config = Read(W8A8(dynamic));
    EXPECT_EQ(config.name(), "w8");
    EXPECT_FALSE(config.fp8());
    EXPECT_TRUE(config.asks_rounded_inputs);
    EXPECT_EQ(config.static_inputs, !dynamic);
    ASSERT_EQ(config.Remarks().size(), 1);
    EXPECT_THAT(config.Remarks()[0], HasSubstr("at least as fine as the 8 bits"));
    EXPECT_EQ(config.Remarks()[0].find("input_scale is not used") != std::string::npos, !dynamic);
  }
  EXPECT_TRUE(Read(CompressedTensors()).Remarks().empty());
  json early = W8A8(true);
  early["format"] = "naive-quantized";
  EXPECT_EQ(Read(early).format, Format::kIntQuantized);
}

TEST(QuantizationConfigTest, ReadsFp8) {
  for (const char* strategy : {"tensor", "channel", "block"}) {
    const QuantizationConfig config = Read(FloatQuantized(strategy, true));
    const bool blocks = strategy == std::string("block");
    EXPECT_EQ(config.format, Format::kFloatQuantized);
    EXPECT_TRUE(config.fp8());
    EXPECT_EQ(config.fp8_by_row(), !blocks);
    EXPECT_EQ(config.name(), blocks ? "fp8b128x64" : "fp8");
    EXPECT_FALSE(config.static_inputs);
    ASSERT_EQ(config.Remarks().size(), 1);
    EXPECT_THAT(config.Remarks()[0], HasSubstr("become floats of --dtype"));
    EXPECT_EQ(config.fp8_products(), !blocks);
    EXPECT_EQ(config.Remarks()[0].find("GPU") != std::string::npos, !blocks);
  }
  EXPECT_TRUE(Read(FloatQuantized("tensor", false)).static_inputs);
  json weights_only = FloatQuantized("channel", true);
  GroupOf(weights_only)["input_activations"] = nullptr;
  EXPECT_FALSE(Read(weights_only).asks_rounded_inputs);
  json grouped = FloatQuantized("channel", true);
  GroupOf(grouped)["input_activations"]["strategy"] = "group";
  EXPECT_TRUE(Read(grouped).asks_rounded_inputs);
  // Products with one scale for a row of inputs are coarser than these ask.
  for (const json& finer : {weights_only, grouped}) {
    EXPECT_TRUE(Read(finer).fp8_by_row());
    EXPECT_FALSE(Read(finer).fp8_products());
    EXPECT_EQ(Read(finer).Remarks()[0].find("GPU"), std::string::npos);
  }
  json early = FloatQuantized("tensor", false);
  early["format"] = "naive-quantized";
  EXPECT_EQ(Read(early).format, Format::kFloatQuantized);

  json method = Fp8();
  EXPECT_EQ(Read(method).format, Format::kFp8);
  EXPECT_EQ(Read(method).name(), "fp8");
  EXPECT_EQ(MethodName(Read(method).format), "fp8");
  method["activation_scheme"] = "static";
  EXPECT_TRUE(Read(method).static_inputs);
  method = Fp8();
  method["weight_block_size"] = {128, 128};
  EXPECT_EQ(Read(method).format, Format::kFp8Blocks);
  EXPECT_EQ(Read(method).name(), "fp8b128x128");
  EXPECT_FALSE(Read(method).fp8_by_row());
}

TEST(QuantizationConfigTest, ReadsWhetherThereAreScalesOfKeysAndValues) {
  for (json config : {CompressedTensors(), W8A8(true), FloatQuantized("tensor", false), Fp8()}) {
    EXPECT_FALSE(Read(config).kv_scales);
    config["kv_cache_scheme"] = KvScheme();
    EXPECT_TRUE(Read(config).kv_scales);
    EXPECT_THAT(Read(config).Remarks().back(), HasSubstr("--kv-dtype fp8"));
    config["kv_cache_scheme"] = nullptr;
    EXPECT_FALSE(Read(config).kv_scales);
  }
  json early = Fp8();
  early["kv_cache_scheme"] = "static";
  EXPECT_TRUE(Read(early).kv_scales);
}

TEST(QuantizationConfigTest, ReadsGptqAndAwq) {
  EXPECT_EQ(Read(Gptq()).format, Format::kGptq);
  EXPECT_EQ(Read(Gptq()).zero_added, 1);
  EXPECT_FALSE(Read(Gptq()).symmetric);
  json second = Gptq();
  second["checkpoint_format"] = "gptq_v2";
  second["group_size"] = -1;
  EXPECT_EQ(Read(second).zero_added, 0);
  EXPECT_EQ(Read(second).group, 0);
  EXPECT_EQ(Read(Awq()).format, Format::kAwq);
  EXPECT_EQ(Read(Awq()).name(), "w4g64");
}

// Tools name the form by one key or the other, or by both.
TEST(QuantizationConfigTest, ReadsTheFormFromEitherKey) {
  json gptq = Gptq();
  gptq["format"] = "gptq_v2";
  EXPECT_EQ(Read(gptq).zero_added, 0);
  gptq["checkpoint_format"] = "GPTQ_V2";
  EXPECT_EQ(Read(gptq).zero_added, 0);
  gptq["checkpoint_format"] = nullptr;
  EXPECT_EQ(Read(gptq).zero_added, 0);
  gptq["checkpoint_format"] = "gptq";
  EXPECT_THAT(QuantizationRefusal(gptq),
              AllOf(HasSubstr("\"format\" is \"gptq_v2\""),
                    HasSubstr("\"gptq\" as \"checkpoint_format\" says")));
  gptq["checkpoint_format"] = "gptq_v2";
  gptq["format"] = "marlin";
  EXPECT_THAT(QuantizationRefusal(gptq),
              AllOf(HasSubstr("\"format\" is \"marlin\""), HasSubstr("gptq_v2")));
  json awq = Awq();
  awq["format"] = "gemm";
  EXPECT_EQ(Read(awq).format, Format::kAwq);
  awq["format"] = "gemv";
  EXPECT_THAT(QuantizationRefusal(awq), HasSubstr("\"format\" is \"gemv\""));
  awq.erase("version");
  EXPECT_THAT(QuantizationRefusal(awq), HasSubstr("\"format\" is \"gemv\""));
}

// Where groups of columns are in the order in which they were quantized, a tensor must tell them.
TEST(QuantizationConfigTest, ReadsWhetherATensorTellsTheGroups) {
  EXPECT_FALSE(Read(Gptq()).groups_by_tensor);
  json gptq = Gptq();
  gptq["desc_act"] = false;
  EXPECT_FALSE(Read(gptq).groups_by_tensor);
  gptq["desc_act"] = true;
  EXPECT_TRUE(Read(gptq).groups_by_tensor);
  gptq["static_groups"] = true;
  EXPECT_FALSE(Read(gptq).groups_by_tensor);
  gptq["static_groups"] = false;
  gptq["group_size"] = -1;
  EXPECT_FALSE(Read(gptq).groups_by_tensor) << "a row has one group";
  json config = CompressedTensors();
  for (const json& order : {json("group"), json("Dynamic"), json(true)}) {
    GroupOf(config)["weights"]["actorder"] = order;
    EXPECT_TRUE(Read(config).groups_by_tensor) << order;
  }
  for (const json& order : {json("weight"), json("static"), json(false), json()}) {
    GroupOf(config)["weights"]["actorder"] = order;
    EXPECT_FALSE(Read(config).groups_by_tensor) << order;
  }
  GroupOf(config)["weights"]["actorder"] = "column";
  EXPECT_THAT(QuantizationRefusal(config), AllOf(HasSubstr("actorder"), HasSubstr("\"weight\"")));
  gptq["desc_act"] = "yes";
  EXPECT_THAT(QuantizationRefusal(gptq), HasSubstr("desc_act"));
}

// What changes the numbers is refused; keys that say nothing about them are not.
TEST(QuantizationConfigTest, RefusesTransformsAndSparsity) {
  json config = CompressedTensors();
  config["version"] = "0.12.2";
  config["quantization_status"] = "compressed";
  config["global_compression_ratio"] = 1.5;
  for (const json& none : {json(), json::object(), json{{"config_groups", json::object()}}}) {
    config["transform_config"] = none;
    EXPECT_EQ(Read(config).name(), "w4g128") << none;
  }
  for (const json& none : {json(), json::object(), json{{"format", "dense"}}}) {
    config["sparsity_config"] = none;
    EXPECT_EQ(Read(config).name(), "w4g128") << none;
  }
  json other = config;
  other["transform_config"] = {{"config_groups", {{"u", {{"type", "hadamard"}}}}}};
  EXPECT_THAT(QuantizationRefusal(other),
              AllOf(HasSubstr("transform_config"), HasSubstr("hadamard"), HasSubstr("none")));
  other["transform_config"] = {{"rotation", 1}};
  EXPECT_THAT(QuantizationRefusal(other), HasSubstr("transform_config"));
  other = config;
  other["sparsity_config"] = {{"format", "sparse-24-bitmask"}};
  EXPECT_THAT(QuantizationRefusal(other),
              AllOf(HasSubstr("sparsity_config"), HasSubstr("sparse-24"), HasSubstr("dense")));
}

TEST(QuantizationConfigTest, SaysWhetherTheOutputIsIntegers) {
  using Output = QuantizationConfig::Output;
  EXPECT_EQ(Read(Awq()).output, Output::kOpen);
  json config = CompressedTensors();
  config["ignore"] = json::array({"model.layers.0.mlp.up_proj"});
  EXPECT_EQ(Read(config).output, Output::kOpen);
  GroupOf(config)["targets"] = {"Linear", "lm_head"};
  EXPECT_EQ(Read(config).output, Output::kIntegers);
  config["ignore"] = json::array({"re:.*_head"});
  EXPECT_EQ(Read(config).output, Output::kOpen);
  config["ignore"] = json::array({"lm_head"});
  EXPECT_EQ(Read(config).output, Output::kFloats);
  config = Gptq();
  config["lm_head"] = false;
  EXPECT_EQ(Read(config).output, Output::kFloats);
  config["lm_head"] = true;
  EXPECT_EQ(Read(config).output, Output::kIntegers);
  config["lm_head"] = "what is this";
  EXPECT_EQ(Read(config).output, Output::kOpen);
}

TEST(QuantizationConfigTest, RefusesOtherMethodsWithWhatIsKnown) {
  for (const char* method : {"bitsandbytes", "fbgemm_fp8", "hqq", ""}) {
    EXPECT_THAT(QuantizationRefusal({{"quant_method", method}}),
                AllOf(HasSubstr("quant_method"), HasSubstr("compressed-tensors"), HasSubstr("gptq"),
                      HasSubstr("awq")));
  }
  EXPECT_THAT(QuantizationRefusal(json::array()), HasSubstr("an object"));
}

TEST(QuantizationConfigTest, RefusesOtherBitsGroupsAndForms) {
  const auto with = [](json config, const char* key, const json& value) {
    config[key] = value;
    return QuantizationRefusal(config);
  };
  EXPECT_THAT(with(Gptq(), "bits", 3), HasSubstr("4 or 8"));
  EXPECT_THAT(with(Awq(), "bits", 8), HasSubstr("\"bits\" is 8; expected 4"));
  EXPECT_THAT(with(Awq(), "version", "gemv"), HasSubstr("\"gemm\""));
  EXPECT_THAT(with(Gptq(), "checkpoint_format", "marlin"), HasSubstr("gptq_v2"));
  EXPECT_THAT(with(Gptq(), "is_marlin_format", true), HasSubstr("is_marlin_format"));
  for (const json& group :
       {json(0), json(-2), json(24), json(1e300), json("128"), json(1LL << 40)}) {
    EXPECT_THAT(with(Gptq(), "group_size", group), HasSubstr("group_size"));
  }
  for (const char* form : {"marlin-24", "nvfp4-pack-quantized", "mixed-precision"}) {
    EXPECT_THAT(with(CompressedTensors(), "format", form),
                AllOf(HasSubstr(form), HasSubstr("pack-quantized")));
  }
  EXPECT_THAT(with(CompressedTensors(), "format", "float-quantized"), HasSubstr("num_bits"));
  EXPECT_THAT(with(CompressedTensors(), "config_groups", json::object()),
              HasSubstr("config_groups"));
  EXPECT_THAT(with(CompressedTensors(), "config_groups", {{"a", 1}}), HasSubstr("no object"));
}

TEST(QuantizationConfigTest, RefusesOtherArgumentsOfCompressedTensors) {
  const auto weights = [](const char* key, const json& value) {
    json config = CompressedTensors();
    config["config_groups"]["group_0"]["weights"][key] = value;
    return QuantizationRefusal(config);
  };
  EXPECT_THAT(weights("type", "float"), HasSubstr("\"int\""));
  EXPECT_THAT(weights("num_bits", 2), HasSubstr("4 or 8"));
  EXPECT_THAT(weights("strategy", "tensor"), HasSubstr("channel"));
  EXPECT_THAT(weights("dynamic", true), HasSubstr("dynamic"));
  json mixed = FloatQuantized("channel", true);
  mixed["config_groups"]["group_1"] = mixed["config_groups"]["group_0"];
  mixed["config_groups"]["group_1"]["input_activations"] = nullptr;
  EXPECT_THAT(QuantizationRefusal(mixed), HasSubstr("one kind for all modules"));
  mixed["format"] = "mixed-precision";
  GroupOf(mixed)["format"] = "float-quantized";
  json integers = CompressedTensors();
  mixed["config_groups"]["group_1"] = GroupOf(integers);
  mixed["config_groups"]["group_1"]["format"] = "pack-quantized";
  EXPECT_THAT(QuantizationRefusal(mixed), AllOf(HasSubstr("w4g128"), HasSubstr("fp8")));
}

TEST(QuantizationConfigTest, RefusesOtherInputsAndOutputs) {
  const auto inputs = [](json config, const char* key, const json& value) {
    GroupOf(config)["input_activations"][key] = value;
    return QuantizationRefusal(config);
  };
  for (const json& config : {W8A8(false), FloatQuantized("tensor", false)}) {
    EXPECT_THAT(inputs(config, "num_bits", 4),
                AllOf(HasSubstr("input_activations"), HasSubstr("expected 8")));
    EXPECT_THAT(inputs(config, "symmetric", false), HasSubstr("zero points of inputs"));
    EXPECT_THAT(inputs(config, "strategy", "token"), HasSubstr("\"tensor\""));
    EXPECT_THAT(inputs(config, "dynamic", "local"), HasSubstr("dynamic"));
    json whole = config;
    GroupOf(whole)["input_activations"] = 8;
    EXPECT_THAT(QuantizationRefusal(whole), HasSubstr("input_activations"));
    json outputs = config;
    GroupOf(outputs)["output_activations"] = InputArgs("int", false);
    EXPECT_THAT(QuantizationRefusal(outputs), HasSubstr("output_activations"));
    json other = config;
    GroupOf(other)["format"] = "marlin-24";
    EXPECT_THAT(QuantizationRefusal(other), HasSubstr("marlin-24"));
  }
  EXPECT_THAT(inputs(W8A8(true), "type", "float"), HasSubstr("expected \"int\""));
  EXPECT_THAT(inputs(W8A8(true), "strategy", "attn_head"), HasSubstr("strategy"));
  EXPECT_THAT(inputs(FloatQuantized("tensor", true), "type", "int"), HasSubstr("\"float\""));
}

TEST(QuantizationConfigTest, RefusesOtherFp8) {
  const auto weights = [](const char* key, const json& value) {
    json config = FloatQuantized("block", true);
    GroupOf(config)["weights"][key] = value;
    return QuantizationRefusal(config);
  };
  EXPECT_THAT(weights("num_bits", 4), HasSubstr("expected 8"));
  EXPECT_THAT(weights("type", "int"), HasSubstr("\"float\""));
  EXPECT_THAT(weights("symmetric", false), HasSubstr("symmetric"));
  EXPECT_THAT(weights("strategy", "group"), HasSubstr("\"channel\" or \"block\""));
  EXPECT_THAT(weights("dynamic", true), HasSubstr("dynamic"));
  for (const json& block : {json(), json(128), json{128}, json{128, 0}, json{-1, 128},
                            json{128, 1 << 20}, json{128, 0.5}, json{128, 128, 128}}) {
    EXPECT_THAT(weights("block_structure", block), HasSubstr("block_structure"));
  }
  const auto method = [](const char* key, const json& value) {
    json config = Fp8();
    config[key] = value;
    return QuantizationRefusal(config);
  };
  EXPECT_THAT(method("activation_scheme", "per_token"), HasSubstr("\"static\" or \"dynamic\""));
  EXPECT_THAT(method("fmt", "e5m2"), HasSubstr("e4m3"));
  EXPECT_THAT(method("weight_block_size", 128), HasSubstr("weight_block_size"));
  json blocks = Fp8();
  blocks.update({{"weight_block_size", {128, 128}}, {"activation_scheme", "static"}});
  EXPECT_THAT(QuantizationRefusal(blocks), HasSubstr("activation_scheme"));
}

TEST(QuantizationConfigTest, ReadsThatScalesOfKeysAndValuesAreNotThoseOfLayers) {
  for (const auto& [key, value] :
       std::map<std::string, json>{{"strategy", "attn_head"}, {"dynamic", true}}) {
    json config = CompressedTensors();
    config["kv_cache_scheme"] = KvScheme();
    config["kv_cache_scheme"][key] = value;
    EXPECT_FALSE(Read(config).kv_scales);
    EXPECT_TRUE(Read(config).other_kv_scales);
    EXPECT_THAT(Read(config).Remarks().back(), HasSubstr("--kv-dtype fp8"));
  }
}

TEST(QuantizationConfigTest, RefusesOtherScalesOfKeysAndValues) {
  for (const auto& [key, value] :
       std::map<std::string, json>{{"num_bits", 4}, {"type", "int"}, {"symmetric", false}}) {
    json config = CompressedTensors();
    config["kv_cache_scheme"] = KvScheme();
    config["kv_cache_scheme"][key] = value;
    EXPECT_THAT(QuantizationRefusal(config),
                AllOf(HasSubstr("kv_cache_scheme"), HasSubstr("--kv-dtype")));
  }
  for (const json& scheme : {json::object(), json("dynamic"), json(8)}) {
    json config = Fp8();
    config["kv_cache_scheme"] = scheme;
    EXPECT_THAT(QuantizationRefusal(config), HasSubstr("kv_cache_scheme"));
  }
}

}  // namespace
}  // namespace baton::test
