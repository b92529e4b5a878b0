#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/fakes/scratch_folder.h"
#include "tests/tools/run_tool.h"

namespace baton {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

class ModelCommand : public ::testing::Test {
 protected:
  void WriteConfig(const std::string& json) {
    std::filesystem::create_directories(folder_);
    std::ofstream(folder_ + "/config.json") << json;
  }

  static void RenameInConfig(const std::string& folder, const char* from, const char* to) {
    nlohmann::json config = nlohmann::json::parse(std::ifstream(folder + "/config.json"));
    config[to] = config[from];
    config.erase(from);
    std::ofstream(folder + "/config.json") << config;
  }

  const ScratchFolder scratch_;
  const std::string folder_ = scratch_ / "model";
};

constexpr char kLlama31[] = R"({
  "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096,
  "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32,
  "num_key_value_heads": 8, "vocab_size": 128256, "max_position_embeddings": 131072,
  "rms_norm_eps": 1e-05, "rope_theta": 500000.0, "tie_word_embeddings": false,
  "torch_dtype": "bfloat16", "hidden_act": "silu", "bos_token_id": 128000,
  "eos_token_id": [128001, 128008, 128009],
  "rope_scaling": {"factor": 8.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0,
                   "original_max_position_embeddings": 8192, "rope_type": "llama3"}})";

