#include "common/model/weights.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <numeric>
#include <set>
#include <string>
#include <utility>

#include "common/model/tensor_specs.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/backend_factory.h"
#include "nlohmann/json.hpp"
#include "tests/common/model/model_harness.h"
#include "tests/fakes/scratch_folder.h"

namespace baton {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

class WeightsTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(WriteRandomModel({.dtype = "float32", .seed = 3}, dir_ / "m").ok());
    auto backend = kernels::MakeBackend({.device = kernels::Device::kReference});
    ASSERT_TRUE(backend.ok()) << backend.status();
    backend_ = std::move(*backend);
  }

  // Rewrites the JSON header of the weights in place; it must not grow.
  void EditHeader(const std::function<void(json&)>& edit) {
    std::fstream file(dir_ / "m/model.safetensors",
                      std::ios::in | std::ios::out | std::ios::binary);
    uint64_t length = 0;
    file.read(reinterpret_cast<char*>(&length), 8);
    std::string text(length, ' ');
    file.read(text.data(), static_cast<std::streamsize>(length));
    json header = json::parse(text);
    edit(header);
    std::string edited = header.dump();
    ASSERT_LE(edited.size(), length);
    edited.resize(length, ' ');
    file.seekp(8);
    file.write(edited.data(), static_cast<std::streamsize>(length));
  }

  void EditConfig(const std::string& key, const json& value) {
    std::ifstream in(dir_ / "m/config.json");
    json config = json::parse(in);
    config[key] = value;
    std::ofstream(dir_ / "m/config.json") << config;
  }

  absl::StatusOr<ModelWeights> Load(const LoadProgress& progress = nullptr, int32_t rank = 0,
                                    int32_t ranks = 1) {
    const auto config = LoadModelConfig(dir_ / "m");
    if (!config.ok()) return config.status();
    auto files = CheckpointFiles::Open(dir_ / "m");
    if (!files.ok()) return files.status();
    auto shape = LocalShape::Of(*config, rank, ranks);
    if (!shape.ok()) return shape.status();
    return LoadWeights(*config, *shape, **files, *backend_, progress);
  }

  // Where the bytes of a tensor lie in the file, and how many there are.
  std::pair<size_t, size_t> Place(const std::string& name) {
    const std::string path = dir_ / "m/model.safetensors";
    const auto file = SafetensorsFile::Open(path);
    const size_t bytes = (*file)->Find(name)->data.size();
    size_t behind = 0;  // the bytes of this tensor and of those after it
    for (const StoredTensor& tensor : (*file)->tensors()) {
      if (behind > 0 || tensor.name == name) behind += tensor.data.size();
    }
    return {std::filesystem::file_size(path) - behind, bytes};
  }

  std::string ReadAt(size_t begin, size_t bytes) {
    std::ifstream file(dir_ / "m/model.safetensors", std::ios::binary);
    file.seekg(static_cast<std::streamoff>(begin));
    std::string text(bytes, ' ');
    file.read(text.data(), static_cast<std::streamsize>(bytes));
    return text;
  }

  void WriteAt(size_t begin, const std::string& bytes) {
    std::fstream file(dir_ / "m/model.safetensors",
                      std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(begin));
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }

  absl::Status CheckTied() {
    const auto config = LoadModelConfig(dir_ / "m");
    const auto files = CheckpointFiles::Open(dir_ / "m");
    EXPECT_TRUE(CheckTensors(*config, **files).ok());
    return CheckTiedOutput(*config, **files);
  }

  std::string Refusal() {
    const auto weights = Load();
    EXPECT_EQ(weights.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(weights.status().message());
  }

  ScratchFolder dir_;
  std::unique_ptr<kernels::Backend> backend_;
};

