#include "common/model/quantize/quantize_checkpoint.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "common/formats/model_config.h"
#include "common/formats/safetensors.h"
#include "common/model/quantize/quantized_reader.h"
#include "common/model/quantize/stored_weights.h"
#include "common/model/random/random_model.h"
#include "common/model/tensor_specs.h"
#include "common/model/weight_source.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/float_convert.h"
#include "nlohmann/json.hpp"
#include "tests/common/model/edit_checkpoint.h"
#include "tests/fakes/scratch_folder.h"

namespace baton {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::vector<float> NormalWeights(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 0.02F);
  std::vector<float> weights(count);
  for (float& weight : weights) weight = normal(random);
  return weights;
}

double SumOfErrors(const std::vector<float>& weights, const RoundingScheme& scheme) {
  std::vector<int8_t> codes(weights.size());
  const float scale = RoundGroup(weights, scheme, codes);
  double sum = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    const double error = weights[i] - static_cast<double>(codes[i]) * scale;
    sum += error * error;
  }
  return sum;
}

TEST(RoundGroupTest, TheNearestIntegerIsHalfAStepAway) {
  for (const int bits : {4, 8}) {
    const std::vector<float> weights = NormalWeights(64, 1);
    std::vector<int8_t> codes(64);
    const float scale =
        RoundGroup(weights, {.bits = bits, .group = 64, .method = RoundingMethod::kNearest}, codes);
    EXPECT_EQ(scale, kernels::FloatFromBf16(kernels::Bf16FromFloat(scale)));
    for (size_t i = 0; i < weights.size(); ++i) {
      EXPECT_GE(codes[i], -(1 << (bits - 1)));
      EXPECT_LE(codes[i], (1 << (bits - 1)) - 1);
      // A bf16 scale may fall short of the largest weight by a 256th of it.
      EXPECT_LE(std::abs(weights[i] - static_cast<float>(codes[i]) * scale),
                scale * (0.5F + (bits == 8 ? 0.5F : 0.04F)));
    }
  }
}

TEST(RoundGroupTest, TheSearchNeverErrsMoreThanTheNearest) {
  double nearest_sum = 0;
  double search_sum = 0;
  for (uint32_t seed = 0; seed < 50; ++seed) {
    const std::vector<float> weights = NormalWeights(32, seed);
    const double nearest =
        SumOfErrors(weights, {.bits = 4, .group = 32, .method = RoundingMethod::kNearest});
    const double search =
        SumOfErrors(weights, {.bits = 4, .group = 32, .method = RoundingMethod::kSearch});
    EXPECT_LE(search, nearest) << seed;
    nearest_sum += nearest;
    search_sum += search;
  }
  EXPECT_LT(search_sum, 0.9 * nearest_sum);
}

TEST(RoundGroupTest, ZerosAndWhatIsNearlyZeroBecomeZeros) {
  for (const float value : {0.0F, 1e-44F}) {
    const std::vector<float> weights(16, value);
    std::vector<int8_t> codes(16, 1);
    EXPECT_EQ(RoundGroup(weights, {.group = 16}, codes), 0);
    EXPECT_THAT(codes, ::testing::Each(0));
  }
}

class QuantizeCheckpointTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(WriteRandomModel({.arch = "qwen2", .seed = 3}, dir_ / "in").ok());
  }
  std::string Refusal(const CheckpointRounding& rounding = {}) {
    const auto report = QuantizeCheckpoint(dir_ / "in", dir_ / "out", rounding, nullptr);
    EXPECT_FALSE(report.ok());
    return std::string(report.status().message());
  }
  void EditConfig(const std::string& key, const nlohmann::json& value) {
    std::ifstream in(dir_ / "in/config.json");
    nlohmann::json config = nlohmann::json::parse(in);
    config[key] = value;
    std::ofstream(dir_ / "in/config.json") << config;
  }
  ScratchFolder dir_;
};

