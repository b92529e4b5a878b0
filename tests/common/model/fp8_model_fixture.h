#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "common/model/load_model.h"
#include "common/model/quantize/fp8_reader.h"
#include "common/model/quantize/quantize_checkpoint.h"
#include "common/model/quantize/quantized_parts.h"
#include "common/model/weight_source.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/common/model/edit_checkpoint.h"
#include "tests/common/model/model_harness.h"
#include "tests/fakes/scratch_folder.h"

namespace baton::test {

inline TensorBytes Floats(const std::vector<int64_t>& shape, const std::vector<float>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {"F32", shape, {bytes.begin(), bytes.end()}};
}

// Models made from one of random weights: "fp8", with a scale for each row, "tensor", with one for
// each weight and for the inputs, "blocks", with one for each 16 x 32; and for each "<name>.plain",
// with the numbers that they stand for in bf16.
class Fp8ModelTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    scratch_ = new ScratchFolder;
    const std::string original = Dir("original");
    ASSERT_TRUE(
        WriteRandomModel({.arch = "qwen2", .head_dim = 32, .ffn = 192, .seed = 7}, original).ok());
    const auto report =
        QuantizeCheckpoint(original, Dir("fp8"), {.layers = {.fp8 = true}}, nullptr);
    ASSERT_TRUE(report.ok()) << report.status();
    for (const RoundedProjection& projection : report->projections) {
      EXPECT_GT(projection.relative_error, 0.01) << projection.name;
      EXPECT_LT(projection.relative_error, 0.04) << projection.name;
    }
    WriteWithOtherScales("tensor", {{"quant_method", "fp8"}, {"activation_scheme", "static"}},
                         [](const TensorBytes&, const std::string& module, Tensors& tensors) {
                           tensors[module + ".weight_scale"] = Floats({}, {0.0015F});
                           tensors[module + ".input_scale"] = Floats({1}, {0.02F});
                         });
    WriteWithOtherScales(
        "blocks", {{"quant_method", "fp8"}, {"weight_block_size", {16, 32}}},
        [](const TensorBytes& weight, const std::string& module, Tensors& tensors) {
          const int64_t rows = (weight.shape[0] + 15) / 16;
          const int64_t cols = (weight.shape[1] + 31) / 32;
          std::vector<float> scales;
          for (int64_t i = 0; i < rows * cols; ++i) {
            scales.push_back(0.001F + 0.0001F * static_cast<float>(i % 7));
          }
          tensors.erase(module + ".weight_scale");
          tensors[module + ".weight_scale_inv"] = Floats({rows, cols}, scales);
        });
    for (const char* name : {"fp8", "tensor", "blocks"}) WritePlain(name);
  }
  static void TearDownTestSuite() { delete scratch_; }

  static std::string Dir(const std::string& name) { return *scratch_ / name; }

  // Writes the codes of the first model with other scales, so that they mean another model.
  static void WriteWithOtherScales(
      const std::string& name, const nlohmann::json& quantization,
      const std::function<void(const TensorBytes&, const std::string&, Tensors&)>& scale) {
    Tensors tensors = TensorsIn(Dir("fp8"));
    for (const auto& [weight, tensor] : Tensors(tensors)) {
      if (tensor.dtype != "F8_E4M3") continue;
      const std::string module = weight.substr(0, weight.size() - std::string(".weight").size());
      scale(tensor, module, tensors);
    }
    nlohmann::json config = ConfigIn(Dir("fp8"));
    config["quantization_config"] = quantization;
    WriteModel(Dir(name), config, tensors);
  }

  static void WritePlain(const std::string& name) {
    const ModelConfig config = LoadModelConfig(Dir(name)).value();
    const auto files = CheckpointFiles::Open(Dir(name)).value();
    const Fp8Reader reader(config, *files);
    Tensors tensors = TensorsIn(Dir(name));
    for (const auto& [weight, tensor] : Tensors(tensors)) {
      if (tensor.dtype != "F8_E4M3") continue;
      const PartNames parts = PartNames::Of(config.quantization->format, weight);
      tensors.erase(parts.scales);
      tensors.erase(parts.input_scale);
      TensorBytes plain = {"BF16", tensor.shape, std::vector<std::byte>(tensor.data.size() * 2)};
      const WeightItem item = {
          .name = weight, .ranges = {{weight, 0, tensor.shape[0]}}, .cols = tensor.shape[1]};
      ASSERT_TRUE(reader.WriteValues(item, kernels::DType::kBF16, plain.data.data()).ok());
      tensors[weight] = plain;
    }
    nlohmann::json plain_config = ConfigIn(Dir(name));
    plain_config.erase("quantization_config");
    WriteModel(Dir(name + ".plain"), plain_config, tensors);
  }

  static absl::StatusOr<std::unique_ptr<LoadedModel>> TryLoad(const std::string& dir,
                                                              int32_t ranks = 1,
                                                              const std::string& cache = "") {
    return LoadOnRanks(dir, {"cpu", "auto"}, kernels::DType::kBF16, ranks, cache);
  }

  static std::vector<std::vector<TokenId>> Tokens(LoadedModel& model) {
    std::vector<TestSequence> sequences(6);
    std::vector<TestSequence*> pointers;
    for (size_t s = 0; s < sequences.size(); ++s) {
      for (size_t i = 0; i < 1 + s * 7; ++i) {
        sequences[s].prompt.push_back(static_cast<TokenId>((s * 37 + i * i * 11) % 256));
      }
      pointers.push_back(&sequences[s]);
    }
    RunnerDriver(model).Generate(pointers, 12, 64);
    std::vector<std::vector<TokenId>> outputs;
    for (TestSequence& sequence : sequences) outputs.push_back(sequence.output);
    return outputs;
  }

  // What loading says of the first model after `edit` changed one of its tensors.
  static std::string Refusal(const std::function<void(Tensors&)>& edit) {
    Tensors tensors = TensorsIn(Dir("fp8"));
    edit(tensors);
    WriteModel(Dir("edited"), ConfigIn(Dir("fp8")), tensors);
    return std::string(TryLoad(Dir("edited")).status().message());
  }

  inline static ScratchFolder* scratch_ = nullptr;
};

}  // namespace baton::test
