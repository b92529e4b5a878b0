#include "common/model/footprint.h"

#include "common/model/tensor_specs.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

ModelConfig Llama31() {
  const auto config = ParseModelConfig(
      R"({"architectures": ["LlamaForCausalLM"], "hidden_size": 4096, "intermediate_size": 14336,
          "max_position_embeddings": 131072, "num_attention_heads": 32, "num_hidden_layers": 32,
          "num_key_value_heads": 8, "vocab_size": 128256, "torch_dtype": "bfloat16"})",
      "config.json");
  EXPECT_TRUE(config.ok()) << config.status();
  return *config;
}

TEST(FootprintTest, KnowsTheFiguresOfLlama31) {
  const Footprint footprint =
      ComputeFootprint(Llama31(), {.tokens = 1024, .memory_bytes = int64_t{16} << 30});
  EXPECT_EQ(footprint.parameters, 8'030'261'248);
  EXPECT_EQ(footprint.weight_bytes.at("bfloat16"), 16'060'522'496);
  EXPECT_EQ(footprint.weight_bytes.at("float32"), 32'121'044'992);
  EXPECT_EQ(footprint.kv_bytes_per_token, 131'072);
  EXPECT_EQ(footprint.kv_bytes_per_token * 1024, 134'217'728);           // 134 MB
  EXPECT_EQ(footprint.kv_bytes_per_token * 1024 * 128, 17'179'869'184);  // 17.2 GB
  EXPECT_EQ(footprint.max_concurrency, 128);
}

// A weight of e4m3 is a byte only where some device multiplies by it: in 16 bits, with rounded
// inputs.
TEST(FootprintTest, CountsE4m3AsTheSmallestDeviceHasIt) {
  using kernels::DType;
  ModelConfig config = Llama31();
  config.quantization =
      QuantizationConfig{.format = QuantizationConfig::Format::kFp8, .asks_rounded_inputs = true};
  const auto bytes = [&](DType dtype) {
    const Footprint footprint = ComputeFootprint(config, {.tokens = 1, .compute_dtype = dtype});
    return footprint.weight_bytes.at("fp8");
  };
  const int64_t projections = CountProjectionParameters(config);
  const int64_t others = CountParameters(config) - projections;
  EXPECT_EQ(bytes(DType::kBF16), 2 * others + projections);
  EXPECT_EQ(bytes(DType::kF16), 2 * others + projections);
  EXPECT_EQ(bytes(DType::kF32), 4 * (others + projections));
  config.quantization->asks_rounded_inputs = false;
  EXPECT_EQ(bytes(DType::kBF16), 2 * (others + projections));
}

TEST(FootprintTest, ExecutedPrefillPassesTheLastTailOnce) {
  // hidden 16, q 2 · 8, kv 1 · 8, ffn 24, 3 layers, vocabulary 10.
  const auto config = ParseModelConfig(
      R"({"architectures": ["LlamaForCausalLM"], "hidden_size": 16, "intermediate_size": 24,
          "max_position_embeddings": 64, "num_attention_heads": 2, "head_dim": 8,
          "num_hidden_layers": 3, "num_key_value_heads": 1, "vocab_size": 10})",
      "config.json");
  ASSERT_TRUE(config.ok()) << config.status();
  // The operations of one token. The tail of a layer has the output projection of attention and the
  // MLP.
  const double qkv = 2 * 16 * (16 + 8 + 8);
  const double tail = 2 * (16 * 16 + 3 * 16 * 24);
  const double output = 2 * 16 * 10;
  // 5 queries see 1 + 2 + 3 + 4 + 5 keys in each layer: 4 FLOPs per element of the query heads.
  const double attention = 3 * 15 * 4 * 16;
  EXPECT_EQ(ExecutedPrefillFlops(*config, 5),
            5 * 3 * qkv + (5 * 2 + 1) * tail + output + attention);
  EXPECT_EQ(LastLayerTailFlops(*config), tail);
  EXPECT_EQ(ExecutedPrefillFlops(*config, 1),
            ComputeFootprint(*config, {.tokens = 1}).prefill_flops);
}

TEST(FootprintTest, CountsTheFlopsOfProjectionsAndAttention) {
  // Per layer: q and o 4096², k and v 4096 · 1024, three of 4096 · 14336; output 4096 · 128256.
  const double layer = 2.0 * (2 * 4096.0 * 4096 + 2 * 4096.0 * 1024 + 3 * 4096.0 * 14336);
  const double output = 2.0 * 4096 * 128256;
  const Footprint footprint = ComputeFootprint(Llama31(), {.tokens = 3});
  // Queries of 3 tokens see 1 + 2 + 3 keys; the token after them sees 4.
  EXPECT_EQ(footprint.prefill_flops, 3 * 32 * layer + output + 32 * 4.0 * 4096 * 6);
  EXPECT_EQ(footprint.decode_step_flops, 32 * layer + output + 32 * 4.0 * 4096 * 4);
}

TEST(FootprintTest, CountsOnlyWhatAWindowLetsThrough) {
  ModelConfig config = Llama31();
  config.windows.assign(config.layers, 2);
  const Footprint full = ComputeFootprint(Llama31(), {.tokens = 5});
  const Footprint windowed = ComputeFootprint(config, {.tokens = 5});
  // 15 pairs without the window; 1 + 2 + 2 + 2 + 2 with it.
  EXPECT_EQ(full.prefill_flops - windowed.prefill_flops, 32 * 4.0 * 4096 * 6);
  EXPECT_EQ(full.decode_step_flops - windowed.decode_step_flops, 32 * 4.0 * 4096 * 4);
}

TEST(FootprintTest, ConcurrencyCountsWholeBlocks) {
  const int64_t block = 16 * 131072;
  EXPECT_EQ(ComputeFootprint(Llama31(), {.tokens = 17, .memory_bytes = 4 * block}).max_concurrency,
            2);
  EXPECT_EQ(ComputeFootprint(Llama31(), {.tokens = 17, .memory_bytes = block}).max_concurrency, 0);
}

TEST(FootprintTest, CountsTiedEmbeddingsOnce) {
  ModelConfig config = Llama31();
  config.tied_embeddings = true;
  EXPECT_EQ(CountParameters(Llama31()) - CountParameters(config), int64_t{128256} * 4096);
}

TEST(FootprintTest, ActivationsGrowWithTheStep) {
  const ModelConfig config = Llama31();
  // Per token: fp32 residual, then bf16 buffers of ffn and 2 ffn columns.
  const int64_t per_token = 4096 * 4 + 14336 * 2 + 2 * 14336 * 2;
  EXPECT_EQ(ComputeFootprint(config, {.tokens = 1001}).activation_peak_bytes -
                ComputeFootprint(config, {.tokens = 1000}).activation_peak_bytes,
            per_token);
}

}  // namespace
}  // namespace baton
