#include "common/model/load_memory.h"

#include "common/model/footprint.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

using kernels::DType;
using kernels::Quantization;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// Llama-3.1-8B.
ModelConfig Config() {
  ModelConfig config;
  config.layers = 32;
  config.hidden = 4096;
  config.heads = 32;
  config.kv_heads = 8;
  config.head_dim = 128;
  config.ffn = 14336;
  config.vocab = 128256;
  return config;
}

double WeightsOf(const ModelConfig& config, int32_t ranks, int32_t counted) {
  const LocalShape shape = LocalShape::Of(config, 0, ranks).value();
  return MemoryNeed::Of(config, shape, counted, DType::kBF16, Quantization::kNone,
                        {.max_tokens = 2048, .max_samples = 64})
      .weights;
}

MemoryNeed NeedOf(DType dtype, Quantization quantization) {
  const ModelConfig config = Config();
  return MemoryNeed::Of(config, LocalShape::Of(config, 0, 1).value(), 1, dtype, quantization,
                        {.max_tokens = 2048, .max_samples = 64});
}

TEST(MemoryNeedTest, IsThatOfTheParameters) {
  constexpr double kParameters = 8.03e9;
  constexpr double kProjections = 6.98e9;
  EXPECT_NEAR(NeedOf(DType::kF32, Quantization::kNone).weights, 4 * kParameters, 4e7);
  EXPECT_NEAR(NeedOf(DType::kBF16, Quantization::kNone).weights, 2 * kParameters, 2e7);
  EXPECT_NEAR(NeedOf(DType::kBF16, Quantization::kFp8).weights, 2 * kParameters - kProjections,
              2e7);
}

// Projections of e4m3 are floats but on a device that multiplies by them.
TEST(MemoryNeedTest, Fp8CountsAsWhatTheDeviceMakesOfIt) {
  ModelConfig config = Config();
  const LocalShape shape = LocalShape::Of(config, 0, 1).value();
  config.quantization = QuantizationConfig{.format = QuantizationConfig::Format::kFp8};
  const auto weights = [&](Quantization quantization) {
    return MemoryNeed::Of(config, shape, 1, DType::kBF16, quantization, {}).weights;
  };
  EXPECT_EQ(weights(Quantization::kNone), NeedOf(DType::kBF16, Quantization::kNone).weights);
  EXPECT_EQ(weights(Quantization::kFp8), NeedOf(DType::kBF16, Quantization::kFp8).weights);
  EXPECT_EQ(WideningBytes(config, shape, DType::kBF16), 0);
}

// Room for the largest projection, gate and up of a rank, in the compute dtype.
TEST(MemoryNeedTest, IntegersNeedRoomToBeWidenedOnAGpu) {
  ModelConfig config = Config();
  const auto room = [&](int32_t ranks) {
    return WideningBytes(config, LocalShape::Of(config, 0, ranks).value(), DType::kBF16);
  };
  EXPECT_EQ(room(1), 0);
  config.quantization = QuantizationConfig{.bits = 4, .group = 128};
  config.tied_embeddings = true;
  EXPECT_EQ(room(1), 2.0 * 28672 * 4096);
  EXPECT_EQ(room(4), 2.0 * 28672 / 4 * 4096);
}

TEST(MemoryNeedTest, AGpuHasBuffersForEveryRowThatDraws) {
  const auto buffers = [](int32_t samples) {
    return BackendBytes(Config(), {.max_tokens = 2048, .max_samples = samples});
  };
  EXPECT_EQ(buffers(256) - buffers(0), 8.0 * 128256 * 256);
  EXPECT_EQ(buffers(0), 168.0 * (1 << 20) + 4.0 * (Config().max_positions + 9 * 128256));
}

TEST(MemoryNeedTest, ScalesOfGgufTakeMoreOnAGpu) {
  ModelConfig config = Config();
  const LocalShape shape = LocalShape::Of(config, 0, 2).value();
  EXPECT_EQ(WiderScaleBytes(config, shape), 0);
  config.quantization = QuantizationConfig{.bits = 4, .group = 128};
  EXPECT_EQ(WiderScaleBytes(config, shape), 0);
  config.quantization = QuantizationConfig{.format = QuantizationConfig::Format::kGguf,
                                           .bytes_per_weight = 0.5,
                                           .gpu_bytes_per_weight = 0.75};
  const double of_layers = 0.25 * static_cast<double>(CountProjectionParameters(config)) / 2;
  EXPECT_EQ(WiderScaleBytes(config, shape), of_layers);
  config.quantization->output_bytes_per_weight = 1.5;
  config.quantization->gpu_output_bytes_per_weight = 2;
  EXPECT_EQ(WiderScaleBytes(config, shape), of_layers + 0.5 * 128256 / 2 * 4096);
}

