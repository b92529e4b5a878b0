#include "common/formats/gguf/gguf_config.h"

#include <functional>
#include <string>
#include <vector>

#include "common/formats/gguf/gguf_names.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/gguf_writer.h"
#include "tests/fakes/scratch_folder.h"

namespace baton {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Lt;

constexpr uint32_t kF32 = 0;
constexpr uint32_t kF16 = 1;
constexpr uint32_t kQ8_0 = 8;

// Keys that are set once, in the order in which they were first named.
class Keys {
 public:
  explicit Keys(const std::string& arch) : arch_(arch) {
    for (const auto& [key, value] :
         std::vector<std::pair<std::string, uint32_t>>{{"block_count", 2},
                                                       {"context_length", 4096},
                                                       {"embedding_length", 64},
                                                       {"feed_forward_length", 96},
                                                       {"attention.head_count", 4},
                                                       {"attention.head_count_kv", 2}}) {
      Set(key, value);
    }
    Set("attention.layer_norm_rms_epsilon", 1e-5f);
  }
  template <typename T>
  Keys& Set(const std::string& key, T value) {
    const std::string full = arch_ + "." + key;
    std::erase_if(entries_, [&](const auto& entry) { return entry.first == full; });
    entries_.emplace_back(full, [full, value](GgufWriter& w) { w.Add(full, value); });
    return *this;
  }
  Keys& Without(const std::string& key) {
    std::erase_if(entries_, [&](const auto& entry) { return entry.first == arch_ + "." + key; });
    return *this;
  }
  void Write(GgufWriter& writer) const {
    writer.Add("general.architecture", arch_);
    for (const auto& [key, add] : entries_) add(writer);
  }

 private:
  std::string arch_;
  std::vector<std::pair<std::string, std::function<void(GgufWriter&)>>> entries_;
};

class GgufConfigTest : public ::testing::Test {
 protected:
  absl::StatusOr<ModelConfig> Read(const Keys& keys,
                                   const std::function<void(GgufWriter&)>& more = nullptr) const {
    GgufWriter writer;
    keys.Write(writer);
    writer.AddTensor("token_embd.weight", kF16, {300, 64}, std::string(300 * 64 * 2, '\0'));
    if (more) more(writer);
    return LoadModelConfig(folder_.Write("m.gguf", writer.Bytes()));
  }
  std::string Defect(const Keys& keys,
                     const std::function<void(GgufWriter&)>& more = nullptr) const {
    const auto config = Read(keys, more);
    return config.ok() ? "" : std::string(config.status().message());
  }
  static std::function<void(GgufWriter&)> With(const std::string& name,
                                               const std::vector<float>& values) {
    return [=](GgufWriter& w) {
      w.AddTensor(name, kF32, {values.size()},
                  {reinterpret_cast<const char*>(values.data()), values.size() * 4});
    };
  }

  const ScratchFolder folder_;
};

TEST_F(GgufConfigTest, SaysWhatTheMetadataSay) {
  const auto config = Read(Keys("llama").Set("rope.freq_base", 500000.0f));
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->architecture, "LlamaForCausalLM");
  EXPECT_EQ(config->layers, 2);
  EXPECT_EQ(config->hidden, 64);
  EXPECT_EQ(config->heads, 4);
  EXPECT_EQ(config->kv_heads, 2);
  EXPECT_EQ(config->head_dim, 16);
  EXPECT_EQ(config->ffn, 96);
  EXPECT_EQ(config->vocab, 300);
  EXPECT_EQ(config->max_positions, 4096);
  EXPECT_EQ(static_cast<float>(config->rms_eps), 1e-5f);
  EXPECT_EQ(config->rope.theta, 500000);
  EXPECT_TRUE(config->tied_embeddings);
  EXPECT_EQ(config->dtype, "float16");
  EXPECT_FALSE(config->qkv_bias);
  EXPECT_FALSE(config->quantization.has_value());
  EXPECT_THAT(config->windows, Each(0));
}

TEST_F(GgufConfigTest, TensorsTellOfBiasesAndOfAnOutputProjection) {
  const auto config = Read(Keys("llama"), [](GgufWriter& w) {
    w.AddTensor("output.weight", kF32, {1}, "abcd");
    w.AddTensor("blk.0.attn_q.bias", kF32, {1}, "abcd");
    w.AddTensor("blk.0.ffn_gate.bias", kF32, {1}, "abcd");
  });
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_FALSE(config->tied_embeddings);
  EXPECT_TRUE(config->qkv_bias);
  EXPECT_FALSE(config->o_bias);
  EXPECT_TRUE(config->mlp_bias);
}

