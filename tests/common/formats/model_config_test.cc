#include "common/formats/model_config.h"

#include <filesystem>
#include <random>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/fakes/scratch_folder.h"

namespace baton {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

// Llama 3.1 8B as transformers 4 writes it.
json Llama31() {
  return json::parse(R"({
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "attention_bias": false,
    "bos_token_id": 128000, "eos_token_id": [128001, 128008, 128009], "hidden_act": "silu",
    "hidden_size": 4096, "intermediate_size": 14336, "max_position_embeddings": 131072,
    "mlp_bias": false, "num_attention_heads": 32, "num_hidden_layers": 32,
    "num_key_value_heads": 8, "pretraining_tp": 1, "rms_norm_eps": 1e-05,
    "rope_scaling": {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                     "original_max_position_embeddings": 8192, "rope_type": "llama3"},
    "rope_theta": 500000.0, "tie_word_embeddings": false, "torch_dtype": "bfloat16",
    "vocab_size": 128256})");
}

json Small(const char* architecture) {
  return {{"architectures", {architecture}}, {"hidden_size", 64},       {"intermediate_size", 96},
          {"num_hidden_layers", 4},          {"vocab_size", 320},       {"num_attention_heads", 4},
          {"num_key_value_heads", 2},        {"torch_dtype", "float32"}};
}

absl::StatusOr<ModelConfig> Parse(const json& config) {
  return ParseModelConfig(config.dump(), "config.json");
}

std::string Refusal(const json& config) {
  const auto parsed = Parse(config);
  EXPECT_EQ(parsed.status().code(), absl::StatusCode::kInvalidArgument) << config;
  return std::string(parsed.status().message());
}

TEST(ModelConfigTest, ReadsTheTransformers4Form) {
  const auto config = Parse(Llama31());
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->family, ModelFamily::kLlama);
  EXPECT_EQ(config->head_dim, 128);
  EXPECT_EQ(config->kv_heads, 8);
  EXPECT_EQ(config->dtype, "bfloat16");
  EXPECT_EQ(config->rope.scaling, RopeConfig::Scaling::kLlama3);
  EXPECT_EQ(config->rope.theta, 500000);
  EXPECT_EQ(config->rope.original_positions, 8192);
  EXPECT_THAT(config->eos_ids, ElementsAre(128001, 128008, 128009));
  EXPECT_FALSE(config->tied_embeddings);
  EXPECT_THAT(config->windows, AllOf(testing::SizeIs(32), Each(0)));
}

TEST(ModelConfigTest, ReadsTheTransformers5Form) {
  json config = Llama31();
  config["rope_parameters"] = config["rope_scaling"];
  config["rope_parameters"]["rope_theta"] = 250000.0;
  config["dtype"] = "float16";
  for (const char* key : {"rope_scaling", "rope_theta", "torch_dtype"}) config.erase(key);
  const auto parsed = Parse(config);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->rope.scaling, RopeConfig::Scaling::kLlama3);
  EXPECT_EQ(parsed->rope.theta, 250000);
  EXPECT_EQ(parsed->dtype, "float16");
}

TEST(ModelConfigTest, TakesDefaultsOfTheFamilyForWhatIsAbsent) {
  json llama = Small("LlamaForCausalLM");
  llama.erase("num_key_value_heads");
  EXPECT_EQ(Parse(llama)->kv_heads, 4);
  EXPECT_EQ(Parse(llama)->head_dim, 16);
  EXPECT_EQ(Parse(llama)->max_positions, 2048);
  EXPECT_EQ(Parse(llama)->rope.theta, 10000);

  EXPECT_EQ(Parse(Small("Qwen3ForCausalLM"))->head_dim, 128);
  EXPECT_THAT(Parse(Small("MistralForCausalLM"))->windows, Each(4096));
}

TEST(ModelConfigTest, FallsBackToTheModelTypeWithoutArchitectures) {
  json config = Small("LlamaForCausalLM");
  config.erase("architectures");
  config["model_type"] = "qwen2";
  EXPECT_EQ(Parse(config)->family, ModelFamily::kQwen2);
}

