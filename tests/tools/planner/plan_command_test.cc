#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "nlohmann/json.hpp"
#include "tests/tools/eos/log_files.h"
#include "tests/tools/run_tool.h"

namespace baton {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// The shape of an 8B Llama.
constexpr char kConfig[] = R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama",
  "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
  "intermediate_size": 14336, "vocab_size": 128256, "max_position_embeddings": 8192,
  "rms_norm_eps": 1e-05, "rope_theta": 500000.0, "tie_word_embeddings": false,
  "torch_dtype": "bfloat16", "eos_token_id": 128001})";

class PlanCommandTest : public LogFilesTest {
 protected:
  PlanCommandTest() { File("config.json", kConfig); }

  ToolRun Plan(Arguments arguments, const std::string& hardware = "h100-sxm-80gb") const {
    const Arguments front = {"plan", folder_.path(), "--hardware",
                             BATON_SOURCE_DIR "/deploy/hardware/" + hardware + ".json"};
    arguments.insert(arguments.begin(), front.begin(), front.end());
    return RunTool(arguments);
  }
};

TEST_F(PlanCommandTest, SaysWhatToStartAndHowToCheckIt) {
  const ToolRun run = Plan({"--rate", "4", "--input-tokens", "200:400", "--output-tokens", "50:100",
                            "--slo", "ttft=1s,tpot=40ms"});
  EXPECT_EQ(run.exit, 0) << run.err;
  EXPECT_THAT(
      run.out,
      AllOf(HasSubstr("Plan: 1 device: 1 unified worker"), HasSubstr("weights 16.06"),
            HasSubstr("J per output token"), HasSubstr("What bounds it: "),
            HasSubstr("baton serve " + folder_.path() + " --mode unified --decode 1 --device cuda"),
            HasSubstr("baton bench --rate 4 --input-tokens 200:400 --output-tokens 50:100"),
            HasSubstr("--slo ttft=1s,tpot=40ms --runs 3 --seed 1")));
}

TEST_F(PlanCommandTest, EqualQuestionsGiveEqualBytes) {
  const Arguments asked = {
      "--rate",     "30",    "--input-tokens",         "1000",   "--output-tokens",
      "100",        "--slo", "ttft=500ms,tpot=30ms",   "--runs", "2",
      "--requests", "400",   "--tensor-parallel-size", "1",      "--json"};
  const ToolRun run = Plan(asked);
  EXPECT_EQ(run.exit, 0) << run.err;
  EXPECT_EQ(run.out, Plan(asked).out);
  const auto json = nlohmann::json::parse(run.out);
  EXPECT_EQ(json["schema"], "baton.plan/1");
  EXPECT_EQ(json["question"]["rate"], "30");
  EXPECT_TRUE(json["complete"]);
  const auto& plan = json["plan"];
  EXPECT_TRUE(plan["keeps"]);
  EXPECT_GE(plan["worst_good_share"], 0.99);
  EXPECT_NEAR(plan["weight_bytes"].get<double>(), 16.06e9, 0.01e9);
  // 2 · 32 layers · 8 heads · 128 · 2 bytes
  EXPECT_NEAR(plan["kv_cache_bytes"].get<double>() / plan["kv_cache_tokens"].get<double>(), 131072,
              1);
  EXPECT_LE(plan["limits"][0]["at_percentile_ms"], 500);
  EXPECT_GT(plan["expected"]["joules_per_output_token"], 0);
  EXPECT_EQ(plan["devices"], plan["prefill"].get<int>() + plan["decode"].get<int>());
}

TEST_F(PlanCommandTest, OneUserGetsTheDevicesThatTheLimitNeeds) {
  const Arguments asked = {"--concurrency",   "1",  "--input-tokens", "500",
                           "--output-tokens", "50", "--requests",     "20",
                           "--runs",          "1",  "--slo"};
  const auto ranks = [&](const std::string& slo) {
    Arguments arguments = asked;
    arguments.insert(arguments.end(), {slo, "--json"});
    return nlohmann::json::parse(Plan(arguments, "l4").out)["plan"]["tensor_parallel_size"];
  };
  EXPECT_EQ(ranks("tpot=80ms"), 1);
  EXPECT_EQ(ranks("tpot=40ms"), 2);
  EXPECT_EQ(ranks("tpot=25ms"), 4);
}