TEST_F(QuantizeCheckpointTest, WritesAModelWhoseProjectionsAreNearTheirOriginals) {
  for (const int bits : {4, 8}) {
    const std::string out = dir_ / ("w" + std::to_string(bits));
    int64_t told = 0;
    const auto report =
        QuantizeCheckpoint(dir_ / "in", out, {.layers = {.bits = bits, .group = 32}},
                           [&](int64_t done, int64_t) { told = done; });
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_EQ(told, report->bytes_before);
    EXPECT_LT(report->bytes_after, report->bytes_before);
    EXPECT_EQ(report->projections.size(), 14U);  // seven of each of two layers
    for (const RoundedProjection& projection : report->projections) {
      EXPECT_GT(projection.relative_error, bits == 4 ? 0.03 : 0.001) << projection.name;
      EXPECT_LT(projection.relative_error, bits == 4 ? 0.12 : 0.008) << projection.name;
    }
    const auto config = LoadModelConfig(out);
    ASSERT_TRUE(config.ok()) << config.status();
    EXPECT_EQ(config->quantization->name(), "w" + std::to_string(bits) + "g32");
    const auto files = CheckpointFiles::Open(out);
    ASSERT_TRUE(files.ok()) << files.status();
    EXPECT_TRUE(CheckTensors(*config, **files).ok()) << CheckTensors(*config, **files);
    EXPECT_EQ((*files)->data_bytes(), report->bytes_after);

    // What is read again has the error that was reported.
    const auto original = CheckpointFiles::Open(dir_ / "in");
    const RoundedProjection& reported = report->projections.back();
    const StoredTensor& weight = *(*original)->Find(reported.name);
    QuantizedReader reader(*config, **files);
    const auto tensor = reader.Read(
        {.name = "item", .ranges = {{reported.name, 0, weight.shape[0]}}, .cols = weight.shape[1]});
    ASSERT_TRUE(tensor.ok()) << tensor.status();
    double errors = 0;
    double squares = 0;
    for (int64_t i = 0; i < weight.shape[0] * weight.shape[1]; ++i) {
      uint16_t stored = 0;
      std::memcpy(&stored, weight.data.data() + 2 * i, 2);
      const double value = kernels::FloatFromBf16(stored);
      const double error = value - tensor->at(i / weight.shape[1], i % weight.shape[1]);
      errors += error * error;
      squares += value * value;
    }
    EXPECT_NEAR(std::sqrt(errors / squares), reported.relative_error, 1e-6);
  }
}

// The errors of weights that QuantizeCheckpoint told and CompareProjections finds.
void ExpectSameErrors(const QuantizeReport& report, const std::string& out, const std::string& in) {
  const auto config = LoadModelConfig(out);
  ASSERT_TRUE(config.ok()) << config.status();
  const auto files = CheckpointFiles::Open(out);
  ASSERT_TRUE(files.ok()) << files.status();
  ASSERT_TRUE(CheckTensors(*config, **files).ok()) << CheckTensors(*config, **files);
  const auto compared = CompareProjections(*config, **files, in);
  ASSERT_TRUE(compared.ok()) << compared.status();
  ASSERT_EQ(compared->size(), report.projections.size());
  for (const RoundedProjection& projection : *compared) {
    const auto told =
        std::ranges::find(report.projections, projection.name, &RoundedProjection::name);
    ASSERT_NE(told, report.projections.end()) << projection.name;
    EXPECT_NEAR(told->relative_error, projection.relative_error, 1e-6) << projection.name;
  }
}

TEST_F(QuantizeCheckpointTest, RoundsTheOutputProjectionToEightBitsWhereAsked) {
  for (const int bits : {4, 8}) {
    SCOPED_TRACE(bits);
    const std::string out = dir_ / ("w" + std::to_string(bits));
    const auto report = QuantizeCheckpoint(
        dir_ / "in", out, {.layers = {.bits = bits, .group = 32}, .output = true}, nullptr);
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_EQ(report->projections.size(), 15U);
    const auto output =
        std::ranges::find(report->projections, "lm_head.weight", &RoundedProjection::name);
    ASSERT_NE(output, report->projections.end());
    EXPECT_LT(output->relative_error, 0.008);
    const auto config = LoadModelConfig(out);
    ASSERT_TRUE(config.ok()) << config.status();
    EXPECT_EQ(config->quantization->name(), bits == 4 ? "w4g32+w8g32" : "w8g32");
    EXPECT_EQ(config->quantization->output, QuantizationConfig::Output::kIntegers);
    ExpectSameErrors(*report, out, dir_ / "in");
  }
}