TEST_F(GgufConfigTest, TheKindOfTheOutputTellsWhetherItIsIntegers) {
  const auto with = [this](const std::string& integers, const std::string& floats) {
    return Read(Keys("llama"), [&](GgufWriter& w) {
      w.AddTensor(integers, kQ8_0, {1, 32}, std::string(34, '\0'));
      w.AddTensor(floats, kF32, {1}, "abcd");
    });
  };
  const auto small = with("output.weight", "blk.0.ffn_down.weight");
  ASSERT_TRUE(small.ok() && small->quantization.has_value()) << small.status();
  EXPECT_EQ(small->quantization->output, QuantizationConfig::Output::kIntegers);
  EXPECT_EQ(small->quantization->output_bytes_per_weight, 34.0 / 32);
  EXPECT_EQ(small->quantization->gpu_output_bytes_per_weight, 34.0 / 32);
  const auto large = with("blk.0.ffn_down.weight", "output.weight");
  ASSERT_TRUE(large.ok() && large->quantization.has_value()) << large.status();
  EXPECT_EQ(large->quantization->output, QuantizationConfig::Output::kFloats);
}

TEST_F(GgufConfigTest, FamiliesDiffer) {
  EXPECT_EQ(Read(Keys("qwen2"))->family, ModelFamily::kQwen2);
  const auto qwen3 = Read(Keys("qwen3")
                              .Set("attention.key_length", uint32_t{24})
                              .Set("attention.value_length", uint32_t{24}));
  ASSERT_TRUE(qwen3.ok()) << qwen3.status();
  EXPECT_TRUE(qwen3->qk_norm);
  EXPECT_EQ(qwen3->head_dim, 24);
  const auto mistral = Read(Keys("llama").Set("attention.sliding_window", uint32_t{128}));
  ASSERT_TRUE(mistral.ok()) << mistral.status();
  EXPECT_EQ(mistral->family, ModelFamily::kMistral);
  EXPECT_THAT(mistral->windows, Each(128));
}

TEST_F(GgufConfigTest, RotationsAreStretchedAsTheFileSays) {
  const auto linear =
      Read(Keys("llama").Set("rope.scaling.type", "linear").Set("rope.scaling.factor", 4.0f));
  ASSERT_TRUE(linear.ok()) << linear.status();
  EXPECT_EQ(linear->rope.scaling, RopeConfig::Scaling::kLinear);
  EXPECT_EQ(linear->rope.factor, 4);
  const auto yarn = Read(Keys("qwen2")
                             .Set("rope.scaling.type", "yarn")
                             .Set("rope.scaling.factor", 4.0f)
                             .Set("rope.scaling.original_context_length", uint32_t{1024}));
  ASSERT_TRUE(yarn.ok()) << yarn.status();
  EXPECT_EQ(yarn->rope.scaling, RopeConfig::Scaling::kYarn);
  EXPECT_EQ(yarn->rope.original_positions, 1024);
  const auto factors = Read(Keys("llama"), With("rope_freqs.weight", {1, 1, 1, 1, 2, 4, 8, 8}));
  ASSERT_TRUE(factors.ok()) << factors.status();
  EXPECT_THAT(factors->rope.divisors, ElementsAre(1, 1, 1, 1, 2, 4, 8, 8));
}

TEST_F(GgufConfigTest, AFactorWithoutATypeIsLinear) {
  for (const char* key : {"rope.scaling.factor", "rope.scale_linear"}) {
    for (const char* type : {"", "linear"}) {
      Keys keys = Keys("llama").Set(key, 4.0f);
      if (*type != '\0') keys.Set("rope.scaling.type", type);
      const auto config = Read(keys);
      ASSERT_TRUE(config.ok()) << config.status();
      EXPECT_EQ(config->rope.scaling, RopeConfig::Scaling::kLinear) << key << " " << type;
      EXPECT_EQ(config->rope.factor, 4) << key << " " << type;
    }
    for (const float none : {0.0f, 1.0f}) {
      EXPECT_EQ(Read(Keys("llama").Set(key, none))->rope.scaling, RopeConfig::Scaling::kNone);
    }
    EXPECT_EQ(Read(Keys("llama").Set(key, 4.0f).Set("rope.scaling.type", "none"))->rope.scaling,
              RopeConfig::Scaling::kNone);
    EXPECT_THAT(Defect(Keys("llama").Set(key, -1.0f)), HasSubstr(key));
  }
  const auto both =
      Read(Keys("llama").Set("rope.scaling.factor", 2.0f).Set("rope.scale_linear", 4.0f));
  ASSERT_TRUE(both.ok()) << both.status();
  EXPECT_EQ(both->rope.factor, 2);
  for (const char* type : {"linear", "yarn"}) {
    EXPECT_THAT(Defect(Keys("llama").Set("rope.scaling.type", type)),
                HasSubstr("rope.scaling.factor"));
  }
}