TEST_F(PlanCommandTest, AClosedLoopOfATimeIsPlannedAndCheckedForThatTime) {
  const Arguments asked = {"--concurrency",   "4",         "--input-tokens", "500",
                           "--output-tokens", "50",        "--duration",     "20s",
                           "--slo",           "tpot=80ms", "--runs",         "1"};
  const ToolRun run = Plan(asked);
  EXPECT_EQ(run.exit, 0) << run.err;
  EXPECT_THAT(run.out, AllOf(HasSubstr("50 answer tokens, for 20s\n"),
                             HasSubstr("--output-tokens 50 --duration 20s")));
  // As many as come in that time: four at once take a second each.
  Arguments as_json = asked;
  as_json.push_back("--json");
  const auto plan = nlohmann::json::parse(Plan(as_json).out)["plan"];
  EXPECT_GT(plan["expected"]["request_throughput"], 1);
  Arguments few = asked;
  few.insert(few.end(), {"--requests", "12"});
  EXPECT_THAT(Plan(few).out, AllOf(HasSubstr("50 answer tokens, 12 requests\n"),
                                   HasSubstr("--output-tokens 50 --requests 12")));
}

TEST_F(PlanCommandTest, EndsWithOneAndSaysWhyWhenNothingKeepsTheLimits) {
  const Arguments load = {"--input-tokens", "500", "--output-tokens", "50"};
  const auto ask = [&](const Arguments& more, const std::string& hardware) {
    Arguments arguments = load;
    arguments.insert(arguments.end(), more.begin(), more.end());
    const ToolRun run = Plan(arguments, hardware);
    EXPECT_EQ(run.exit, 1) << run.err;
    return run.out;
  };
  EXPECT_THAT(ask({"--rate", "5", "--slo", "tpot=1ms"}, "l4"),
              AllOf(HasSubstr("No plan keeps the SLO"), HasSubstr("meets nobody"),
                    HasSubstr("would be kept"), Not(HasSubstr("baton serve"))));
  EXPECT_THAT(
      ask({"--rate", "5", "--slo", "ttft=1s", "--dtype", "float32", "--tensor-parallel-size", "1"},
          "l4"),
      AllOf(HasSubstr("leave nothing"), HasSubstr("devices with more memory")));
  EXPECT_THAT(ask({"--rate", "40", "--slo", "ttft=1s,tpot=120ms", "--max-devices", "1"}, "l4"),
              AllOf(HasSubstr("The load needs at least"), HasSubstr("Nearest: 1 device"),
                    HasSubstr(" ms are allowed"), HasSubstr("What would do: "),
                    HasSubstr("% of the load"), Not(HasSubstr("limits of"))));
  EXPECT_THAT(ask({"--rate", "1.5", "--slo", "ttft=1s,tpot=75ms", "--max-devices", "1"}, "l4"),
              HasSubstr("What would do: limits of about ttft="));
}

TEST_F(PlanCommandTest, ReckonsInTheTypeThatAWorkerChooses) {
  const std::string model = folder_ / "model";
  ASSERT_EQ(RunTool({"model", "make-random", model, "--dtype", "float32"}).exit, 0);
  const auto weights = [&] {
    const ToolRun run =
        RunTool({"plan", model, "--hardware", BATON_SOURCE_DIR "/deploy/hardware/l4.json", "--rate",
                 "1", "--input-tokens", "16", "--output-tokens", "16", "--requests", "20", "--runs",
                 "1", "--slo", "e2e=1h", "--json"});
    EXPECT_EQ(run.exit, 0) << run.err;
    return nlohmann::json::parse(run.out)["plan"]["weight_bytes"].get<double>();
  };
  const double told = weights();
  std::ifstream file(model + "/config.json");
  auto config = nlohmann::json::parse(file);
  config.erase("torch_dtype");
  std::ofstream(model + "/config.json") << config;
  EXPECT_EQ(weights(), told) << "the weights say it, too";
}

TEST_F(PlanCommandTest, TracesArePlannedFor) {
  const std::string trace = File("azure.csv",
                                 "TIMESTAMP,ContextTokens,GeneratedTokens\n"
                                 "2023-11-16 18:15:46.6805900,374,44\n"
                                 "2023-11-16 18:15:50.9951690,396,109\n");
  const ToolRun run = Plan({"--trace", trace, "--slo", "ttft=1s"});
  EXPECT_EQ(run.exit, 0) << run.err;
  EXPECT_THAT(run.out, AllOf(HasSubstr("its first 2 requests"), HasSubstr("--trace " + trace)));
}