TEST(ModelConfigTest, RefusesAnArchitectureOfAnotherModelType) {
  json config = Small("LlamaForCausalLM");
  config["model_type"] = "mistral";
  config["sliding_window"] = 16;
  EXPECT_THAT(Refusal(config), AllOf(HasSubstr("LlamaForCausalLM"), HasSubstr("\"mistral\"")));
  config["model_type"] = "gemma";
  EXPECT_THAT(Refusal(config), HasSubstr("\"gemma\""));
  config["model_type"] = "llama";
  EXPECT_EQ(Parse(config)->family, ModelFamily::kLlama);
}

TEST(ModelConfigTest, KnowsTheBiasesAndNormsOfEachFamily) {
  EXPECT_FALSE(Parse(Small("LlamaForCausalLM"))->qkv_bias);
  json biased = Small("LlamaForCausalLM");
  biased["attention_bias"] = true;
  biased["mlp_bias"] = true;
  EXPECT_TRUE(Parse(biased)->qkv_bias && Parse(biased)->o_bias && Parse(biased)->mlp_bias);

  const auto qwen2 = Parse(Small("Qwen2ForCausalLM"));
  EXPECT_TRUE(qwen2->qkv_bias && !qwen2->o_bias && !qwen2->qk_norm);
  const auto qwen3 = Parse(Small("Qwen3ForCausalLM"));
  EXPECT_TRUE(!qwen3->qkv_bias && qwen3->qk_norm);
}

TEST(ModelConfigTest, LimitsMistralsAttentionWhereAWindowIsSet) {
  json config = Small("MistralForCausalLM");
  config["sliding_window"] = 8;
  EXPECT_THAT(Parse(config)->windows, ElementsAre(8, 8, 8, 8));
  config["sliding_window"] = nullptr;
  EXPECT_THAT(Parse(config)->windows, Each(0));
}

TEST(ModelConfigTest, UsesQwensWindowOnlyWhereItIsSwitchedOn) {
  json config = Small("Qwen2ForCausalLM");
  config["sliding_window"] = 8;
  config["max_window_layers"] = 3;
  config["use_sliding_window"] = false;
  EXPECT_THAT(Parse(config)->windows, Each(0));
  config["use_sliding_window"] = true;
  EXPECT_THAT(Parse(config)->windows, ElementsAre(0, 0, 0, 8));
  config["layer_types"] = {"sliding_attention", "full_attention", "full_attention",
                           "sliding_attention"};
  EXPECT_THAT(Parse(config)->windows, ElementsAre(8, 0, 0, 8));
  config["layer_types"] = {"full_attention"};
  EXPECT_THAT(Refusal(config), HasSubstr("one entry for each of 4 layers"));
  config["layer_types"] = {"full_attention", "full_attention", "full_attention", "chunked"};
  EXPECT_THAT(Refusal(config), HasSubstr("full_attention or sliding_attention"));
}

// `levels` arrays in each other.
std::string Nested(size_t levels) { return std::string(levels, '[') + std::string(levels, ']'); }

TEST(ModelConfigTest, RefusesJsonThatNestsTooDeep) {
  const auto with = [](const std::string& key, size_t levels) {
    return ParseModelConfig("{\"" + key + "\": " + Nested(levels) + "}", "config.json").status();
  };
  for (const char* key : {"hidden_size", "eos_token_id", "of_no_meaning"}) {
    const absl::Status status = with(key, 3'000'000);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr("nests more than 100 levels"));
  }
  EXPECT_THAT(std::string(with("hidden_size", 100).message()), HasSubstr("nests"));
  EXPECT_THAT(std::string(with("hidden_size", 99).message()), Not(HasSubstr("nests")));
}

TEST(ModelConfigTest, SaysWhereALinkToNothingLeads) {
  const ScratchFolder dir;
  std::filesystem::create_symlink("../blobs/5d0a", dir / "config.json");
  const absl::Status status = LoadModelConfig(dir.path()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("config.json is a link to ../blobs/5d0a"));
}

TEST(ModelConfigTest, RefusesTwoRopesThatDiffer) {
  json config = Small("LlamaForCausalLM");
  config["rope_parameters"] = {{"rope_theta", 10000.0}, {"rope_type", "default"}};
  config["rope_scaling"] = {{"rope_type", "linear"}, {"factor", 4.0}};
  EXPECT_THAT(Refusal(config), AllOf(HasSubstr("rope_parameters"), HasSubstr("rope_scaling")));

  // transformers reads the theta of `rope_scaling`, which is 10000 here.
  config["rope_parameters"] = {{"rope_theta", 1e6}, {"rope_type", "linear"}, {"factor", 4.0}};
  EXPECT_THAT(Refusal(config), HasSubstr("rope_theta"));
}