TEST_F(WeightsTest, ReportsProgressUpToTheWhole) {
  std::vector<int64_t> done;
  int64_t total = 0;
  ASSERT_TRUE(Load([&](int64_t d, int64_t t) {
                done.push_back(d);
                total = t;
              }).ok());
  EXPECT_GT(done.size(), 10U);
  EXPECT_TRUE(std::is_sorted(done.begin(), done.end()));
  EXPECT_EQ(done.back(), total);
  EXPECT_GT(total, 100000);
}

TEST_F(WeightsTest, NamesAMissingTensorAndItsShape) {
  EditHeader([](json& header) {
    header["model.norm.weighT"] = header["model.norm.weight"];
    header.erase("model.norm.weight");
  });
  EXPECT_THAT(Refusal(), AllOf(HasSubstr("model.norm.weight [64]"), HasSubstr("missing")));
}

TEST_F(WeightsTest, NamesATensorOfTheWrongShapeWithBothShapes) {
  EditHeader([](json& header) {
    header["model.layers.1.self_attn.k_proj.weight"]["shape"] = {64, 32};
  });
  EXPECT_THAT(Refusal(), AllOf(HasSubstr("model.layers.1.self_attn.k_proj.weight"),
                               HasSubstr("[64, 32]"), HasSubstr("[32, 64]")));
}

TEST_F(WeightsTest, NamesATensorOfATypeThatDoesNotLoad) {
  EditHeader([](json& header) { header["model.norm.weight"]["dtype"] = "I32"; });
  EXPECT_THAT(Refusal(), AllOf(HasSubstr("model.norm.weight"), HasSubstr("I32"),
                               HasSubstr("F32, BF16 or F16")));
}

TEST_F(WeightsTest, RefusesTensorsThatTheModelWouldNotUse) {
  EditConfig("num_hidden_layers", 1);
  EXPECT_THAT(Refusal(), AllOf(HasSubstr("model.layers.1."), HasSubstr("no place")));
}

TEST_F(WeightsTest, IgnoresTheOutputProjectionOfATiedModel) {
  EditConfig("tie_word_embeddings", true);
  const auto weights = Load();
  ASSERT_TRUE(weights.ok()) << weights.status();
  EXPECT_EQ(weights->output->out(), 258);
}

TEST_F(WeightsTest, RefusesATiedModelWhoseOutputProjectionIsAnother) {
  EditConfig("tie_word_embeddings", true);
  const auto model = test::LoadOnRanks(dir_ / "m", {"reference", ""}, kernels::DType::kF32, 1, "");
  EXPECT_EQ(model.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(model.status().message()),
              AllOf(HasSubstr("lm_head.weight"), HasSubstr("model.embed_tokens.weight"),
                    HasSubstr("\"tie_word_embeddings\": false")));
}

