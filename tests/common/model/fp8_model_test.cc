// Models whose projections are stored in e4m3, or have inputs of 8 bits: on a CPU they are the
// models of the numbers that they stand for, bit for bit.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "common/model/load_memory.h"
#include "common/model/load_model.h"
#include "common/model/quantize/fp8_reader.h"
#include "common/model/quantize/quantize_checkpoint.h"
#include "common/model/quantize/quantized_parts.h"
#include "common/model/quantize/safetensors_writer.h"
#include "common/model/quantize/stored_weights.h"
#include "common/model/weight_source.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/common/model/model_harness.h"
#include "tests/fakes/scratch_folder.h"

namespace baton::test {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

struct TensorBytes {
  std::string dtype;
  std::vector<int64_t> shape;
  std::vector<std::byte> data;
};
using Tensors = std::map<std::string, TensorBytes>;

Tensors TensorsIn(const std::string& dir) {
  Tensors tensors;
  const auto files = CheckpointFiles::Open(dir).value();
  for (const StoredTensor* tensor : files->tensors()) {
    tensors[tensor->name] = {
        tensor->dtype, tensor->shape, {tensor->data.begin(), tensor->data.end()}};
  }
  return tensors;
}

json ConfigIn(const std::string& dir) {
  std::ifstream file(dir + "/config.json");
  return json::parse(file);
}

// Writes a model directory of such tensors.
void WriteModel(const std::string& dir, const json& config, const Tensors& tensors) {
  std::filesystem::remove_all(dir);
  std::filesystem::create_directories(dir);
  std::ofstream(dir + "/config.json") << config;
  std::vector<TensorToWrite> planned;
  for (const auto& [name, tensor] : tensors) {
    planned.push_back({name, tensor.dtype, tensor.shape, std::ssize(tensor.data)});
  }
  const auto writer = SafetensorsWriter::Create(dir + "/model.safetensors", planned).value();
  for (const auto& [name, tensor] : tensors) ASSERT_TRUE(writer->Write(tensor.data).ok());
  ASSERT_TRUE(writer->Close().ok());
}

TensorBytes Floats(const std::vector<int64_t>& shape, const std::vector<float>& values) {
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
    const auto report = QuantizeCheckpoint(original, Dir("fp8"), {.fp8 = true}, nullptr);
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
      const std::string& name, const json& quantization,
      const std::function<void(const TensorBytes&, const std::string&, Tensors&)>& scale) {
    Tensors tensors = TensorsIn(Dir("fp8"));
    for (const auto& [weight, tensor] : Tensors(tensors)) {
      if (tensor.dtype != "F8_E4M3") continue;
      const std::string module = weight.substr(0, weight.size() - std::string(".weight").size());
      scale(tensor, module, tensors);
    }
    json config = ConfigIn(Dir("fp8"));
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
    json plain_config = ConfigIn(Dir(name));
    plain_config.erase("quantization_config");
    WriteModel(Dir(name + ".plain"), plain_config, tensors);
  }

  static absl::StatusOr<std::unique_ptr<LoadedModel>> TryLoad(const std::string& dir,
                                                              int32_t ranks = 1,
                                                              const std::string& cache = "") {
    ModelOptions options;
    options.dtype = kernels::DType::kBF16;
    options.threads = 2;
    options.tensor_parallel_size = ranks;
    options.kv.tokens = 8192;
    options.limits = {.max_tokens = 512, .max_samples = 64};
    options.load_cache = cache;
    return LoadModel(dir, options, nullptr);
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

  static ScratchFolder* scratch_;
};
ScratchFolder* Fp8ModelTest::scratch_ = nullptr;

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
  EXPECT_EQ(StoredKinds(config, *files).at("fp8").weights, 14);
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
      QuantizeCheckpoint(Dir("original"), Dir("w8"), {.bits = 8, .group = 32}, nullptr).ok());
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

// Scales of keys and values, by every name that they have.
class KvScalesTest : public Fp8ModelTest {
 protected:
  static json KvScheme() {
    return {{"num_bits", 8}, {"type", "float"}, {"strategy", "tensor"}, {"dynamic", false}};
  }
  // Writes the first model with such scales of its two layers.
  static void WriteScaled(const std::string& name, const std::string& k_name,
                          const std::string& v_name, float k, float v) {
    Tensors tensors = TensorsIn(Dir("fp8"));
    for (const int layer : {0, 1}) {
      const std::string module = "model.layers." + std::to_string(layer) + ".self_attn.";
      tensors[module + k_name] = Floats({1}, {k});
      tensors[module + v_name] = Floats({1}, {v});
    }
    json config = ConfigIn(Dir("fp8"));
    config["quantization_config"]["kv_cache_scheme"] = KvScheme();
    WriteModel(Dir(name), config, tensors);
  }
  static std::unique_ptr<LoadedModel> WithKv(const std::string& name, const std::string& kv_dtype) {
    return MustLoad(Dir(name), {"cpu", "auto"}, "bfloat16", 512, kv_dtype);
  }
};

TEST_F(KvScalesTest, AreAppliedToACacheOfE4m3AndToNoOther) {
  const auto plain = WithKv("fp8", "fp8");
  const auto plain_bf16 = WithKv("fp8", "auto");
  for (const auto& [k, v] :
       {std::pair("k_scale", "v_scale"), std::pair("k_proj.k_scale", "v_proj.v_scale"),
        std::pair("k_proj.output_scale", "v_proj.output_scale"),
        std::pair("kv_scale", "kv_scale")}) {
    SCOPED_TRACE(k);
    WriteScaled("scaled", k, v, 0.011F, 0.011F);
    const auto scaled = WithKv("scaled", "fp8");
    EXPECT_NE(scaled->fingerprint, plain->fingerprint);
    EXPECT_NE(Tokens(*scaled), Tokens(*plain));
    EXPECT_EQ(Tokens(*WithKv("scaled", "auto")), Tokens(*plain_bf16));
  }
}