TEST_F(PlanCommandTest, TheBenchOfATraceSendsItsPromptsAsPlanned) {
  const std::string trace =
      File("mooncake.jsonl",
           R"({"timestamp": 0, "input_length": 64, "output_length": 5, "hash_ids": [1, 2, 3, 4]})"
           "\n"
           R"({"timestamp": 900, "input_length": 64, "output_length": 5, "hash_ids": [1, 3]})"
           "\n");
  const ToolRun run = Plan({"--trace", trace, "--trace-block-tokens", "16",
                            "--shared-prefix-tokens", "8", "--slo", "ttft=1s"});
  EXPECT_EQ(run.exit, 0) << run.err;
  EXPECT_THAT(run.out,
              AllOf(HasSubstr("baton bench --trace " + trace), HasSubstr("--trace-block-tokens 16"),
                    HasSubstr("--shared-prefix-tokens 8"), HasSubstr("--requests 2")));
  const std::string plain = File(
      "plain.csv", "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n");
  EXPECT_THAT(Plan({"--trace", plain, "--slo", "ttft=1s"}).out,
              AllOf(HasSubstr("baton bench --trace " + plain), Not(HasSubstr("-block-tokens")),
                    Not(HasSubstr("-prefix-tokens"))));
}

TEST_F(PlanCommandTest, AWarmUpThatLeavesNobodyToJudgeIsAUsageError) {
  const std::string trace = File("azure.csv",
                                 "TIMESTAMP,ContextTokens,GeneratedTokens\n"
                                 "2023-11-16 18:15:46.6805900,374,44\n"
                                 "2023-11-16 18:15:50.9951690,396,109\n");
  const std::vector<Arguments> loads = {
      {"--trace", trace, "--warmup", "5s", "--slo", "ttft=1s"},
      {"--trace", trace, "--warmup", "5s", "--slo", "ttft=1ms"},
      // A closed loop shows only in the simulation how soon its requests are used up.
      {"--concurrency", "4", "--requests", "8", "--warmup", "1h", "--runs", "1", "--slo",
       "ttft=1s"}};
  for (const Arguments& load : loads) {
    const ToolRun run = Plan(load);
    EXPECT_EQ(run.exit, 2) << run.out;
    EXPECT_EQ(run.out, "");
    EXPECT_THAT(run.err, AllOf(HasSubstr("--warmup"), HasSubstr("no request came after it")));
  }
  EXPECT_EQ(Plan({"--trace", trace, "--warmup", "4s", "--slo", "ttft=1s"}).exit, 0);
}

TEST_F(PlanCommandTest, CommandsAreAsAShellReadsThem) {
  const std::string model = Path("my --model's");
  std::filesystem::create_directory(model);
  std::filesystem::copy_file(Path("config.json"), model + "/config.json");
  const ToolRun run = RunTool({"plan", model, "--rate", "4", "--input-tokens", "200:400",
                               "--output-tokens", "50:100", "--slo", "ttft=1s", "--hardware",
                               BATON_SOURCE_DIR "/deploy/hardware/h100-sxm-80gb.json"});
  EXPECT_EQ(run.exit, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("  baton serve '" + folder_.path() +
                                 R"(/my --model'\''s' --mode unified --decode 1)"));
}

