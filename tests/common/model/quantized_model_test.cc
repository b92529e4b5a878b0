// Models with weights of 4 and 8 bits: the same tokens however they run, near those on two ranks
// and of the scalar oracle.
#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "common/model/load_memory.h"
#include "common/model/load_model.h"
#include "common/model/quantize/quantize_checkpoint.h"
#include "common/model/quantize/safetensors_writer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/common/model/device_logits.h"
#include "tests/common/model/model_harness.h"
#include "tests/common/model/run_sequences.h"
#include "tests/fakes/scratch_folder.h"

namespace baton::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

struct Kind {
  Device device;
  int bits;             // of the layers
  bool output = false;  // the output projection is integers of 8 bits
  // Of its directory, after the model's.
  std::string suffix() const { return std::to_string(bits) + (output ? "_output" : ""); }
};
const Kind kKinds[] = {{{"cpu", "auto"}, 4},       {{"cpu", "auto"}, 8},
                       {{"cpu", "avx2"}, 4},       {{"cpu", "auto"}, 4, true},
                       {{"cpu", "auto"}, 8, true}, {{"cpu", "avx2"}, 4, true}};

class QuantizedModelTest : public ::testing::TestWithParam<Kind> {
 protected:
  static void SetUpTestSuite() {
    scratch_ = new ScratchFolder;
    for (const char* arch : {"llama", "qwen2"}) {
      const std::string plain = *scratch_ / arch;
      const bool tied = std::string_view(arch) == "qwen2";
      const absl::Status written = WriteRandomModel(
          {.arch = arch, .head_dim = 32, .ffn = 192, .seed = 7, .tied_embeddings = tied}, plain);
      ASSERT_TRUE(written.ok()) << written;
      for (const Kind& kind : kKinds) {
        if (kind.device.isa == "avx2") continue;
        const auto report = QuantizeCheckpoint(
            plain, plain + kind.suffix(),
            {.layers = {.bits = kind.bits, .group = 32}, .output = kind.output}, nullptr);
        ASSERT_TRUE(report.ok()) << report.status();
      }
    }
  }
  static void TearDownTestSuite() { delete scratch_; }

  static Device device() { return GetParam().device; }
  static std::string Dir(const std::string& arch) {
    return *scratch_ / (arch + GetParam().suffix());
  }
  static absl::StatusOr<std::unique_ptr<LoadedModel>> TryRanks(const std::string& dir,
                                                               int32_t ranks,
                                                               const std::string& cache = "") {
    return LoadOnRanks(dir, device(), kernels::DType::kF32, ranks, cache);
  }

  static ScratchFolder* scratch_;
};
ScratchFolder* QuantizedModelTest::scratch_ = nullptr;

TEST_P(QuantizedModelTest, AloneEqualsBatchedAndChunked) {
  for (const char* dtype : {"float32", "bfloat16"}) {
    for (const char* arch : {"llama", "qwen2"}) {
      auto model = MustLoad(Dir(arch), device(), dtype);
      const auto expected = RunAlone(*model);
      for (const int32_t chunk : {512, 5, 1}) {
        EXPECT_EQ(RunTogether(*model, chunk), expected)
            << arch << " " << dtype << ", chunks of " << chunk;
      }
    }
  }
}

TEST_P(QuantizedModelTest, RecomputedAfterPreemptionEqualsUndisturbed) {
  auto model = MustLoad(Dir("llama"), device(), "bfloat16");
  const auto expected = RunAlone(*model);
  RunnerDriver driver(*model);
  TestSequence sequence = SequenceOf(5);
  TestSequence other = SequenceOf(6);
  driver.Generate({&sequence, &other}, kAnswerTokens / 2, 16);
  driver.Preempt(sequence);
  driver.Generate({&sequence, &other}, kAnswerTokens, 16);
  EXPECT_EQ(sequence.output, expected[5]);
}

TEST_P(QuantizedModelTest, OneRankAgreesWithTwoAndTheOracle) {
  for (const char* arch : {"llama", "qwen2"}) {
    auto one = TryRanks(Dir(arch), 1);
    auto two = TryRanks(Dir(arch), 2);
    ASSERT_TRUE(one.ok() && two.ok()) << one.status() << two.status();
    const auto expected = RunTogether(**one, 512);
    const auto of_two = RunTogether(**two, 512);
    EXPECT_GT(SharedBegin(of_two, expected), 0.75) << arch;
    EXPECT_EQ(RunTogether(**two, 5), of_two) << arch;
    EXPECT_EQ(RunAlone(**two), of_two) << arch;
    ExpectNearLogprobs(**two, **one);
    auto oracle = MustLoad(Dir(arch), {"reference", "auto"}, "float32");
    EXPECT_GT(SharedBegin(RunTogether(*oracle, 512), expected), 0.75) << arch;
    ExpectNearLogits(**one, *oracle);
  }
}

TEST_P(QuantizedModelTest, IsNamedInNumericsAndHasAFingerprintOfItsOwn) {
  auto model = MustLoad(Dir("llama"), device(), "bfloat16");
  auto plain = MustLoad(*scratch_ / "llama", device(), "bfloat16");
  // How inputs are rounded is a part of how a model is computed.
  std::string kind = "/int8-inputs/w" + std::to_string(GetParam().bits) + "g32";
  if (GetParam().output && GetParam().bits == 4) kind += "+w8g32";
  EXPECT_THAT(model->numerics(), ::testing::EndsWith(kind));
  EXPECT_EQ(plain->numerics(), model->backend->info().numerics() + "/kv-bfloat16");
  EXPECT_NE(model->fingerprint, plain->fingerprint);
  EXPECT_LT(model->weight_bytes, plain->weight_bytes);
}

