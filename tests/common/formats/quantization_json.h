#pragma once

#include <string>

#include "common/formats/quantization_config.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace baton::test {

// Descriptions of quantized checkpoints as their tools write them, and what becomes of them.

inline nlohmann::json CompressedTensors() {
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

inline nlohmann::json& GroupOf(nlohmann::json& config) {
  return config["config_groups"]["group_0"];
}

inline nlohmann::json InputArgs(const char* type, bool dynamic) {
  return {{"num_bits", 8},
          {"type", type},
          {"symmetric", true},
          {"strategy", dynamic ? "token" : "tensor"},
          {"dynamic", dynamic}};
}

inline nlohmann::json W8A8(bool dynamic) {
  nlohmann::json config = CompressedTensors();
  config["format"] = "int-quantized";
  GroupOf(config)["weights"].update({{"num_bits", 8}, {"strategy", "channel"}});
  GroupOf(config)["weights"]["group_size"] = nullptr;
  GroupOf(config)["input_activations"] = InputArgs("int", dynamic);
  return config;
}

inline nlohmann::json FloatQuantized(const char* strategy, bool dynamic) {
  nlohmann::json config = CompressedTensors();
  config["format"] = "float-quantized";
  GroupOf(config)["weights"] = {
      {"num_bits", 8}, {"type", "float"}, {"symmetric", true}, {"strategy", strategy}};
  if (std::string(strategy) == "block") {
    GroupOf(config)["weights"]["block_structure"] = {128, 64};
  }
  GroupOf(config)["input_activations"] = InputArgs("float", dynamic);
  return config;
}

inline nlohmann::json Fp8() { return {{"quant_method", "fp8"}, {"activation_scheme", "dynamic"}}; }

inline nlohmann::json KvScheme() {
  return {{"num_bits", 8},
          {"type", "float"},
          {"symmetric", true},
          {"strategy", "tensor"},
          {"dynamic", false}};
}

inline nlohmann::json Gptq() {
  return {{"quant_method", "gptq"}, {"bits", 4}, {"group_size", 128}};
}

inline nlohmann::json Awq() {
  return {{"quant_method", "awq"}, {"bits", 4}, {"group_size", 64}, {"version", "gemm"}};
}

inline QuantizationConfig Read(const nlohmann::json& quantization) {
  const auto read = ReadQuantizationConfig({{"quantization_config", quantization}}, "config.json");
  EXPECT_TRUE(read.ok() && read->has_value()) << read.status();
  return read.ok() && read->has_value() ? **read : QuantizationConfig();
}

inline std::string QuantizationRefusal(const nlohmann::json& quantization) {
  const auto read = ReadQuantizationConfig({{"quantization_config", quantization}}, "config.json");
  EXPECT_EQ(read.status().code(), absl::StatusCode::kInvalidArgument) << quantization;
  return std::string(read.status().message());
}

}  // namespace baton::test