// Small keys and values, which e4m3 without scales rounds away, are kept by scales that fit.
TEST_F(KvScalesTest, BringTheNumbersIntoTheRangeOfTheCodes) {
  const auto exact = Tokens(*WithKv("fp8", "auto"));
  const auto same = [&](const std::string& name) {
    const auto tokens = Tokens(*WithKv(name, "fp8"));
    int count = 0;
    for (size_t s = 0; s < exact.size(); ++s) {
      const auto [first, second] =
          std::mismatch(exact[s].begin(), exact[s].end(), tokens[s].begin());
      count += static_cast<int>(first - exact[s].begin());
    }
    return count;
  };
  WriteScaled("fit", "k_scale", "v_scale", 0.01F, 0.01F);
  WriteScaled("coarse", "k_scale", "v_scale", 500, 500);
  EXPECT_GT(same("fit"), same("coarse"));
}

// The way in which a request runs does not show, as for any other cache.
TEST_F(KvScalesTest, AloneEqualsBatchedAndChunked) {
  WriteScaled("scaled", "k_scale", "v_scale", 0.02F, 0.03F);
  const auto model = WithKv("scaled", "fp8");
  const auto together = Tokens(*model);
  for (size_t s = 0; s < together.size(); ++s) {
    TestSequence sequence;
    for (size_t i = 0; i < 1 + s * 7; ++i) {
      sequence.prompt.push_back(static_cast<TokenId>((s * 37 + i * i * 11) % 256));
    }
    RunnerDriver(*model).Generate({&sequence}, 12, 3);
    EXPECT_EQ(sequence.output, together[s]) << s;
  }
}

TEST_F(KvScalesTest, AreRefusedByNameWhereTheyCannotBeMeant) {
  const auto refusal = [](const std::function<void(Tensors&)>& edit, const char* kv_dtype) {
    WriteScaled("edited", "k_scale", "v_scale", 0.02F, 0.03F);
    Tensors tensors = TensorsIn(Dir("edited"));
    edit(tensors);
    WriteModel(Dir("edited"), ConfigIn(Dir("edited")), tensors);
    ModelOptions options;
    options.kv.tokens = 512;
    options.kv_dtype = kernels::ParseKvDType(kv_dtype);
    return std::string(LoadModel(Dir("edited"), options, nullptr).status().message());
  };
  const std::string name = "model.layers.1.self_attn.v_scale";
  EXPECT_EQ(refusal([](Tensors&) {}, "fp8"), "");
  EXPECT_THAT(refusal([&](Tensors& tensors) { tensors.erase(name); }, "auto"),
              AllOf(HasSubstr(name), HasSubstr("is missing")));
  EXPECT_THAT(refusal(
                  [&](Tensors& tensors) {
                    tensors[name] = Floats({2}, {1, 1});
                  },
                  "auto"),
              AllOf(HasSubstr(name), HasSubstr("[2]"), HasSubstr("[1]")));
  EXPECT_THAT(refusal([&](Tensors& tensors) { tensors[name] = Floats({1}, {0}); }, "fp8"),
              AllOf(HasSubstr(name), HasSubstr("above 0")));
  EXPECT_THAT(
      refusal(
          [&](Tensors& tensors) { tensors["model.layers.1.self_attn.q_scale"] = Floats({1}, {1}); },
          "auto"),
      AllOf(HasSubstr("q_scale"), HasSubstr("has no place")));
}

// What is not kept as the checkpoint says does no harm to a cache of another type.
TEST_F(KvScalesTest, OfHeadsOrFoundOnTheWayAreRefusedWithACacheOfE4m3Alone) {
  const auto refusal = [](const std::string& kv_dtype) {
    ModelOptions options;
    options.kv.tokens = 512;
    options.kv_dtype = kernels::ParseKvDType(kv_dtype);
    return std::string(LoadModel(Dir("edited"), options, nullptr).status().message());
  };
  for (const auto& [key, value] :
       std::map<std::string, json>{{"strategy", "attn_head"}, {"dynamic", true}}) {
    WriteScaled("edited", "k_scale", "v_scale", 0.02F, 0.03F);
    Tensors tensors = TensorsIn(Dir("edited"));
    tensors["model.layers.0.self_attn.k_scale"] = Floats({2, 1, 1}, {0.02F, 0.03F});
    json config = ConfigIn(Dir("edited"));
    config["quantization_config"]["kv_cache_scheme"][key] = value;
    WriteModel(Dir("edited"), config, tensors);
    EXPECT_EQ(refusal("auto"), "");
    EXPECT_THAT(refusal("fp8"), AllOf(HasSubstr("--kv-dtype fp8"), HasSubstr("kv_cache_scheme")));
    config["quantization_config"].erase("kv_cache_scheme");
    WriteModel(Dir("edited"), config, tensors);
    EXPECT_THAT(refusal("auto"),
                AllOf(HasSubstr("self_attn.k_scale"), HasSubstr("expected a kv_cache_scheme")));
  }
}

}  // namespace
}  // namespace baton::test