TEST_F(WeightsTest, TakesATiedModelWhoseOutputProjectionIsTheEmbeddings) {
  EditConfig("tie_word_embeddings", true);
  const auto embedding = Place("model.embed_tokens.weight");
  const auto output = Place("lm_head.weight");
  const std::string bytes = ReadAt(embedding.first, embedding.second);
  ASSERT_EQ(output.second, embedding.second);
  WriteAt(output.first, bytes);
  EXPECT_TRUE(CheckTied().ok()) << CheckTied();

  WriteAt(output.first + output.second - 1, std::string(1, static_cast<char>(bytes.back() ^ 1)));
  EXPECT_EQ(CheckTied().code(), absl::StatusCode::kInvalidArgument);
  WriteAt(output.first, bytes);
  EditHeader([](json& header) { header["lm_head.weight"]["shape"] = {64, 258}; });
  EXPECT_EQ(CheckTied().code(), absl::StatusCode::kInvalidArgument);
  EditHeader([](json& header) {
    header["lm_head.weight"]["shape"] = {258, 64};
    header["lm_head.weight"]["dtype"] = "I32";
  });
  EXPECT_EQ(CheckTied().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(WeightsTest, ATiedTableStandsBesideADividedOutputProjection) {
  EditConfig("tie_word_embeddings", true);
  const auto alone = Load();
  ASSERT_TRUE(alone.ok()) << alone.status();
  EXPECT_EQ(alone->embedding, nullptr);
  const auto part = Load(nullptr, 1, 2);
  ASSERT_TRUE(part.ok()) << part.status();
  ASSERT_NE(part->embedding, nullptr);
  EXPECT_EQ(part->output->out(), 130);
}

TEST_F(WeightsTest, RefusesATruncatedFile) {
  const std::string path = dir_ / "m/model.safetensors";
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1);
  EXPECT_EQ(Load().status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(WeightsTest, RanksHoldTheirShareOfHeadsMlpAndOutput) {
  for (int32_t rank = 0; rank < 2; ++rank) {
    const auto weights = Load(nullptr, rank, 2);
    ASSERT_TRUE(weights.ok()) << weights.status();
    const LayerWeights& layer = weights->layers[0];
    EXPECT_EQ(layer.qkv->out(), (2 + 2 * 1) * 16);
    EXPECT_EQ(layer.o->in(), 2 * 16);
    EXPECT_EQ(layer.gate_up->out(), 2 * 64);
    EXPECT_EQ(layer.down->in(), 64);
    EXPECT_EQ(weights->output->out(), rank == 0 ? 128 : 130);
    EXPECT_EQ(weights->embedding->size(), size_t{258} * 64 * sizeof(float));
  }
  EXPECT_EQ(Load(nullptr, 0, 3).status().code(), absl::StatusCode::kFailedPrecondition);
}

// The partial products of the ranks add up to the whole: what an all-reduce relies on.
TEST_F(WeightsTest, PartialProductsOfTheRanksAddUp) {
  const auto whole = Load();
  ASSERT_TRUE(whole.ok()) << whole.status();
  std::vector<float> input(64);
  std::iota(input.begin(), input.end(), -31.5F);
  const auto multiply = [&](const kernels::PackedWeight& w, float* in) {
    std::vector<float> out(w.out());
    backend_->MatMul(w, kernels::Matrix::Dense(in, kernels::DType::kF32, 1, w.in()),
                     kernels::Matrix::Dense(out.data(), kernels::DType::kF32, 1, w.out()), {});
    return out;
  };
  std::vector<float> sum(64, 0);
  for (int32_t rank = 0; rank < 2; ++rank) {
    const auto part = Load(nullptr, rank, 2);
    ASSERT_TRUE(part.ok()) << part.status();
    const auto product = multiply(*part->layers[1].o, input.data() + 32 * rank);
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += product[i];
  }
  const auto expected = multiply(*whole->layers[1].o, input.data());
  for (size_t i = 0; i < sum.size(); ++i) EXPECT_NEAR(sum[i], expected[i], 1e-3) << i;
}

TEST_F(WeightsTest, ALoadThatCannotFitIsRefusedBeforeItBegins) {
  ModelOptions options;
  options.device = kernels::Device::kReference;
  options.limits.max_tokens = INT32_MAX;
  bool began = false;
  const auto model = LoadModel(dir_ / "m", options, [&](int64_t, int64_t) { began = true; });
  EXPECT_EQ(model.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(
      std::string(model.status().message()),
      AllOf(HasSubstr("needs"), HasSubstr("available"), HasSubstr("--max-num-batched-tokens")));
  EXPECT_FALSE(began);
}

TEST_F(WeightsTest, TheTimeOfALoadIsThatOfItsPhase) {
  ModelOptions options;
  options.device = kernels::Device::kReference;
  options.kv.tokens = 64;
  base::ManualClock clock;  // stands still but while weights are packed
  const auto model = LoadModel(
      dir_ / "m", options,
      [&](int64_t done, int64_t total) {
        if (done == total) clock.Advance(std::chrono::seconds(3));
      },
      clock);
  ASSERT_TRUE(model.ok()) << model.status();
  const LoadTimes& times = (*model)->times;
  EXPECT_GE(times.weights, std::chrono::seconds(3));
  EXPECT_EQ(times.checkpoint + times.kv_cache + times.kernels, base::Duration::zero());
  const auto real = LoadModel(dir_ / "m", options, nullptr);
  ASSERT_TRUE(real.ok()) << real.status();
  for (const base::Duration time : {(*real)->times.checkpoint, (*real)->times.weights,
                                    (*real)->times.kv_cache, (*real)->times.kernels}) {
    EXPECT_GT(time, base::Duration::zero());
  }
}

TEST_F(WeightsTest, ALoadNamesItsPhasesInTheirOrder) {
  ModelOptions options;
  options.device = kernels::Device::kReference;
  options.kv.tokens = 64;
  std::vector<std::string> told;
  const auto model = LoadModel(
      dir_ / "m", options,
      [&](int64_t done, int64_t total) {
        if (done == total) told.push_back("all weights");
      },
      base::SteadyClock(), [&](const std::string& phase) { told.push_back(phase); });
  ASSERT_TRUE(model.ok()) << model.status();
  told.erase(std::unique(told.begin(), told.end()), told.end());
  EXPECT_THAT(told, ElementsAre("checking the checkpoint", "loading weights", "all weights",
                                "choosing kernels", HasSubstr("filling the KV cache of "),
                                "running the first steps", "taking the checkpoint's fingerprint"));
}

// Workers of unequal caches count as unequal, and have no layout in common.
TEST_F(WeightsTest, NumericsNameTheTypeOfTheKvCache) {
  std::set<std::string> numerics;
  for (const char* kv_dtype : {"float32", "bfloat16", "int8", "fp8"}) {
    const auto model = test::MustLoad(dir_ / "m", {"cpu", "auto"}, "float32", 64, kv_dtype);
    EXPECT_THAT(model->numerics(), testing::EndsWith(std::string("/kv-") + kv_dtype));
    numerics.insert(model->numerics());
  }
  EXPECT_EQ(numerics.size(), 4u);
}

TEST_F(WeightsTest, RefusesWhatTheDeviceCannotDoByFlag) {
  ModelOptions options;
  options.device = kernels::Device::kReference;
  options.kv_dtype = kernels::DType::kF16;
  EXPECT_THAT(std::string(LoadModel(dir_ / "m", options, nullptr).status().message()),
              HasSubstr("--kv-dtype float16"));
  options.kv_dtype = kernels::DType::kInt8;
  options.device = kernels::Device::kCuda;
  EXPECT_THAT(std::string(LoadModel(dir_ / "m", options, nullptr).status().message()),
              AllOf(HasSubstr("--kv-dtype int8 on device cuda"), HasSubstr("--device cpu")));
  options.device = kernels::Device::kReference;
  options.kv_dtype = std::nullopt;
  ASSERT_TRUE(WriteRandomModel({.head_dim = 24, .seed = 3}, dir_ / "heads_of_24").ok());
  for (const auto kv_dtype : {kernels::DType::kInt8, kernels::DType::kFp8}) {
    options.kv_dtype = kv_dtype;
    EXPECT_THAT(std::string(LoadModel(dir_ / "heads_of_24", options, nullptr).status().message()),
                AllOf(HasSubstr("heads of 24"), HasSubstr("a multiple of 16")));
  }
  options.kv_dtype = std::nullopt;
  options.quantization = kernels::Quantization::kFp8;
  EXPECT_THAT(std::string(LoadModel(dir_ / "m", options, nullptr).status().message()),
              AllOf(HasSubstr("fp8 with --device reference"), HasSubstr("--quantization none")));
  options.quantization = kernels::Quantization::kNone;
  options.block_size = 0;
  EXPECT_THAT(std::string(LoadModel(dir_ / "m", options, nullptr).status().message()),
              HasSubstr("--block-size 0"));
}

}  // namespace
}  // namespace baton