TEST(MemoryNeedTest, AnOutputProjectionThatMayBeIntegersIsWidenedToo) {
  ModelConfig config = Config();
  config.quantization = QuantizationConfig{.bits = 4, .group = 128};
  const auto room = [&](int32_t ranks) {
    return WideningBytes(config, LocalShape::Of(config, 0, ranks).value(), DType::kBF16);
  };
  EXPECT_EQ(room(1), 2.0 * 128256 * 4096);
  EXPECT_EQ(room(4), 2.0 * 128256 / 4 * 4096);
  config.quantization->output = QuantizationConfig::Output::kFloats;
  EXPECT_EQ(room(1), 2.0 * 28672 * 4096);
}

// Layers and the output projection are divided; each rank has all embeddings.
TEST(MemoryNeedTest, RanksDivideAllButTheEmbeddings) {
  ModelConfig config = Config();
  const double table = 2.0 * config.vocab * config.hidden;
  const double whole = WeightsOf(config, 1, 1);
  EXPECT_NEAR(WeightsOf(config, 4, 1), (whole - table) / 4 + table, 1e7);
  EXPECT_NEAR(WeightsOf(config, 4, 4), whole + 3 * table, 1e7);
  config.tied_embeddings = true;
  EXPECT_NEAR(WeightsOf(config, 1, 1), whole - table, 1e7);
  EXPECT_NEAR(WeightsOf(config, 4, 4), whole + 3 * table, 1e7);
}

TEST(CheckMemoryTest, SaysNeedAndHaveAndTheFlagsThatFit) {
  const MemoryNeed need = {.weights = 16e9, .activations = 1e9};
  EXPECT_TRUE(CheckMemory(need, 3e9, 20e9, "GPU").ok());
  const absl::Status status = CheckMemory(need, 5e9, 20e9, "GPU");
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("needs 22000 MB"), HasSubstr("weights 16000 MB"),
                    HasSubstr("the GPU has 20000 MB"), HasSubstr("--kv-cache-memory")));
}

TEST(CheckMemoryTest, NoFlagOfTheCacheHelpsWhereTheWeightsAreTooLarge) {
  const absl::Status status = CheckMemory({.weights = 16e9}, 1e9, 12e9, "GPU");
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("the weights alone"), Not(HasSubstr("--kv-cache-memory"))));
}

// A GPU of 100 GB, of which 99 are free.
absl::Status CheckGpu(const MemoryNeed& need, const DeviceKvNeed& kv, double share) {
  const int64_t gb = 1'000'000'000;
  return CheckDeviceMemory(need, kv, {.free_bytes = 99 * gb, .total_bytes = 100 * gb}, share);
}

TEST(CheckDeviceMemoryTest, TheLargestStepNeedsItsBlocksBeforeThereIsACache) {
  const MemoryNeed need = {.weights = 90e9, .activations = 5e9};
  EXPECT_TRUE(CheckGpu(need, {.block_bytes = 1e6, .step_blocks = 4000}, 0.99).ok());
  const absl::Status rest = CheckGpu(need, {.block_bytes = 1e6, .step_blocks = 4001}, 0.99);
  EXPECT_EQ(rest.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(rest.message()),
              AllOf(HasSubstr("KV cache 4001 MB"), HasSubstr("--max-num-batched-tokens"),
                    Not(HasSubstr("--kv-cache-memory"))));
  DeviceKvNeed given = {.block_bytes = 1e6, .cache_blocks = 10, .step_blocks = 4000};
  EXPECT_TRUE(CheckGpu(need, given, 0.5).ok()) << "a share is not asked for";
  given.step_blocks = 4001;
  EXPECT_FALSE(CheckGpu(need, given, 0.5).ok());
  given = {.block_bytes = 1e6, .cache_blocks = 4001, .step_blocks = 10};
  EXPECT_THAT(std::string(CheckGpu(need, given, 0.5).message()), HasSubstr("--kv-cache-memory"));
}

TEST(CheckDeviceMemoryTest, ACacheThatTakesTheRestOfAShareHasABlock) {
  const DeviceKvNeed kv = {.block_bytes = 1e6, .step_blocks = 10};
  EXPECT_TRUE(CheckGpu({.weights = 40e9}, kv, 0.5).ok());
  const absl::Status status = CheckGpu({.weights = 48e9, .activations = 2e9}, kv, 0.5);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("--gpu-memory-utilization leaves"), HasSubstr("--max-num-seqs"),
                    Not(HasSubstr("--kv-cache-memory"))));
}

}  // namespace
}  // namespace baton