// Projections of layers, which is what is quantized, are reckoned as large as they are packed. The
// output projection, which is not, may be packed in panels of 64 rows, and the last one of so small
// a model is mostly filling.
TEST_P(QuantizedModelTest, MemoryIsReckonedAtItsSize) {
  auto model = MustLoad(Dir("llama"), device(), "bfloat16");
  const LocalShape shape = LocalShape::Of(model->config, 0, 1).value();
  const MemoryNeed need =
      MemoryNeed::Of(model->config, shape, 1, kernels::DType::kBF16, kernels::Quantization::kNone,
                     {.max_tokens = 512, .max_samples = 64});
  const double panel = 64.0 * static_cast<double>(model->config.hidden) * 2;
  const double packed = static_cast<double>(model->weight_bytes);
  EXPECT_GE(packed, 0.97 * need.weights);
  EXPECT_LE(packed, 1.03 * need.weights + panel);
}

TEST_P(QuantizedModelTest, IsTheSameOutOfALoadCache) {
  const std::string cache = *scratch_ / "cache";
  for (const char* arch : {"llama", "qwen2"}) {
    for (const int32_t ranks : {1, 2}) {
      auto own = TryRanks(Dir(arch), ranks);
      ASSERT_TRUE(own.ok()) << own.status();
      const auto expected = RunTogether(**own, 512);
      for (const char* from : {"the checkpoint", "the cache"}) {
        SCOPED_TRACE(std::string(arch) + " on " + std::to_string(ranks) + " from " + from);
        auto model = TryRanks(Dir(arch), ranks, cache);
        ASSERT_TRUE(model.ok()) << model.status();
        EXPECT_GE((*model)->mapped_bytes, (*own)->weight_bytes);
        EXPECT_EQ(RunTogether(**model, 512), expected);
      }
    }
  }
}

// Weights that are integers already are not quantized once more on the way to a device.
TEST_P(QuantizedModelTest, QuantizingWhileLoadingIsRefused) {
  ModelOptions options;
  options.quantization = kernels::Quantization::kFp8;
  options.kv.tokens = 8192;
  options.limits = {.max_tokens = 512, .max_samples = 64};
  const absl::Status status = LoadModel(Dir("llama"), options, nullptr).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("--quantization fp8"), HasSubstr("g32 of compressed-tensors"),
                    HasSubstr("use --quantization none")));
}

INSTANTIATE_TEST_SUITE_P(Kinds, QuantizedModelTest, ::testing::ValuesIn(kKinds),
                         [](const auto& test) {
                           return DeviceName(test.param.device) + "_w" + test.param.suffix();
                         });

// A quantized model some of whose projections are those of the model that it was made from.
class PartlyQuantizedTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(WriteRandomModel({.seed = 7}, dir_ / "plain").ok());
    ASSERT_TRUE(QuantizeCheckpoint(dir_ / "plain", dir_ / "mixed", {}, nullptr).ok());
  }

  absl::Status LoadWith(const std::vector<std::string>& plain_modules) {
    const auto plain = CheckpointFiles::Open(dir_ / "plain").value();
    const auto quantized = CheckpointFiles::Open(dir_ / "mixed").value();
    std::vector<const StoredTensor*> chosen;
    for (const StoredTensor* tensor : quantized->tensors()) {
      const bool replaced = std::any_of(
          plain_modules.begin(), plain_modules.end(),
          [&](const std::string& module) { return tensor->name.starts_with(module + ".weight"); });
      if (!replaced) chosen.push_back(tensor);
    }
    for (const std::string& module : plain_modules) {
      chosen.push_back(plain->Find(module + ".weight"));
    }
    std::vector<TensorToWrite> planned;
    for (const StoredTensor* tensor : chosen) {
      planned.push_back(
          {tensor->name, tensor->dtype, tensor->shape, static_cast<int64_t>(tensor->data.size())});
    }
    const auto writer = SafetensorsWriter::Create(dir_ / "written", planned).value();
    for (const StoredTensor* tensor : chosen) EXPECT_TRUE(writer->Write(tensor->data).ok());
    EXPECT_TRUE(writer->Close().ok());
    std::filesystem::rename(dir_ / "written", dir_ / "mixed/model.safetensors");
    ModelOptions options;
    options.kv.tokens = 512;
    return LoadModel(dir_ / "mixed", options, nullptr).status();
  }

  const ScratchFolder dir_;
};

TEST_F(PartlyQuantizedTest, LoadsWithProjectionsThatWereLeftAsTheyWere) {
  const absl::Status loaded =
      LoadWith({"model.layers.0.mlp.gate_proj", "model.layers.0.mlp.up_proj",
                "model.layers.1.mlp.down_proj"});
  EXPECT_TRUE(loaded.ok()) << loaded;
}

TEST_F(PartlyQuantizedTest, RefusesOneOfTwoThatAreUsedAsOne) {
  EXPECT_THAT(std::string(LoadWith({"model.layers.1.self_attn.k_proj"}).message()),
              AllOf(HasSubstr("q_proj"), HasSubstr("k_proj"), HasSubstr("only one of them")));
}

}  // namespace
}  // namespace baton::test
