// Models out of GGUF files: the same as from their directories where the weights are the same, and
// where they are small, the same however they run.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "common/model/fingerprint.h"
#include "common/model/load_memory.h"
#include "common/model/load_model.h"
#include "common/model/quantize/quantized_parts.h"
#include "common/model/quantize/quantized_reader.h"
#include "common/model/quantize/safetensors_writer.h"
#include "common/model/quantize/stored_weights.h"
#include "common/model/tensor_specs.h"
#include "common/model/weight_source.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/float_convert.h"
#include "nlohmann/json.hpp"
#include "tests/common/model/device_logits.h"
#include "tests/common/model/golden_model.h"
#include "tests/common/model/model_harness.h"
#include "tests/common/model/run_sequences.h"
#include "tests/fakes/gguf_maker.h"
#include "tests/fakes/scratch_folder.h"

namespace baton::test {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;

absl::StatusOr<std::unique_ptr<LoadedModel>> TryLoad(const std::string& path, int32_t ranks = 1,
                                                     const std::string& cache = "") {
  return LoadOnRanks(path, {"cpu", "auto"}, kernels::DType::kF32, ranks, cache);
}

// Every family with the weights as its directory stores them.
class GgufGoldenTest : public ::testing::TestWithParam<std::string> {
 protected:
  GgufGoldenTest() {
    const absl::Status made = MakeGguf(golden_.dir, {}, path_);
    EXPECT_TRUE(made.ok()) << made;
  }
  const GoldenModel golden_ = LoadGoldenModel(GetParam());
  const ScratchFolder folder_;
  const std::string path_ = folder_ / "m.gguf";
};

TEST_P(GgufGoldenTest, GreedyTokensAreThoseOfTransformers) {
  auto model = MustLoad(path_, {"cpu", "auto"}, "float32");
  TestSequence sequence{.prompt = golden_.prompt};
  RunnerDriver(*model).Generate({&sequence}, static_cast<int32_t>(golden_.greedy.size()), 512);
  EXPECT_EQ(sequence.output, golden_.greedy);
}

TEST_P(GgufGoldenTest, BitsAreThoseOfTheDirectory) {
  const auto config = LoadModelConfig(path_);
  ASSERT_TRUE(config.ok()) << config.status();
  // The factors of Llama 3.1 are worked out in the file, by another formula.
  const bool same_rotation = config->rope.divisors.empty();
  for (const char* dtype : {"float32", "bfloat16"}) {
    auto from_file = MustLoad(path_, {"cpu", "auto"}, dtype);
    auto from_dir = MustLoad(golden_.dir, {"cpu", "auto"}, dtype);
    EXPECT_EQ(from_file->numerics(), from_dir->numerics());
    EXPECT_EQ(from_file->weight_bytes, from_dir->weight_bytes);
    EXPECT_NE(from_file->fingerprint, from_dir->fingerprint);
    TestSequence a{.prompt = golden_.prompt};
    TestSequence b{.prompt = golden_.prompt};
    RunnerDriver(*from_file).Generate({&a}, kAnswerTokens, 512);
    RunnerDriver(*from_dir).Generate({&b}, kAnswerTokens, 512);
    EXPECT_EQ(a.output, b.output) << dtype;
    if (!same_rotation) continue;
    for (int32_t i = 0; i < kAnswerTokens; ++i) {
      EXPECT_EQ(a.samples[i].logprob, b.samples[i].logprob) << dtype << " token " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, GgufGoldenTest, ::testing::ValuesIn(GoldenModelNames()),
                         [](const auto& test) { return test.param; });

// A model whose matrices are of several kinds, also among those that are multiplied as one.
class GgufKindsTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new ScratchFolder;
    for (const char* arch : {"llama", "qwen2"}) {
      const std::string plain = *folder_ / arch;
      ASSERT_TRUE(WriteRandomModel({.arch = arch,
                                    .hidden = 256,
                                    .heads = 8,
                                    .kv_heads = 4,
                                    .head_dim = 64,
                                    .ffn = 512,
                                    .seed = 7},
                                   plain)
                      .ok());
      Make(plain, "mixed", MixedType);
      Make(plain, "q8", [](const std::string&) { return "Q8_0"; });
      Make(plain, "q4",
           [](const std::string& name) { return name.starts_with("blk.") ? "Q4_0" : ""; });
    }
  }
  static void TearDownTestSuite() { delete folder_; }

  static void Make(const std::string& plain, const std::string& kind,
                   std::function<std::string(const std::string&)> type_of) {
    const absl::Status made =
        MakeGguf(plain, {.type_of = std::move(type_of)}, plain + "-" + kind + ".gguf");
    ASSERT_TRUE(made.ok()) << made;
  }
  static std::string MixedType(const std::string& name) {
    const std::vector<std::pair<std::string, std::string>> types = {
        {"blk.0.attn_q.", "Q4_K"},     {"blk.0.attn_k.", "Q4_K"},     {"blk.0.attn_v.", "Q6_K"},
        {"blk.0.attn_output", "Q5_K"}, {"blk.0.ffn_gate", "Q4_K"},    {"blk.0.ffn_up", "Q4_K"},
        {"blk.0.ffn_down", "Q6_K"},    {"blk.1.attn_q.", "Q4_0"},     {"blk.1.attn_k.", "Q4_1"},
        {"blk.1.attn_v.", "F16"},      {"blk.1.attn_output", "Q5_1"}, {"blk.1.ffn_gate", "Q4_0"},
        {"blk.1.ffn_up", "Q4_1"},      {"blk.1.ffn_down", "Q5_0"},    {"output.", "Q6_K"},
        {"token_embd.", "Q4_K"}};
    for (const auto& [prefix, type] : types) {
      if (name.starts_with(prefix)) return type;
    }
    return "";
  }
  static std::string Path(const std::string& arch, const std::string& kind) {
    return *folder_ / (arch + "-" + kind + ".gguf");
  }

  static ScratchFolder* folder_;
};
ScratchFolder* GgufKindsTest::folder_ = nullptr;

TEST_F(GgufKindsTest, TokensAreTheSameHoweverTheyRun) {
  for (const char* arch : {"llama", "qwen2"}) {
    for (const char* dtype : {"float32", "bfloat16"}) {
      for (const Device& device : CpuDevices()) {
        auto model = MustLoad(Path(arch, "mixed"), device, dtype);
        const auto expected = RunAlone(*model);
        for (const int32_t chunk : {512, 5}) {
          EXPECT_EQ(RunTogether(*model, chunk), expected)
              << arch << " " << dtype << " " << DeviceName(device);
        }
      }
    }
  }
}

TEST_F(GgufKindsTest, OneRankAgreesWithTwoAndTheOracle) {
  for (const char* arch : {"llama", "qwen2"}) {
    for (const char* kind : {"mixed", "q8", "q4"}) {
      auto one = TryLoad(Path(arch, kind));
      auto two = TryLoad(Path(arch, kind), 2);
      ASSERT_TRUE(one.ok() && two.ok()) << one.status() << two.status();
      const auto expected = RunTogether(**one, 512);
      const auto of_two = RunTogether(**two, 512);
      EXPECT_GT(SharedBegin(of_two, expected), 0.75) << arch << " " << kind;
      EXPECT_EQ(RunTogether(**two, 5), of_two) << arch << " " << kind;
      EXPECT_EQ(RunAlone(**two), of_two) << arch << " " << kind;
      ExpectNearLogprobs(**two, **one);
      auto oracle = MustLoad(Path(arch, kind), {"reference", "auto"}, "float32");
      EXPECT_GT(SharedBegin(RunTogether(*oracle, 512), expected), 0.75) << arch << " " << kind;
      ExpectNearLogits(**one, *oracle);
    }
  }
}

// Writes the directory `plain` to `out` with the integers and scales that the file has for each
// projection of a layer, as compressed-tensors stores them.
void WriteCompressedTensors(const std::string& plain, const std::string& gguf, int bits,
                            const std::string& out) {
  const auto file = CheckpointFiles::Open(gguf).value();
  const auto config = LoadModelConfig(gguf).value();
  const auto original = CheckpointFiles::Open(plain).value();
  std::filesystem::create_directory(out);
  std::vector<TensorToWrite> planned;
  std::string data;
  const auto add = [&](const std::string& name, const char* dtype, std::vector<int64_t> shape,
                       const std::string& bytes) {
    planned.push_back({name, dtype, std::move(shape), static_cast<int64_t>(bytes.size())});
    data += bytes;
  };
  QuantizedReader reader(config, *file);
  for (const TensorSpec& spec : ExpectedTensors(config)) {
    if (!IsQuantized(config, *file, spec.name)) {
      const StoredTensor* same = original->Find(spec.name);
      add(spec.name, same->dtype.c_str(), same->shape,
          {reinterpret_cast<const char*>(same->data.data()), same->data.size()});
      continue;
    }
    const int64_t cols = spec.shape[1];
    const auto read =
        reader.Read({.name = spec.name, .ranges = {{spec.name, 0, spec.shape[0]}}, .cols = cols});
    ASSERT_EQ(read->bits, bits);
    std::string codes(static_cast<size_t>(spec.shape[0] * cols * bits / 8), '\0');
    for (int64_t i = 0; i < spec.shape[0] * cols; ++i) {
      const int code = read->codes[i] + (bits == 8 ? 128 : 8);
      codes[static_cast<size_t>(i * bits / 8)] |=
          static_cast<char>(code << (bits == 4 && i % 2 == 1 ? 4 : 0));
    }
    std::string scales;
    for (int64_t i = 0; i < spec.shape[0] * read->groups(); ++i) {
      const uint16_t half = kernels::F16FromFloat(read->scales[i]);
      scales.append(reinterpret_cast<const char*>(&half), 2);
    }
    add(spec.name + "_packed", "I32", {spec.shape[0], cols * bits / 32}, codes);
    add(spec.name + "_scale", "F16", {spec.shape[0], read->groups()}, scales);
  }
  const auto writer = SafetensorsWriter::Create(out + "/model.safetensors", planned).value();
  ASSERT_TRUE(writer->Write(std::as_bytes(std::span(data))).ok() && writer->Close().ok());
  std::ifstream in(plain + "/config.json");
  nlohmann::json json = nlohmann::json::parse(in);
  json["quantization_config"] = {
      {"quant_method", "compressed-tensors"},
      {"format", "pack-quantized"},
      {"config_groups",
       {{"group_0",
         {{"weights",
           {{"num_bits", bits}, {"strategy", "group"}, {"group_size", 32}, {"type", "int"}}}}}}}};
  std::ofstream(out + "/config.json") << json;
}

TEST_F(GgufKindsTest, BitsAreThoseOfTheSameIntegersInCompressedTensors) {
  const std::string plain = *folder_ / "llama";
  for (const auto& [kind, bits] : {std::pair("Q8_0", 8), std::pair("Q4_0", 4)}) {
    Make(plain, kind,
         [kind = kind](const std::string& name) { return name.starts_with("blk.") ? kind : ""; });
    const std::string other = plain + "-compressed-" + kind;
    WriteCompressedTensors(plain, Path("llama", kind), bits, other);
    for (const char* dtype : {"float32", "bfloat16"}) {
      auto from_file = MustLoad(Path("llama", kind), {"cpu", "auto"}, dtype);
      auto from_dir = MustLoad(other, {"cpu", "auto"}, dtype);
      EXPECT_EQ(from_file->weight_bytes, from_dir->weight_bytes);
      TestSequence a = SequenceOf(5);
      TestSequence b = SequenceOf(5);
      RunnerDriver(*from_file).Generate({&a}, kAnswerTokens, 512);
      RunnerDriver(*from_dir).Generate({&b}, kAnswerTokens, 512);
      EXPECT_EQ(a.output, b.output) << kind;
      for (int32_t i = 0; i < kAnswerTokens; ++i) {
        EXPECT_EQ(a.samples[i].logprob, b.samples[i].logprob) << kind << " " << dtype << " " << i;
      }
    }
  }
}

TEST_F(GgufKindsTest, IsNamedReckonedAndInspectedByItsKinds) {
  const std::string path = Path("llama", "mixed");
  auto model = MustLoad(path, {"cpu", "auto"}, "bfloat16");
  EXPECT_THAT(model->numerics(), EndsWith("/int8-inputs/Q4_0+Q4_1+Q4_K+Q5_0+Q5_1+Q5_K+Q6_K"));
  for (const char* kind : {"mixed", "q8", "q4"}) {
    auto loaded = MustLoad(Path("llama", kind), {"cpu", "auto"}, "bfloat16");
    const LocalShape shape = LocalShape::Of(loaded->config, 0, 1).value();
    const MemoryNeed need =
        MemoryNeed::Of(loaded->config, shape, 1, kernels::DType::kBF16,
                       kernels::Quantization::kNone, {.max_tokens = 512, .max_samples = 64});
    EXPECT_NEAR(need.weights, static_cast<double>(loaded->weight_bytes), 0.05 * need.weights)
        << kind;
  }
  const auto files = CheckpointFiles::Open(path).value();
  ASSERT_TRUE(CheckTensors(model->config, *files).ok());
  const auto weights = StoredWeights(model->config, *files);
  const auto kinds = StoredKinds(weights);
  EXPECT_EQ(kinds.at("Q6_K").weights, 3);
  EXPECT_EQ(kinds.at("Q4_K").weights, 5);
  const auto down = std::ranges::find(weights, LayerTensor(1, "mlp.down_proj.weight"),
                                      [](const StoredWeight& weight) { return weight.name; });
  ASSERT_NE(down, weights.end());
  EXPECT_EQ(down->layer, 1);
  EXPECT_EQ(down->kind, "Q5_0");
  EXPECT_EQ(down->bytes, 256 * 512 / 32 * 22);
  EXPECT_EQ(weights.front().layer, std::nullopt);
}

TEST_F(GgufKindsTest, ALoadCacheKeepsEveryKind) {
  const std::string cache = *folder_ / "cache";
  const std::string plain = *folder_ / "plain.gguf";
  ASSERT_TRUE(MakeGguf(*folder_ / "llama", {}, plain).ok());
  for (const std::string& path : {plain, Path("llama", "mixed")}) {
    SCOPED_TRACE(path);
    auto own = TryLoad(path);
    ASSERT_TRUE(own.ok()) << own.status();
    EXPECT_EQ((*own)->mapped_bytes, 0U);
    const auto expected = RunTogether(**own, 512);
    for (const char* from : {"the file", "the cache"}) {
      auto model = TryLoad(path, 1, cache);
      ASSERT_TRUE(model.ok()) << model.status();
      EXPECT_GE((*model)->mapped_bytes, (*own)->weight_bytes);
      EXPECT_EQ(RunTogether(**model, 512), expected) << "from " << from;
    }
  }
}

TEST_F(GgufKindsTest, FloatsOfSeveralTypesAreJoined) {
  const auto type_of = [](const std::string& name) {
    return name.ends_with("attn_q.weight") || name.ends_with("ffn_up.weight") ? "F32" : "";
  };
  const std::string mixed = *folder_ / "floats.gguf";
  const std::string plain = *folder_ / "same.gguf";
  ASSERT_TRUE(MakeGguf(*folder_ / "llama", {.type_of = type_of}, mixed).ok());
  ASSERT_TRUE(MakeGguf(*folder_ / "llama", {}, plain).ok());
  const std::string cache = *folder_ / "cache of floats";
  const auto run = [](LoadedModel& model) {
    TestSequence sequence = SequenceOf(5);
    RunnerDriver(model).Generate({&sequence}, kAnswerTokens, 512);
    return sequence.output;
  };
  const auto expected = run(**TryLoad(plain));
  for (const int32_t ranks : {1, 2}) {
    for (const char* from : {"the file", "the cache"}) {
      auto model = TryLoad(mixed, ranks, cache);
      ASSERT_TRUE(model.ok()) << model.status();
      EXPECT_EQ(run(**model), expected) << ranks << " ranks, from " << from;
    }
  }
  EXPECT_FALSE(std::filesystem::is_empty(cache));
}

TEST_F(GgufKindsTest, FingerprintsDifferByTheFactorsOfTheRotation) {
  const auto fingerprint = [&](float last) {
    std::vector<float> factors(32, 1.0f);
    factors.back() = last;
    const std::string data(reinterpret_cast<const char*>(factors.data()), factors.size() * 4);
    const std::string path = *folder_ / "factors.gguf";
    const auto finish = [&](GgufWriter& w) { w.AddTensor("rope_freqs.weight", 0, {32}, data); };
    EXPECT_TRUE(MakeGguf(*folder_ / "llama", {.finish = finish}, path).ok());
    const auto files = CheckpointFiles::Open(path).value();
    return ModelFingerprint(path, *files, kernels::DType::kF32).value();
  };
  EXPECT_EQ(fingerprint(8), fingerprint(8));
  EXPECT_NE(fingerprint(8), fingerprint(4));
}

TEST_F(GgufKindsTest, WrongTensorsAreRefusedByTheirNames) {
  const auto defect = [&](const GgufRecipe& recipe) {
    const std::string path = *folder_ / "wrong.gguf";
    EXPECT_TRUE(MakeGguf(*folder_ / "llama", recipe, path).ok());
    return std::string(TryLoad(path).status().message());
  };
  EXPECT_THAT(defect({.finish = [](GgufWriter& w) { w.AddTensor("blk.0.other", 0, {1}, "abcd"); }}),
              AllOf(HasSubstr("blk.0.other"), HasSubstr("its metadata")));
  EXPECT_THAT(
      defect({.finish = [](GgufWriter& w) { w.AddTensor("model.norm.bias", 0, {1}, "abcd"); }}),
      HasSubstr("no place"));
  EXPECT_THAT(
      defect({.finish = [](GgufWriter& w) { w.AddTensor("model.norm.weight", 0, {1}, "abcd"); }}),
      HasSubstr("output_norm.weight"));
  EXPECT_THAT(defect({.finish =
                          [](GgufWriter& w) {
                            w.AddTensor("blk.0.attn_q.bias", 0, {512}, std::string(2048, '\0'));
                          }}),
              AllOf(HasSubstr("blk.0.attn_k.bias"), HasSubstr("missing")));
  EXPECT_THAT(defect({.finish = [](GgufWriter& w) { w.AddTensor("x\n\x1b", 0, {1}, "abcd"); }}),
              HasSubstr("tensor x\\n\\x1b has no place"));
  const std::string text = folder_->Write("text.gguf", "this is a text and no model at all");
  EXPECT_THAT(std::string(TryLoad(text).status().message()), HasSubstr("text.gguf"));
  EXPECT_EQ(TryLoad(*folder_ / "absent.gguf").status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace baton::test
