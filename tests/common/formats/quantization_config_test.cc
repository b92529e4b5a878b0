#include "common/formats/quantization_config.h"

#include <string>

#include "common/formats/model_config.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using Format = QuantizationConfig::Format;

json CompressedTensors() {
  return {{"quant_method", "compressed-tensors"},
          {"format", "pack-quantized"},
          {"config_groups",
           {{"group_0",
             {{"targets", {"Linear"}},
              {"input_activations", nullptr},
              {"weights",
               {{"num_bits", 4},
                {"type", "int"},
                {"symmetric", true},
                {"strategy", "group"},
                {"group_size", 128},
                {"dynamic", false}}}}}}},
          {"ignore", {"lm_head"}}};
}

json Gptq() { return {{"quant_method", "gptq"}, {"bits", 4}, {"group_size", 128}}; }

json Awq() {
  return {{"quant_method", "awq"}, {"bits", 4}, {"group_size", 64}, {"version", "gemm"}};
}

QuantizationConfig Read(const json& quantization) {
  const auto read = ReadQuantizationConfig({{"quantization_config", quantization}}, "config.json");
  EXPECT_TRUE(read.ok() && read->has_value()) << read.status();
  return read.ok() && read->has_value() ? **read : QuantizationConfig();
}

std::string QuantizationRefusal(const json& quantization) {
  const auto read = ReadQuantizationConfig({{"quantization_config", quantization}}, "config.json");
  EXPECT_EQ(read.status().code(), absl::StatusCode::kInvalidArgument) << quantization;
  return std::string(read.status().message());
}

TEST(QuantizationConfigTest, IsAbsentWhereNoneIsNamed) {
  EXPECT_FALSE(ReadQuantizationConfig(json::object(), "config.json")->has_value());
  EXPECT_FALSE(
      ReadQuantizationConfig({{"quantization_config", nullptr}}, "config.json")->has_value());
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

TEST(QuantizationConfigTest, SaysWhetherTheOutputMayBeIntegers) {
  EXPECT_TRUE(Read(Awq()).output_may_be_integers);
  json config = CompressedTensors();
  config["ignore"] = json::array({"model.layers.0.mlp.up_proj"});
  EXPECT_TRUE(Read(config).output_may_be_integers);
  config["ignore"] = json::array({"lm_head"});
  EXPECT_FALSE(Read(config).output_may_be_integers);
  config = Gptq();
  config["lm_head"] = false;
  EXPECT_FALSE(Read(config).output_may_be_integers);
  config["lm_head"] = true;
  EXPECT_TRUE(Read(config).output_may_be_integers);
  config["lm_head"] = "what is this";
  EXPECT_TRUE(Read(config).output_may_be_integers);
}

TEST(QuantizationConfigTest, RefusesOtherMethodsWithWhatIsKnown) {
  for (const char* method : {"bitsandbytes", "fp8", "hqq", ""}) {
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
  EXPECT_THAT(with(CompressedTensors(), "format", "float-quantized"),
              AllOf(HasSubstr("float-quantized"), HasSubstr("pack-quantized")));
  EXPECT_THAT(with(CompressedTensors(), "kv_cache_scheme", json::object()),
              HasSubstr("kv_cache_scheme"));
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
  json activations = CompressedTensors();
  activations["config_groups"]["group_0"]["input_activations"] = {{"num_bits", 8}};
  EXPECT_THAT(QuantizationRefusal(activations), HasSubstr("W4A16"));
  json mixed = CompressedTensors();
  mixed["config_groups"]["group_1"] = mixed["config_groups"]["group_0"];
  mixed["config_groups"]["group_1"]["weights"]["num_bits"] = 8;
  EXPECT_THAT(QuantizationRefusal(mixed), AllOf(HasSubstr("w4g128"), HasSubstr("w8g128")));
}

}  // namespace
}  // namespace baton
