#include "common/model/random/random_model.h"

#include <fstream>
#include <sstream>

#include "common/formats/generation_config.h"
#include "common/formats/safetensors.h"
#include "common/model/tensor_specs.h"
#include "common/text/chat_template.h"
#include "common/text/tokenizer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/common/model/model_harness.h"
#include "tests/fakes/scratch_folder.h"

namespace baton {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(RandomModelTest, EveryArchitectureAndDtypeLoadsAndGenerates) {
  ScratchFolder dir;
  for (const char* arch : {"llama", "mistral", "qwen2", "qwen3"}) {
    for (const char* dtype : {"float32", "bfloat16", "float16"}) {
      const std::string path = dir / (std::string(arch) + dtype);
      const absl::Status written = WriteRandomModel({.arch = arch, .dtype = dtype}, path);
      ASSERT_TRUE(written.ok()) << written;
      auto model = test::MustLoad(path, {"reference", "auto"}, "auto");
      const bool fp32 = std::string(dtype) == "float32";
      EXPECT_EQ(model->backend->info().compute_dtype,
                fp32 ? kernels::DType::kF32 : kernels::DType::kBF16);
      test::RunnerDriver driver(*model);
      test::TestSequence sequence{.prompt = {72, 105}};
      driver.Generate({&sequence}, 8, 512);
      EXPECT_EQ(sequence.output.size(), 8U);
    }
  }
}

TEST(RandomModelTest, TheSameSpecGivesTheSameBytes) {
  ScratchFolder dir;
  const RandomModelSpec spec = {.seed = 5};
  ASSERT_TRUE(WriteRandomModel(spec, dir / "a").ok());
  ASSERT_TRUE(WriteRandomModel(spec, dir / "b").ok());
  ASSERT_TRUE(WriteRandomModel({.seed = 6}, dir / "c").ok());
  const std::string a = ReadFile(dir / "a/model.safetensors");
  EXPECT_GT(a.size(), 100000U);
  EXPECT_EQ(a, ReadFile(dir / "b/model.safetensors"));
  EXPECT_NE(a, ReadFile(dir / "c/model.safetensors"));
}

// Largest and mean magnitude tell a wrong scale from a right one in every dtype.
TEST(RandomModelTest, WeightsHaveTheStatedSpread) {
  ScratchFolder dir;
  for (const char* dtype : {"float32", "bfloat16", "float16"}) {
    ASSERT_TRUE(WriteRandomModel({.dtype = dtype}, dir / dtype).ok());
    auto model = test::MustLoad(dir / dtype, {"reference", "auto"}, "float32");
    kernels::Backend& backend = *model->backend;
    const auto files = CheckpointFiles::Open(dir / dtype);
    ASSERT_TRUE(files.ok()) << files.status();
    const StoredTensor& tensor = *(*files)->Find("model.layers.0.mlp.down_proj.weight");
    const auto buffer = backend.UploadTable({.data = tensor.data.data(),
                                             .dtype = *TensorDType(tensor),
                                             .rows = tensor.shape[0],
                                             .cols = tensor.shape[1]});
    ASSERT_TRUE(buffer.ok()) << buffer.status();
    const float* values = static_cast<const float*>((*buffer)->data());
    const size_t count = (*buffer)->size() / sizeof(float);
    double squares = 0;
    double sum = 0;
    for (size_t i = 0; i < count; ++i) {
      squares += values[i] * values[i];
      sum += values[i];
    }
    EXPECT_NEAR(squares / static_cast<double>(count), 1.0 / 128, 2e-4) << dtype;
    EXPECT_NEAR(sum / static_cast<double>(count), 0, 4e-3) << dtype;
  }
}

TEST(RandomModelTest, TheTokenizerMapsBytesToThemselvesAndBack) {
  ScratchFolder dir;
  ASSERT_TRUE(WriteRandomModel({}, dir / "m").ok());
  const auto tokenizer = LoadTokenizer(dir / "m");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_EQ((*tokenizer)->vocab_size(), 258);
  for (int byte = 0; byte < 256; ++byte) {
    EXPECT_EQ((*tokenizer)->TokenBytes(byte), std::string(1, static_cast<char>(byte))) << byte;
  }
  const std::string text = "Grüße,\tWelt!\n 日本 \x01";
  const auto ids = (*tokenizer)->Encode(text, true);
  ASSERT_TRUE(ids.ok()) << ids.status();
  EXPECT_EQ(ids->size(), text.size());
  EXPECT_EQ((*tokenizer)->Decode(*ids, false), text);
  EXPECT_EQ((*tokenizer)->TokenToId("<|eos|>"), 257);
  EXPECT_TRUE((*tokenizer)->IsSpecial(256));
}

TEST(RandomModelTest, StatesItsEosIdInEveryFile) {
  ScratchFolder dir;
  ASSERT_TRUE(WriteRandomModel({}, dir / "m").ok());
  EXPECT_THAT(LoadModelConfig(dir / "m")->eos_ids, ElementsAre(257));
  EXPECT_THAT(LoadGenerationConfig(dir / "m")->eos_ids, ElementsAre(257));
  EXPECT_THAT(ReadFile(dir / "m/tokenizer_config.json"), HasSubstr("<|eos|>"));
}

TEST(RandomModelTest, RefusesImpossibleShapes) {
  ScratchFolder dir;
  const RandomModelSpec specs[] = {{.arch = "gpt2"}, {.heads = 3, .kv_heads = 2}, {.head_dim = 12},
                                   {.vocab = 257},   {.dtype = "int8"},           {.layers = 0},
                                   {.hidden = -64}};
  for (const RandomModelSpec& spec : specs) {
    EXPECT_EQ(WriteRandomModel(spec, dir / "m").code(), absl::StatusCode::kInvalidArgument)
        << spec.arch << spec.head_dim << spec.vocab;
  }
}

TEST(RandomModelTest, NeverWritesIntoAFilledDirectory) {
  ScratchFolder dir;
  ASSERT_TRUE(WriteRandomModel({}, dir / "m").ok());
  const absl::Status again = WriteRandomModel({}, dir / "m");
  EXPECT_EQ(again.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(again.message()), HasSubstr("not an empty directory"));
}

}  // namespace
}  // namespace baton