TEST_F(GgufConfigTest, WhatWouldBeComputedOtherwiseIsRefused) {
  EXPECT_THAT(Defect(Keys("gemma3")), AllOf(HasSubstr("gemma3"), HasSubstr("llama, qwen2, qwen3")));
  EXPECT_THAT(Defect(Keys("llama").Without("block_count")), HasSubstr("llama.block_count"));
  EXPECT_THAT(Defect(Keys("llama").Without("attention.layer_norm_rms_epsilon")),
              HasSubstr("layer_norm_rms_epsilon"));
  EXPECT_THAT(Defect(Keys("llama").Set("attention.head_count", uint32_t{0})),
              HasSubstr("num_attention_heads"));
  EXPECT_THAT(Defect(Keys("llama").Set("vocab_size", uint32_t{299})), HasSubstr("vocab_size"));
  EXPECT_THAT(Defect(Keys("llama").Set("expert_count", uint32_t{8})), HasSubstr("expert_count"));
  EXPECT_EQ(Defect(Keys("llama").Set("expert_count", uint32_t{0})), "");
  EXPECT_THAT(Defect(Keys("llama").Set("logit_scale", 0.5f)), HasSubstr("logit_scale"));
  EXPECT_THAT(Defect(Keys("llama").Set("x\n\x1b", uint32_t{1})), HasSubstr("llama.x\\n\\x1b"));
  EXPECT_THAT(Defect(Keys("llama").Set(std::string(5000, 'x'), uint32_t{1})).size(), Lt(500u));
  EXPECT_THAT(Defect(Keys("llama").Set("attention.causal", false)), HasSubstr("causal"));
  EXPECT_THAT(Defect(Keys("llama").Set("rope.dimension_count", uint32_t{8})),
              HasSubstr("dimension_count"));
  EXPECT_THAT(Defect(Keys("llama").Set("rope.scaling.type", "longrope")), HasSubstr("longrope"));
  EXPECT_THAT(Defect(Keys("llama").Set("attention.value_length", uint32_t{8})),
              HasSubstr("value_length"));
  EXPECT_THAT(Defect(Keys("qwen3").Set("attention.sliding_window", uint32_t{128})),
              HasSubstr("sliding_window"));
  EXPECT_THAT(Defect(Keys("llama").Set("attention.head_count_kv", std::vector<int32_t>{2, 4})),
              HasSubstr("all layers"));
  EXPECT_EQ(Defect(Keys("llama").Set("attention.head_count_kv", std::vector<int32_t>{2, 2})), "");
  for (const std::vector<float>& factors :
       std::vector<std::vector<float>>{{1, 1}, {1, 1, 1, 1, 1, 1, 1, 0}, {}}) {
    if (factors.empty()) continue;
    EXPECT_THAT(Defect(Keys("llama"), With("rope_freqs.weight", factors)), HasSubstr("rope_freqs"));
  }
}

TEST_F(GgufConfigTest, DefaultsOfRequestsComeFromTheFile) {
  GgufWriter writer;
  writer.Add("general.sampling.temp", 0.7f);
  writer.Add("general.sampling.top_k", uint32_t{20});
  writer.Add("general.sampling.top_p", 0.8f);
  const auto config = LoadGenerationConfig(folder_.Write("m.gguf", writer.Bytes()));
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->temperature, 0.7f);
  EXPECT_EQ(config->top_k, 20);
  EXPECT_EQ(config->top_p, 0.8f);
  EXPECT_EQ(config->min_p, std::nullopt);
  GgufWriter bad;
  bad.Add("general.sampling.top_p", 7.0f);
  EXPECT_THAT(
      std::string(LoadGenerationConfig(folder_.Write("b.gguf", bad.Bytes())).status().message()),
      HasSubstr("top_p"));
}

TEST(GgufNamesTest, GoBothWays) {
  for (const auto& [gguf, safetensors] : std::vector<std::pair<std::string, std::string>>{
           {"token_embd.weight", "model.embed_tokens.weight"},
           {"output.weight", "lm_head.weight"},
           {"output_norm.weight", "model.norm.weight"},
           {"blk.0.attn_q.weight", "model.layers.0.self_attn.q_proj.weight"},
           {"blk.12.attn_k.bias", "model.layers.12.self_attn.k_proj.bias"},
           {"blk.3.attn_q_norm.weight", "model.layers.3.self_attn.q_norm.weight"},
           {"blk.3.ffn_norm.weight", "model.layers.3.post_attention_layernorm.weight"},
           {"blk.3.ffn_down.weight", "model.layers.3.mlp.down_proj.weight"}}) {
    EXPECT_EQ(NameOfGgufTensor(gguf), safetensors);
    EXPECT_EQ(GgufNameOfTensor(safetensors), gguf);
  }
  for (const char* name : {"blk.3.other.weight", "blk.", "blk.3", "", "mm.0.weight"}) {
    EXPECT_EQ(NameOfGgufTensor(name), name);
  }
}

}  // namespace
}  // namespace baton