TEST_F(PlanCommandTest, RefusesWhatItWouldNotFollow) {
  const auto error = [&](const Arguments& more) {
    Arguments arguments = {"--slo", "ttft=1s"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const ToolRun run = Plan(arguments);
    EXPECT_EQ(run.exit, 2) << run.out;
    return run.err;
  };
  EXPECT_THAT(error({"--concurrency", "4", "--burstiness", "0.1"}), HasSubstr("without --rate"));
  EXPECT_THAT(error({"--rate", "4", "--time-scale", "2"}), HasSubstr("without --trace"));
  EXPECT_THAT(error({"--rate", "4", "--trace-block-tokens", "9"}), HasSubstr("without --trace"));
  EXPECT_THAT(error({"--rate", "4", "--slo", "foo=1s"}), HasSubstr("expected ttft, tpot or e2e"));
  EXPECT_THAT(error({"--rate", "4", "--class-boundary", "9"}), HasSubstr("no such flag"));
  EXPECT_THAT(error({"--rate", "4", "--shared-prefixes", "9"}), HasSubstr("no such flag"));
  EXPECT_THAT(error({"--rate", "4", "--shared-prefix-skew", "1"}), HasSubstr("no such flag"));
  EXPECT_THAT(error({"--rate", "4", "--tensor-parallel-size", "3"}), HasSubstr("a power of two"));
  EXPECT_THAT(error({"--rate", "4", "--tensor-parallel-size", "64"}), HasSubstr("a machine has 8"));
}

TEST_F(PlanCommandTest, RefusesToQuantizeSmallIntegersAgain) {
  for (const char* key : {"quantization_config", "compression_config"}) {
    nlohmann::json config = nlohmann::json::parse(kConfig);
    config[key] = {{"quant_method", "awq"}, {"bits", 4}, {"group_size", 128}};
    File("config.json", config.dump());
    const Arguments asked = {"--rate",          "4",      "--input-tokens", "200:400",
                             "--output-tokens", "50:100", "--slo",          "ttft=1s"};
    EXPECT_EQ(Plan(asked).exit, 0);
    Arguments again = asked;
    again.insert(again.end(), {"--quantization", "fp8"});
    const ToolRun run = Plan(again);
    EXPECT_EQ(run.exit, 2) << run.out;
    EXPECT_THAT(run.err, AllOf(HasSubstr("--quantization fp8 with a checkpoint whose weights are"),
                               HasSubstr("w4g128 of awq")));
  }
}

TEST_F(PlanCommandTest, RefusesWhatItCannotAnswer) {
  const auto error = [&](const Arguments& arguments, int exit = 2) {
    const ToolRun run = Plan(arguments);
    EXPECT_EQ(run.exit, exit) << run.out;
    return run.err;
  };
  EXPECT_THAT(error({"--slo", "ttft=1s"}), HasSubstr("--rate, --concurrency and --trace"));
  EXPECT_THAT(error({"--rate", "5"}), HasSubstr("--slo"));
  EXPECT_THAT(error({"--rate", "5", "--slo", "itl=5ms"}), HasSubstr("itl"));
  EXPECT_THAT(error({"--rate", "5", "--slo", "ttft=1s", "--shared-prefix-tokens", "8",
                     "--shared-prefixes", "9"}),
              HasSubstr("--shared-prefixes"))
      << "it would be planned as if all had the same";
  EXPECT_THAT(error({"--rate", "5", "--slo", "ttft=1s", "--input-tokens", "64",
                     "--shared-prefix-tokens", "64"}),
              HasSubstr("a number below 64"));
  EXPECT_THAT(error({"--rate", "5", "--slo", "ttft=1s", "--input-tokens", "soon"}),
              HasSubstr("soon"));
  EXPECT_THAT(error({"--rate", "5", "--slo", "ttft=1s", "--max-model-len", "9000"}),
              HasSubstr("8192"));
  EXPECT_THAT(error({"--trace", "x", "--slo", "ttft=1s", "--input-tokens", "5"}),
              HasSubstr("own lengths"));
  const auto with = [&](const std::string& hardware) {
    return RunTool(
        {"plan", folder_.path(), "--rate", "5", "--slo", "ttft=1s", "--hardware", hardware});
  };
  EXPECT_THAT(with(Path("absent")).err, HasSubstr("cannot read the hardware file"));
  EXPECT_EQ(with(Path("absent")).exit, 2);
  EXPECT_THAT(with(File("empty.json", "")).err, HasSubstr("baton.hardware/1"));
  EXPECT_THAT(with(folder_.path()).err, HasSubstr("expected a file"));
  EXPECT_THAT(with(File("bad.json", "{}")).err, HasSubstr("baton.hardware/1"));
  EXPECT_EQ(with(Path("bad.json")).exit, 2);
  EXPECT_EQ(RunTool({"plan", Path("nowhere"), "--rate", "5", "--slo", "ttft=1s", "--hardware",
                     Path("bad.json")})
                .exit,
            3);
}

}  // namespace
}  // namespace baton