TEST(ModelConfigTest, TakesTwoRopesThatAreAlikeAndNoneThatIsEmpty) {
  json config = Small("LlamaForCausalLM");
  config["rope_theta"] = 1e6;
  config["rope_parameters"] = {{"rope_theta", 1e6}, {"rope_type", "linear"}, {"factor", 4.0}};
  config["rope_scaling"] = {{"type", "linear"}, {"factor", 4.0}};
  const auto both = Parse(config);
  ASSERT_TRUE(both.ok()) << both.status();
  EXPECT_EQ(both->rope.scaling, RopeConfig::Scaling::kLinear);
  EXPECT_EQ(both->rope.theta, 1e6);

  config["rope_scaling"] = json::object();
  EXPECT_EQ(Parse(config)->rope.factor, 4.0);
  std::swap(config["rope_scaling"], config["rope_parameters"]);
  EXPECT_EQ(Parse(config)->rope.factor, 4.0);
  config["rope_scaling"] = nullptr;
  EXPECT_EQ(Parse(config)->rope.scaling, RopeConfig::Scaling::kNone);
}

TEST(ModelConfigTest, ReadsLinearAndYarnRopes) {
  json config = Small("LlamaForCausalLM");
  config["rope_scaling"] = {{"type", "linear"}, {"factor", 2.5}};
  EXPECT_EQ(Parse(config)->rope.scaling, RopeConfig::Scaling::kLinear);
  EXPECT_EQ(Parse(config)->rope.factor, 2.5);

  config["rope_scaling"] = {
      {"rope_type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 32768}};
  EXPECT_EQ(Parse(config)->rope.scaling, RopeConfig::Scaling::kYarn);
  EXPECT_NEAR(Parse(config)->rope.attention_factor, 1.1386294, 1e-6);  // 0.1 ln 4 + 1

  // The value that transformers' own function gives.
  config["rope_scaling"] = {
      {"rope_type", "yarn"}, {"factor", 8.0}, {"mscale", 0.7}, {"mscale_all_dim", 1.5}};
  EXPECT_NEAR(Parse(config)->rope.attention_factor, 0.8731967, 1e-6);
  EXPECT_EQ(Parse(config)->rope.original_positions, 2048);
}

// Models' pages say to add the rule and to leave max_position_embeddings as it is.
TEST(ModelConfigTest, AContextIsAsLongAsYarnStretchesIt) {
  json config = Small("Qwen2ForCausalLM");
  const auto positions = [&](int64_t original, double factor) {
    config["rope_scaling"] = {
        {"type", "yarn"}, {"factor", factor}, {"original_max_position_embeddings", original}};
    return Parse(config)->max_positions;
  };
  config["max_position_embeddings"] = 32768;
  EXPECT_EQ(positions(32768, 4), 131072);
  EXPECT_EQ(positions(32768, 1.5), 49152);
  config["rope_scaling"].erase("original_max_position_embeddings");
  EXPECT_EQ(Parse(config)->max_positions, 49152);
  config["max_position_embeddings"] = 163840;
  EXPECT_EQ(positions(4096, 40), 163840) << "what was stretched already";
  EXPECT_EQ(positions(32768, 4), 163840) << "a model that was trained on more";
  EXPECT_EQ(positions(1 << 28, 1e6), 1 << 28);
  config["rope_scaling"] = {{"type", "linear"}, {"factor", 4.0}};
  EXPECT_EQ(Parse(config)->max_positions, 163840);
}

TEST(ModelConfigTest, RefusesRopesThatDependOnTheLength) {
  for (const char* type : {"dynamic", "longrope", "mrope"}) {
    json config = Small("LlamaForCausalLM");
    config["rope_scaling"] = {{"rope_type", type}, {"factor", 2.0}};
    EXPECT_THAT(Refusal(config),
                AllOf(HasSubstr(type), HasSubstr("default, linear, llama3 or yarn")));
  }
}

TEST(ModelConfigTest, RefusesAnUnknownArchitectureAndSaysWhatIsSupported) {
  json config = Small("GemmaForCausalLM");
  EXPECT_THAT(Refusal(config), AllOf(HasSubstr("GemmaForCausalLM"), HasSubstr("LlamaForCausalLM"),
                                     HasSubstr("Qwen3ForCausalLM")));
  config["architectures"] = "LlamaForCausalLM";
  EXPECT_THAT(Refusal(config), HasSubstr("a list of strings"));
}

TEST(ModelConfigTest, RefusesWhatItWouldComputeDifferently) {
  const std::pair<const char*, json> cases[] = {
      {"hidden_act", "gelu"},
      {"quantization_config", {{"bits", 4}}},
      {"partial_rotary_factor", 0.5},
      {"torch_dtype", "float8_e4m3fn"},
      {"num_key_value_heads", 3},
      {"head_dim", 20},
      {"head_dim", 264},
      {"hidden_size", 66},
  };
  for (const auto& [key, value] : cases) {
    json config = Small("LlamaForCausalLM");
    config[key] = value;
    EXPECT_THAT(Refusal(config), HasSubstr(key));
  }
}

TEST(ModelConfigTest, RefusesHostileValues) {
  const json values[] = {
      -1, 0, 1.5, "64", json::array({64}), true, 1e300, 9223372036854775807, 18446744073709551615U};
  for (const char* key : {"hidden_size", "intermediate_size", "num_hidden_layers", "vocab_size",
                          "num_attention_heads", "max_position_embeddings"}) {
    for (const json& value : values) {
      json config = Small("LlamaForCausalLM");
      config[key] = value;
      EXPECT_THAT(Refusal(config), HasSubstr(key)) << value;
    }
  }
  json absent = Small("LlamaForCausalLM");
  absent.erase("hidden_size");
  EXPECT_THAT(Refusal(absent), AllOf(HasSubstr("hidden_size"), HasSubstr("nothing")));
}

TEST(ModelConfigTest, RefusesEosIdsOutsideTheVocabulary) {
  for (const json& value : {json(320), json(-1), json({1, 400}), json("2")}) {
    json config = Small("LlamaForCausalLM");
    config["eos_token_id"] = value;
    EXPECT_THAT(Refusal(config), HasSubstr("eos_token_id")) << value;
  }
}

TEST(ModelConfigTest, RefusesWhatIsNotAnObject) {
  for (const char* text : {"", "[]", "{", "null", "\xff"}) {
    EXPECT_EQ(ParseModelConfig(text, "config.json").status().code(),
              absl::StatusCode::kInvalidArgument)
        << text;
  }
  EXPECT_EQ(LoadModelConfig("/nonexistent").status().code(), absl::StatusCode::kNotFound);
}

// Whatever stands in the file, the answer is a config within bounds or a refusal.
TEST(ModelConfigTest, SurvivesMutatedFiles) {
  const json values[] = {nullptr,
                         -1,
                         0,
                         1,
                         7,
                         1e308,
                         -0.5,
                         "",
                         "default",
                         json::array(),
                         true,
                         json::object(),
                         json::array({1, "x"}),
                         INT64_MIN,
                         UINT64_MAX};
  constexpr uint64_t kSeed = 20240607;
  std::mt19937_64 random(kSeed);
  int accepted = 0;
  for (int round = 0; round < 3000; ++round) {
    json config = round % 2 == 0 ? Llama31() : Small("Qwen2ForCausalLM");
    config["layer_types"] = nullptr;
    config["sliding_window"] = 64;
    for (uint64_t edits = 1 + random() % 3; edits > 0; --edits) {
      json* target = &config;
      if (random() % 4 == 0 && config["rope_scaling"].is_object()) target = &config["rope_scaling"];
      if (target->empty()) continue;
      auto entry = target->begin();
      std::advance(entry, static_cast<int64_t>(random() % target->size()));
      *entry = values[random() % std::size(values)];
    }
    std::string text = config.dump();
    if (random() % 3 == 0) text[random() % text.size()] = static_cast<char>(random());
    const auto parsed = ParseModelConfig(text, "config.json");
    if (!parsed.ok()) continue;
    ++accepted;
    EXPECT_TRUE(parsed->head_dim % 8 == 0 && parsed->head_dim <= 256) << "seed " << kSeed << text;
    EXPECT_EQ(parsed->heads % parsed->kv_heads, 0) << "seed " << kSeed << text;
    EXPECT_EQ(parsed->windows.size(), static_cast<size_t>(parsed->layers)) << text;
  }
  EXPECT_GT(accepted, 100);
}

}  // namespace
}  // namespace baton