TEST_F(ModelCommand, InspectNeedsNoMoreThanConfigJson) {
  WriteConfig(kLlama31);
  const ToolRun run =
      RunTool({"model", "inspect", folder_, "--json", "--tokens", "1024", "--memory", "16GiB"});
  ASSERT_EQ(run.exit, 0) << run.err;
  const auto json = nlohmann::json::parse(run.out);
  // 128256 * 4096 * 2 embeddings, 32 layers of 218 112 000, and the last norm.
  EXPECT_EQ(json["parameters"], 8'030'261'248);
  EXPECT_EQ(json["weight_bytes"]["bfloat16"], 16'060'522'496);
  EXPECT_EQ(json["weight_bytes"]["float32"], 32'121'044'992);
  EXPECT_EQ(json["kv_bytes_per_token"], 131072);
  EXPECT_EQ(json["max_concurrency"], 128);  // 16 GiB of 128 MiB each
  EXPECT_EQ(json["eos_set"].size(), 3u);
  EXPECT_EQ(json["eos_set"][0]["id"], 128001);
  EXPECT_EQ(json["eos_set"][0]["sources"], nlohmann::json({"config.json"}));
  for (const char* key : {"activation_peak_bytes", "prefill_flops", "decode_step_flops"}) {
    EXPECT_GT(json[key].get<double>(), 0) << key;
  }
}

TEST_F(ModelCommand, InspectSaysTheSameInWords) {
  WriteConfig(kLlama31);
  const ToolRun run = RunTool({"model", "inspect", folder_});
  EXPECT_EQ(run.exit, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("LlamaForCausalLM, 32 layers"));
  EXPECT_THAT(run.out, HasSubstr("131072 B"));
  EXPECT_THAT(run.out, HasSubstr("tokenizer.json         missing: it cannot be served"));
  EXPECT_THAT(run.out, HasSubstr("model.safetensors      missing: it cannot be served"));
}

TEST_F(ModelCommand, InspectCountsInTheAskedDtype) {
  WriteConfig(kLlama31);
  const ToolRun run = RunTool({"model", "inspect", folder_, "--json", "--kv-dtype", "float32"});
  EXPECT_EQ(nlohmann::json::parse(run.out)["kv_bytes_per_token"], 2 * 131072);
}

TEST_F(ModelCommand, InspectRefusesWhatItCannotRead) {
  EXPECT_EQ(RunTool({"model", "inspect", folder_}).exit, 3);
  WriteConfig(R"({"architectures": ["MambaForCausalLM"], "model_type": "mamba"})");
  const ToolRun run = RunTool({"model", "inspect", folder_});
  EXPECT_EQ(run.exit, 3);
  EXPECT_THAT(run.err, HasSubstr("MambaForCausalLM"));
  EXPECT_THAT(run.err, HasSubstr("LlamaForCausalLM"));
  EXPECT_EQ(RunTool({"model", "inspect"}).exit, 2);
  EXPECT_EQ(RunTool({"model", "inspect", folder_, "--memory", "lots"}).exit, 2);
}

TEST_F(ModelCommand, MakeRandomWritesAModelThatInspects) {
  const ToolRun made = RunTool({"model", "make-random", folder_,   "--arch",  "qwen3", "--layers",
                                "2",     "--hidden",    "64",      "--heads", "4",     "--kv-heads",
                                "2",     "--head-dim",  "16",      "--ffn",   "96",    "--vocab",
                                "300",   "--dtype",     "float32", "--seed",  "5"});
  ASSERT_EQ(made.exit, 0) << made.err;
  for (const char* file : {"config.json", "tokenizer.json", "model.safetensors"}) {
    EXPECT_TRUE(std::filesystem::exists(folder_ + "/" + file)) << file;
  }
  const ToolRun run = RunTool({"model", "inspect", folder_, "--json"});
  ASSERT_EQ(run.exit, 0) << run.err;
  const auto json = nlohmann::json::parse(run.out);
  EXPECT_EQ(json["kv_bytes_per_token"], 2 * 2 * 2 * 16 * 4);
  EXPECT_FALSE(json["eos_set"].empty());
  EXPECT_THAT(RunTool({"model", "inspect", folder_}).out, Not(HasSubstr("missing")));
}

TEST_F(ModelCommand, InspectReckonsInTheTypeThatAWorkerChooses) {
  ASSERT_EQ(RunTool({"model", "make-random", folder_, "--dtype", "float32"}).exit, 0);
  const auto costs = [&](const std::vector<std::string>& more = {}) {
    std::vector<std::string> words = {"model", "inspect", folder_, "--json"};
    words.insert(words.end(), more.begin(), more.end());
    const auto json = nlohmann::json::parse(RunTool(words).out);
    return std::pair(json["kv_bytes_per_token"].get<int64_t>(),
                     json["activation_peak_bytes"].get<int64_t>());
  };
  const auto told = costs();
  std::ifstream config(folder_ + "/config.json");
  auto json = nlohmann::json::parse(config);
  json.erase("torch_dtype");
  WriteConfig(json.dump());
  EXPECT_EQ(costs(), told) << "the weights say it, too";
  EXPECT_EQ(costs({"--dtype", "bfloat16"}).first, told.first / 2);
  std::filesystem::remove(folder_ + "/model.safetensors");
  EXPECT_EQ(costs().first, told.first / 2) << "nothing says it";
}

TEST_F(ModelCommand, InspectSaysWhyWeightsWillNotLoad) {
  ASSERT_EQ(RunTool({"model", "make-random", folder_}).exit, 0);
  EXPECT_EQ(nlohmann::json::parse(RunTool({"model", "inspect", folder_, "--json"}).out)["unusable"],
            "");
  std::ifstream config(folder_ + "/config.json");
  auto json = nlohmann::json::parse(config);
  json["num_hidden_layers"] = json["num_hidden_layers"].get<int>() + 1;
  std::ofstream(folder_ + "/config.json") << json;
  const ToolRun run = RunTool({"model", "inspect", folder_});
  EXPECT_EQ(run.exit, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("cannot be served: "));
  EXPECT_THAT(run.out, HasSubstr("model.layers.2."));
  const ToolRun told = RunTool({"model", "inspect", folder_, "--json"});
  EXPECT_THAT(nlohmann::json::parse(told.out)["unusable"].get<std::string>(),
              HasSubstr("model.layers.2."));
}

TEST_F(ModelCommand, InspectSaysOfWeightsWhereALinkToNothingLeads) {
  ASSERT_EQ(RunTool({"model", "make-random", folder_}).exit, 0);
  std::filesystem::remove(folder_ + "/model.safetensors");
  std::filesystem::create_symlink("../blobs/5d0a", folder_ + "/model.safetensors");
  EXPECT_THAT(RunTool({"model", "inspect", folder_}).out, HasSubstr("is a link to ../blobs/5d0a"));
}

TEST_F(ModelCommand, QuantizeWritesAModelWhoseErrorsInspectTellsAgain) {
  ASSERT_EQ(RunTool({"model", "make-random", folder_}).exit, 0);
  const std::string out = scratch_ / "w4";
  const ToolRun made =
      RunTool({"model", "quantize", folder_, out, "--scheme", "w4", "--group", "64"});
  ASSERT_EQ(made.exit, 0) << made.err;
  EXPECT_THAT(made.out, HasSubstr("model.layers.1.mlp.up_proj.weight"));
  const ToolRun run = RunTool({"model", "inspect", out, "--json", "--original", folder_});
  ASSERT_EQ(run.exit, 0) << run.err;
  const auto json = nlohmann::json::parse(run.out);
  // Seven projections of each of two layers; embeddings, output projection and five norms are left.
  EXPECT_EQ(json["stored"]["w4g64"]["weights"], 14);
  EXPECT_EQ(json["stored"]["BF16"]["weights"], 7);
  EXPECT_LT(json["weight_bytes"]["w4g64"], json["weight_bytes"]["bfloat16"]);
  EXPECT_EQ(json["relative_errors"].size(), 14u);
  const double error = json["relative_errors"]["model.layers.1.mlp.up_proj.weight"];
  EXPECT_GT(error, 0.03);
  EXPECT_LT(error, 0.12);
  EXPECT_THAT(RunTool({"model", "inspect", out}).out, HasSubstr("stored as w4g64"));
  RenameInConfig(out, "quantization_config", "compression_config");
  EXPECT_THAT(RunTool({"model", "inspect", out}).out, HasSubstr("stored as w4g64"));

  const ToolRun worse = RunTool({"model", "quantize", folder_, scratch_ / "rtn", "--group", "64",
                                 "--method", "nearest", "--scheme", "w4"});
  ASSERT_EQ(worse.exit, 0) << worse.err;
  const auto again = nlohmann::json::parse(
      RunTool({"model", "inspect", scratch_ / "rtn", "--json", "--original", folder_}).out);
  EXPECT_GT(again["relative_errors"]["model.layers.1.mlp.up_proj.weight"].get<double>(), error);
}

TEST_F(ModelCommand, QuantizeRoundsTheOutputProjectionWhereAsked) {
  ASSERT_EQ(RunTool({"model", "make-random", folder_}).exit, 0);
  const std::string out = scratch_ / "w4";
  const ToolRun made = RunTool({"model", "quantize", folder_, out, "--lm-head", "w8"});
  ASSERT_EQ(made.exit, 0) << made.err;
  EXPECT_THAT(made.out, HasSubstr("lm_head.weight"));
  const auto json = nlohmann::json::parse(
      RunTool({"model", "inspect", out, "--json", "--original", folder_}).out);
  EXPECT_EQ(json["stored"]["w4g32"]["weights"], 14);
  EXPECT_EQ(json["stored"]["w8g32"]["weights"], 1);
  EXPECT_EQ(json["weights"]["lm_head.weight"]["kind"], "w8g32");
  EXPECT_LT(json["relative_errors"]["lm_head.weight"].get<double>(), 0.008);
  // 258 rows of 64 columns: a byte each, and two scales for each row, in place of two bytes each.
  ASSERT_EQ(RunTool({"model", "quantize", folder_, scratch_ / "kept"}).exit, 0);
  const auto kept =
      nlohmann::json::parse(RunTool({"model", "inspect", scratch_ / "kept", "--json"}).out);
  EXPECT_EQ(kept["weight_bytes"]["w4g32"].get<int64_t>() -
                json["weight_bytes"]["w4g32+w8g32"].get<int64_t>(),
            258 * (64 - 4));
  const ToolRun refused =
      RunTool({"model", "quantize", folder_, scratch_ / "x", "--scheme", "fp8", "--lm-head", "w8"});
  EXPECT_EQ(refused.exit, 2);
  EXPECT_THAT(refused.err, HasSubstr("--lm-head w8 with --scheme fp8"));
}

TEST_F(ModelCommand, InspectTellsSizesAndErrorsOfLayers) {
  ASSERT_EQ(RunTool({"model", "make-random", folder_}).exit, 0);
  const std::string out = scratch_ / "w4";
  ASSERT_EQ(RunTool({"model", "quantize", folder_, out, "--scheme", "w4", "--group", "32"}).exit,
            0);
  const std::string up = "model.layers.1.mlp.up_proj.weight";
  // 128 x 64 codes of half a byte, a scale of 2 bytes for 32 of them, and what says the shape.
  const int bytes = 128 * 64 / 2 + 128 * 2 * 2 + 16;
  const ToolRun run = RunTool({"model", "inspect", out, "--json", "--original", folder_});
  const auto json = nlohmann::json::parse(run.out);
  EXPECT_EQ(json["weights"][up]["kind"], "w4g32");
  EXPECT_EQ(json["weights"][up]["bytes"], bytes);
  EXPECT_EQ(json["weights"][up]["relative_error"], json["relative_errors"][up]);
  EXPECT_EQ(json["weights"]["model.norm.weight"],
            nlohmann::json({{"kind", "BF16"}, {"bytes", 128}}));
  int64_t sum = 0;
  for (const auto& weight : json["weights"]) sum += weight["bytes"].get<int64_t>();
  EXPECT_EQ(sum, json["stored"]["w4g32"]["bytes"].get<int64_t>() +
                     json["stored"]["BF16"]["bytes"].get<int64_t>());

  const std::string errors = RunTool({"model", "inspect", out, "--original", folder_}).out;
  EXPECT_THAT(errors, HasSubstr(absl::StrCat(" % ", up, " (w4g32, ", bytes, " B)\n")));
  EXPECT_THAT(errors, Not(HasSubstr("layer 0 ")));

  const std::string layers = RunTool({"model", "inspect", out, "--by-layer"}).out;
  for (const char* line :
       {"\nlayer 0                BF16 256 B, w4g32 ",
        "\nlayer 1                BF16 256 B, w4g32 ", "\nno layer               BF16 "}) {
    EXPECT_THAT(layers, HasSubstr(line));
  }
  EXPECT_THAT(layers, Not(HasSubstr("error")));
  EXPECT_EQ(RunTool({"model", "inspect", out, "--by-layer", "--json"}).exit, 2);
  const std::string both =
      RunTool({"model", "inspect", out, "--by-layer", "--original", folder_}).out;
  EXPECT_THAT(both, ContainsRegex("layer 1  .*w4g32 [0-9]+ B, error [0-9.]+ to [0-9.]+ %\n"));
  EXPECT_THAT(both, Not(HasSubstr(up)));
}

TEST_F(ModelCommand, QuantizesToFp8AndSaysWhatACpuMakesOfIt) {
  ASSERT_EQ(RunTool({"model", "make-random", folder_}).exit, 0);
  const std::string out = scratch_ / "fp8";
  const ToolRun made = RunTool({"model", "quantize", folder_, out, "--scheme", "fp8"});
  ASSERT_EQ(made.exit, 0) << made.err;
  const ToolRun run = RunTool({"model", "inspect", out, "--json", "--original", folder_});
  ASSERT_EQ(run.exit, 0) << run.err;
  const auto json = nlohmann::json::parse(run.out);
  EXPECT_EQ(json["stored"]["fp8"]["weights"], 14);
  EXPECT_LT(json["weight_bytes"]["fp8"], json["weight_bytes"]["bfloat16"]);
  const double error = json["relative_errors"]["model.layers.1.mlp.up_proj.weight"];
  EXPECT_GT(error, 0.01);
  EXPECT_LT(error, 0.04);
  ASSERT_EQ(json["remarks"].size(), 1u);
  EXPECT_THAT(RunTool({"model", "inspect", out}).out,
              testing::AllOf(HasSubstr("stored as fp8"),
                             HasSubstr("projections of e4m3 become floats of --dtype")));
  for (const auto& [flag, value] :
       {std::pair("--group", "64"), {"--method", "nearest"}, {"--method", "search"}}) {
    const ToolRun refused =
        RunTool({"model", "quantize", folder_, scratch_ / "x", "--scheme", "fp8", flag, value});
    EXPECT_EQ(refused.exit, 2);
    EXPECT_THAT(refused.err, HasSubstr("with --scheme fp8"));
  }
}

TEST_F(ModelCommand, QuantizeRefusesWhatItCannotDo) {
  EXPECT_EQ(RunTool({"model", "quantize", folder_}).exit, 2);
  ASSERT_EQ(RunTool({"model", "make-random", folder_}).exit, 0);
  EXPECT_EQ(RunTool({"model", "quantize", folder_, scratch_ / "x", "--scheme", "w2"}).exit, 2);
  EXPECT_EQ(RunTool({"model", "quantize", folder_, scratch_ / "x", "--group", "48"}).exit, 2);
  const ToolRun wide = RunTool({"model", "quantize", folder_, scratch_ / "x", "--group", "128"});
  EXPECT_EQ(wide.exit, 3);
  EXPECT_THAT(wide.err, HasSubstr("64 columns"));
  const ToolRun there = RunTool({"model", "quantize", folder_, folder_, "--group", "32"});
  EXPECT_EQ(there.exit, 3);
  EXPECT_THAT(there.err, HasSubstr("is there already"));
  EXPECT_EQ(RunTool({"model", "inspect", folder_, "--original", folder_}).exit, 2);
}

TEST_F(ModelCommand, MakeRandomRefusesBadShapesAndFullFolders) {
  EXPECT_EQ(RunTool({"model", "make-random"}).exit, 2);
  EXPECT_EQ(RunTool({"model", "make-random", folder_, "--arch", "gpt2"}).exit, 2);
  EXPECT_EQ(RunTool({"model", "make-random", folder_, "--heads", "3", "--kv-heads", "2"}).exit, 2);
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/model.safetensors"));
  WriteConfig("{}");
  const ToolRun full = RunTool({"model", "make-random", folder_});
  EXPECT_EQ(full.exit, 2);
  EXPECT_THAT(full.err, HasSubstr("is not an empty directory; name a new one"));
}

}  // namespace
}  // namespace baton