TEST_F(QuantizeCheckpointTest, GivesATiedModelAnOutputProjectionOfItsOwn) {
  ASSERT_TRUE(
      WriteRandomModel({.arch = "qwen2", .seed = 4, .tied_embeddings = true}, dir_ / "tied").ok());
  int64_t told = 0;
  const auto report = QuantizeCheckpoint(dir_ / "tied", dir_ / "out", {.output = true},
                                         [&](int64_t done, int64_t total) {
                                           EXPECT_LE(done, total);
                                           told = done;
                                         });
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(told, report->bytes_before);
  const auto config = LoadModelConfig(dir_ / "out");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_FALSE(config->tied_embeddings);
  ExpectSameErrors(*report, dir_ / "out", dir_ / "tied");

  // The copy of the embeddings that some tools write in place of the output projection goes.
  test::Tensors tensors = test::TensorsIn(dir_ / "tied");
  tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"];
  test::WriteModel(dir_ / "copied", test::ConfigIn(dir_ / "tied"), tensors);
  const auto again =
      QuantizeCheckpoint(dir_ / "copied", dir_ / "out_of_copied", {.output = true}, nullptr);
  ASSERT_TRUE(again.ok()) << again.status();
  ExpectSameErrors(*again, dir_ / "out_of_copied", dir_ / "tied");
}

TEST_F(QuantizeCheckpointTest, RefusesIntegersBesideE4m3) {
  EXPECT_THAT(Refusal({.layers = {.fp8 = true}, .output = true}), HasSubstr("e4m3"));
  EXPECT_FALSE(std::filesystem::exists(dir_ / "out"));
}

TEST_F(QuantizeCheckpointTest, RefusesATiedModelWhoseOutputProjectionIsAnother) {
  EditConfig("tie_word_embeddings", true);
  EXPECT_THAT(Refusal(),
              AllOf(HasSubstr("lm_head.weight"), HasSubstr("model.embed_tokens.weight")));
  EXPECT_FALSE(std::filesystem::exists(dir_ / "out"));
}

TEST_F(QuantizeCheckpointTest, KeepsWhatStandsBesideTheWeights) {
  ASSERT_TRUE(QuantizeCheckpoint(dir_ / "in", dir_ / "out", {}, nullptr).ok());
  for (const std::string name :
       {"tokenizer.json", "tokenizer_config.json", "generation_config.json"}) {
    EXPECT_EQ(std::filesystem::file_size(dir_ / ("out/" + name)),
              std::filesystem::file_size(dir_ / ("in/" + name)))
        << name;
  }
}

TEST_F(QuantizeCheckpointTest, RefusesADirectoryThatIsThereAndLeavesItAlone) {
  std::filesystem::create_directory(dir_ / "out");
  std::ofstream(dir_ / "out/mine") << "mine";
  EXPECT_THAT(Refusal(), HasSubstr("is there already"));
  EXPECT_TRUE(std::filesystem::exists(dir_ / "out/mine"));
}

TEST_F(QuantizeCheckpointTest, RefusesWhatItCannotRoundAndLeavesNothingBehind) {
  EXPECT_THAT(Refusal({.layers = {.group = 128}}),
              AllOf(HasSubstr("64 columns"), HasSubstr("--group 128"), HasSubstr("smaller")));
  ASSERT_TRUE(WriteRandomModel({.hidden = 40, .heads = 4}, dir_ / "narrow").ok());
  EXPECT_THAT(
      std::string(
          QuantizeCheckpoint(dir_ / "narrow", dir_ / "out", {}, nullptr).status().message()),
      AllOf(HasSubstr("40 columns"), HasSubstr("--scheme fp8"), Not(HasSubstr("smaller"))));
  std::filesystem::remove_all(dir_ / "narrow");
  EditConfig("quantization_config", {{"quant_method", "awq"}, {"bits", 4}, {"group_size", 32}});
  EXPECT_THAT(Refusal(), AllOf(HasSubstr("quantized already"), HasSubstr("awq")));
  EditConfig("quantization_config", nullptr);
  // A weight that is no number comes to light when half of the file is written.
  std::fstream weights(dir_ / "in/model.safetensors",
                       std::ios::in | std::ios::out | std::ios::binary);
  const auto files = CheckpointFiles::Open(dir_ / "in").value();
  const StoredTensor* tensor = files->Find("model.layers.1.mlp.up_proj.weight");
  const auto* start = reinterpret_cast<const std::byte*>(files->files()[0]->header().data()) - 8;
  weights.seekp(tensor->data.data() - start);
  weights.write("\xc0\x7f", 2);
  weights.close();
  EXPECT_THAT(Refusal(), AllOf(HasSubstr("layers.1.mlp.up_proj"), HasSubstr("no finite number")));
  for (const auto& entry : std::filesystem::directory_iterator(dir_.path())) {
    EXPECT_EQ(entry.path().filename(), "in");
  }
}

}  // namespace
}  // namespace baton
