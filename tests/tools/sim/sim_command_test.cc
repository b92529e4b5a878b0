#include "tests/tools/sim/sim_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "nlohmann/json.hpp"
#include "tests/tools/eos/eos_rows.h"
#include "tools/sim/step_cost.h"

namespace baton {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST_F(SimCommandTest, SaysWhatWasAskedAndWhatCameOfIt) {
  const auto json = Json({"--rate", "20", "--requests", "50", "--input-tokens", "100",
                          "--output-tokens", "20", "--slo", "ttft=1s,tpot=100ms", "--runs", "2"});
  EXPECT_EQ(json["schema"], "baton.sim/1");
  EXPECT_EQ(json["setup"]["rate"], "20");
  EXPECT_EQ(json["setup"]["max-num-seqs"], "64");
  ASSERT_EQ(json["policies"].size(), 1U);
  EXPECT_EQ(json["policies"][0]["policy"], "fcfs");
  const auto& runs = json["policies"][0]["runs"];
  ASSERT_EQ(runs.size(), 2U);
  EXPECT_EQ(runs[0]["seed"], 1);
  EXPECT_EQ(runs[1]["seed"], 2);
  EXPECT_EQ(runs[0]["completed"], 50);
  EXPECT_EQ(runs[0]["ttft_ms"]["count"], 50);
  EXPECT_GT(runs[0]["tpot_ms"]["mean"], 1.0);
  EXPECT_EQ(runs[0]["goodput_share"], 1.0);
  EXPECT_NE(runs[0]["ttft_ms"]["mean"], runs[1]["ttft_ms"]["mean"]);
}

TEST_F(SimCommandTest, SaysHowLatenciesAreSpreadAndWhatWasSoOverTime) {
  const auto json = Json({"--rate", "200", "--requests", "300", "--input-tokens", "100",
                          "--output-tokens", "20", "--max-num-seqs", "4", "--decode", "2"});
  const auto run = json["policies"][0]["runs"][0];
  const std::vector<double> shares = json["shares"], at = run["ttft_ms"]["at"];
  ASSERT_EQ(at.size(), shares.size());
  EXPECT_TRUE(std::ranges::is_sorted(shares) && std::ranges::is_sorted(at));
  for (size_t i = 0; i < shares.size(); ++i) {
    const char* name = shares[i] == 0.5 ? "p50" : shares[i] == 0.99 ? "p99" : nullptr;
    if (name != nullptr) {
      EXPECT_NEAR(at[i], run["ttft_ms"][name], 1e-3);
    }
  }
  const auto& over_time = run["over_time"];
  const std::vector<double> use = over_time["kv_use"], waiting = over_time["waiting"];
  ASSERT_EQ(use.size(), waiting.size());
  ASSERT_GT(use.size(), 32U);
  EXPECT_LE(use.size(), 128U);
  EXPECT_GT(std::ranges::max(use), 0);
  EXPECT_LE(std::ranges::max(use), 1);
  // All waiting together is all times to first tokens together, but for what the last span lacks.
  const double waited =
      std::accumulate(waiting.begin(), waiting.end(), 0.0) * over_time["every_s"].get<double>();
  const double sum = 300 * run["ttft_ms"]["mean"].get<double>() / 1000;
  EXPECT_NEAR(waited, sum, 0.02 * sum);
}

TEST_F(SimCommandTest, EqualSettingsGiveEqualBytes) {
  const Arguments asked = {"--rate", "40",        "--requests", "80",        "--decode",
                           "2",      "--prefill", "1",          "--routers", "2"};
  EXPECT_EQ(Sim(asked).out, Sim(asked).out);
  EXPECT_THAT(Sim(asked).out, AllOf(HasSubstr("fcfs"), HasSubstr("TTFT P99"),
                                    HasSubstr("wasted work, %"), HasSubstr("KV use P95, %")));
}

TEST_F(SimCommandTest, AClosedLoopTakesTheTimeThatItIsGiven) {
  const auto figures = [&](const Arguments& more) {
    Arguments asked = {"--concurrency", "8", "--input-tokens", "100", "--output-tokens", "50"};
    asked.insert(asked.end(), more.begin(), more.end());
    return Json(asked)["policies"][0]["runs"][0];
  };
  const auto run = figures({"--duration", "5s"});
  EXPECT_GT(run["duration_s"], 4.9);
  EXPECT_LT(run["duration_s"], 5.3) << "5 s, and what was under way then";
  // The time counts from the end of the warm-up.
  const auto warmed = figures({"--duration", "5s", "--warmup", "3s"});
  EXPECT_NEAR(warmed["duration_s"], 5.1, 0.3);
  EXPECT_NEAR(warmed["completed"], run["completed"], 0.1 * run["completed"].get<double>());
  EXPECT_EQ(figures({"--duration", "5s", "--requests", "30"})["completed"], 30);
  EXPECT_LT(figures({"--duration", "1s", "--requests", "1000"})["completed"], 200);
}

TEST_F(SimCommandTest, TellsOfAClosedLoopThatUsesItsRequestsUp) {
  const std::string fast =
      File("fast.json", simulator::CostJson({.step = 10, .prompt_token = 1}, "a test"));
  const Arguments asked = {"sim", "--step-cost",     fast, "--concurrency", "1", "--duration",
                           "2s",  "--message-ms",    "0",  "--runs",        "2", "--input-tokens",
                           "1",   "--output-tokens", "1"};
  const ToolRun run = RunTool(asked);
  EXPECT_EQ(run.exit, 0) << run.err;
  EXPECT_THAT(run.err, HasSubstr("all 8000 requests that were planned came before --duration"));
  EXPECT_EQ(std::ranges::count(run.err, '\n'), 1) << run.err;
}

TEST_F(SimCommandTest, ReplaysTraces) {
  const std::string azure = File("azure.csv",
                                 "TIMESTAMP,ContextTokens,GeneratedTokens\n"
                                 "2023-11-16 18:15:46.6805900,374,44\n"
                                 "2023-11-16 18:15:50.9951690,396,109\n");
  auto run = Json({"--trace", azure})["policies"][0]["runs"][0];
  EXPECT_EQ(run["completed"], 2);
  EXPECT_EQ(run["tokens_fed"], 374 + 43 + 396 + 108);
  const std::string mooncake =
      File("mooncake.jsonl",
           R"({"timestamp": 0, "input_length": 64, "output_length": 5, "hash_ids": [1, 2]})"
           "\n"
           R"({"timestamp": 900, "input_length": 64, "output_length": 5, "hash_ids": [1, 3]})"
           "\n");
  run = Json({"--trace", mooncake, "--trace-block-tokens", "32"})["policies"][0]["runs"][0];
  EXPECT_EQ(run["prefix_hits"], 32);
}

// A request of a trace, and by what name each token of its prompt goes: the hash id and the place
// in its block, or none that another prompt has.
struct TracedPrompt {
  std::vector<int> hash_ids;
  std::vector<std::pair<int, int>> tokens;
};

// Goes on where an earlier prompt was at some place, or begins anew; the last block may be cut off,
// and behind it may stand tokens that no hash id speaks of.
TracedPrompt DrawPrompt(const std::vector<TracedPrompt>& earlier, int hash_block,
                        std::mt19937* dice) {
  const auto below = [dice](size_t n) { return static_cast<size_t>((*dice)() % n); };
  const int number = static_cast<int>(earlier.size());
  TracedPrompt prompt;
  if (number > 0 && below(5) > 0) {
    const std::vector<int>& ids = earlier[below(earlier.size())].hash_ids;
    prompt.hash_ids.assign(ids.begin(), ids.begin() + static_cast<int>(below(ids.size() + 1)));
  }
  const size_t own = below(4) + (prompt.hash_ids.empty() ? 1 : 0);
  for (size_t i = 0; i < own; ++i) {
    prompt.hash_ids.push_back(1000 * (number + 1) + static_cast<int>(i));
  }
  for (const int id : prompt.hash_ids) {
    for (int at = 0; at < hash_block; ++at) prompt.tokens.emplace_back(id, at);
  }
  if (below(2) == 0) {
    prompt.tokens.resize(prompt.tokens.size() - below(static_cast<size_t>(hash_block)));
  } else {
    for (size_t i = below(100); i > 0; --i) prompt.tokens.emplace_back(-1 - number, 0);
  }
  return prompt;
}

// What a cache of whole blocks has of the prompt behind the earlier ones. The last token is always
// computed, for it draws the next.
int64_t TokensCached(const TracedPrompt& prompt, const std::vector<TracedPrompt>& earlier,
                     int64_t block) {
  int64_t most = 0;
  for (const TracedPrompt& other : earlier) {
    const auto apart = std::ranges::mismatch(prompt.tokens, other.tokens).in1;
    most = std::max<int64_t>(most, apart - prompt.tokens.begin());
  }
  return std::min(most, static_cast<int64_t>(prompt.tokens.size()) - 1) / block * block;
}

TEST_F(SimCommandTest, PrefixHitsFollowTheHashIdsOfATrace) {
  for (const int hash_block : {40, 64, 512}) {
    std::mt19937 dice(11);
    std::vector<TracedPrompt> prompts;
    std::string trace;
    int64_t hits = 0, tokens = 0;
    // So far apart that each request is over when the next one comes.
    for (int i = 0; i < 60; ++i) {
      TracedPrompt prompt = DrawPrompt(prompts, hash_block, &dice);
      trace += nlohmann::json{{"timestamp", 10'000 * i},
                              {"input_length", prompt.tokens.size()},
                              {"output_length", 3},
                              {"hash_ids", prompt.hash_ids}}
                   .dump() +
               "\n";
      hits += TokensCached(prompt, prompts, 16);
      tokens += static_cast<int64_t>(prompt.tokens.size()) + 2;
      prompts.push_back(std::move(prompt));
    }
    const auto json =
        Json({"--trace", File("shared.jsonl", trace), "--trace-block-tokens",
              std::to_string(hash_block), "--block-size", "16", "--kv-cache-tokens", "400000"});
    const auto& run = json["policies"][0]["runs"][0];
    EXPECT_EQ(run["completed"], 60) << hash_block;
    EXPECT_EQ(run["prefix_hits"], hits) << hash_block;
    EXPECT_EQ(run["tokens_fed"], tokens - hits) << hash_block;
    EXPECT_GT(hits, tokens / 10) << hash_block;
    EXPECT_LT(hits, tokens * 9 / 10) << hash_block;
  }
}

TEST_F(SimCommandTest, HostileTracesAreErrorsWithTheirLine) {
  const auto error = [&](const std::string& text) {
    const ToolRun run = Sim({"--trace", File("bad", text)});
    EXPECT_EQ(run.exit, 2);
    return run.err;
  };
  const std::string header = "TIMESTAMP,ContextTokens,GeneratedTokens\n";
  EXPECT_THAT(error("when,what\n1,2\n"), HasSubstr("bad:1:"));
  EXPECT_THAT(error(header + "2023-11-16 18:15:46.68,374\n"), HasSubstr("bad:2:"));
  EXPECT_THAT(error(header + "2023-11-16 18:15:46.68,374,44\n2023-13-16 18:15:46.68,374,44\n"),
              HasSubstr("bad:3:"));
  EXPECT_THAT(error(header + "2023-11-16 18:15:46.68,-5,44\n"), HasSubstr("bad:2:"));
  EXPECT_THAT(error(header + "2023-11-16 18:15:46.68,99999999999999999999,44\n"),
              HasSubstr("bad:2:"));
  EXPECT_THAT(error("{\"timestamp\": 0, \"input_length\": 64}\n"), HasSubstr("bad:1:"));
  EXPECT_THAT(error("{\"timestamp\": 1e300, \"input_length\": 64, \"output_length\": 1}\n"),
              HasSubstr("bad:1:"));
  EXPECT_THAT(error("{\"timestamp\": 0, \"input_length\": 64, \"output_length\": 1, "
                    "\"hash_ids\": [1, 2, 3, 4]}\n"),
              HasSubstr("bad:1:"));
  EXPECT_THAT(error(""), HasSubstr("expected at least one"));
  EXPECT_EQ(Sim({"--trace", Path("absent")}).exit, 4);
}

TEST_F(SimCommandTest, BaselinesAreColumnsBesideWhatIsServed) {
  const auto json = Json({"--rate", "40", "--requests", "60", "--input-tokens", "100",
                          "--output-tokens", "20", "--max-tokens", "600", "--kv-cache-tokens",
                          "1600", "--policy", "fcfs,reserve-max,ema:1.5"});
  ASSERT_EQ(json["policies"].size(), 3U);
  EXPECT_EQ(json["policies"][1]["policy"], "reserve-max");
  const auto longest = [&](size_t policy) {
    return json["policies"][policy]["runs"][0]["ttft_ms"]["max"].get<double>();
  };
  EXPECT_GT(longest(1), 3 * longest(0));
  EXPECT_EQ(json["policies"][1]["runs"][0]["preemptions"], 0);
  const ToolRun wrong = Sim({"--rate", "5", "--policy", "ema"});
  EXPECT_EQ(wrong.exit, 2);
  EXPECT_THAT(wrong.err, HasSubstr("expected ema:FACTOR from 0.1 to 100"));
}

TEST_F(SimCommandTest, ByScoreSeveralRoutersFindWhatWorkersHoldWhereAtRandomTheyMissIt) {
  const Arguments asked = {"--rate",
                           "40",
                           "--requests",
                           "300",
                           "--decode",
                           "8",
                           "--routers",
                           "2",
                           "--input-tokens",
                           "300",
                           "--output-tokens",
                           "5",
                           "--shared-prefixes",
                           "30",
                           "--shared-prefix-tokens",
                           "256",
                           "--routing",
                           "score,prefix,hash,random"};
  const auto json = Json(asked);
  std::map<std::string, double> cached;
  for (const auto& result : json["policies"]) {
    cached[result["routing"]] = result["runs"][0]["cached_share"];
  }
  ASSERT_EQ(cached.size(), 4u);
  EXPECT_GT(cached["score"], cached["random"] + 0.1);
  EXPECT_GT(cached["prefix"], cached["random"] + 0.1);
  EXPECT_GT(cached["hash"], cached["random"] + 0.1);
  EXPECT_THAT(Sim(asked).out, AllOf(HasSubstr("random"), HasSubstr("prompt cached, %")));
}

TEST_F(SimCommandTest, TellsOfPromptsThatASharedPrefixFills) {
  const Arguments asked = {"--rate",         "5",     "--requests",      "100",
                           "--input-tokens", "1:100", "--output-tokens", "5",
                           "--runs",         "2",     "--policy",        "fcfs,remaining"};
  EXPECT_EQ(Sim(asked).err, "");
  Arguments shared = asked;
  shared.insert(shared.end(), {"--shared-prefix-tokens", "50"});
  const std::string told = Sim(shared).err;
  EXPECT_THAT(told, HasSubstr("of 100 prompts have no token beyond the shared prefix of 50"));
  EXPECT_EQ(std::ranges::count(told, '\n'), 1) << told;
}

TEST_F(SimCommandTest, WithoutPrefixCachesNobodyIsDrawnToOneWorker) {
  const auto json =
      Json({"--rate", "150", "--requests", "400", "--decode", "8", "--input-tokens", "1300",
            "--output-tokens", "20", "--shared-prefixes", "3", "--shared-prefix-tokens", "1024",
            "--routing", "load,prefix", "--no-enable-prefix-caching"});
  const auto ttft = [&](int column) -> double {
    return json["policies"][column]["runs"][0]["ttft_ms"]["mean"];
  };
  EXPECT_LT(ttft(1), 3 * ttft(0));
}

TEST_F(SimCommandTest, RefusesWhatItCannotDo) {
  const auto error = [&](const Arguments& arguments, int exit = 2) {
    const ToolRun run = Sim(arguments);
    EXPECT_EQ(run.exit, exit) << run.err;
    return run.err;
  };
  EXPECT_THAT(error({}), HasSubstr("--rate, --concurrency and --trace"));
  EXPECT_THAT(error({"--rate", "5", "--policy", "best"}), HasSubstr("unknown policy 'best'"));
  EXPECT_THAT(error({"--rate", "5", "--elastic"}), HasSubstr("--prefill 1"));
  EXPECT_THAT(error({"--rate", "5", "--handoff-timing", "at-once"}), HasSubstr("--prefill 1"));
  EXPECT_THAT(error({"--rate", "5", "--handoff-timing", "expected", "--elastic", "--prefill", "1"}),
              HasSubstr("only one of them"));
  EXPECT_THAT(
      error({"--rate", "5", "--policy", "fcfs,static-batch", "--elastic", "--prefill", "1"}),
      HasSubstr("--policy static-batch with --elastic"));
  EXPECT_THAT(error({"--rate", "5", "--routing", "best"}), HasSubstr("unknown routing 'best'"));
  EXPECT_THAT(error({"--rate", "5", "--shared-prefixes", "9"}),
              HasSubstr("--shared-prefix-tokens"));
  EXPECT_THAT(error({"--rate", "5", "--input-tokens", "50", "--shared-prefix-tokens", "50"}),
              HasSubstr("a number below 50"));
  EXPECT_THAT(error({"--rate", "5", "--routing", ""}), HasSubstr("--routing load"));
  EXPECT_THAT(error({"--rate", "5", "--routing", "load,two,load"}), HasSubstr("load twice"));
  EXPECT_THAT(error({"--rate", "5", "--shared-prefix-tokens", "9", "--shared-prefix-skew", "2"}),
              HasSubstr("--shared-prefixes"));
  EXPECT_THAT(error({"--rate", "5", "--slo", "itl=5ms"}), HasSubstr("itl"));
  EXPECT_THAT(error({"--rate", "5", "--slo", "reader=silent"}), HasSubstr("tpot"));
  EXPECT_THAT(error({"--rate", "5", "--predictor", "file.json"}), HasSubstr("--answers"));
  const std::string log = File("log", EosLines("a", 3, FinishReason::kStopEos));
  EXPECT_THAT(error({"--rate", "5", "--answers", log, "--predictor", File("p", "{}")}),
              HasSubstr("cannot simulate"));
  EXPECT_THAT(error({"--rate", "5", "--answers", log, "--predictor",
                     File("mlp.json", PredictorNamed("mlp"))}),
              AllOf(HasSubstr("mlp.json"), HasSubstr("reads products of a probe"),
                    HasSubstr("trained without a probe")));
  EXPECT_THAT(error({"--rate", "5", "--eos", "mask", "--max-tokens", "5"}),
              HasSubstr("--max-tokens"));
  EXPECT_THAT(error({"--rate", "5", "--input-tokens", "soon"}), HasSubstr("soon"));
  EXPECT_THAT(error({"--rate", "5", "--step-cost", Path("absent")}),
              HasSubstr("absent: No such file or directory. Try: baton sim fit FILE… > cost.json"));
  EXPECT_EQ(RunTool({"sim", "--rate", "5"}).exit, 2);
}

TEST_F(SimCommandTest, RefusesWhatDoesNothingOrCannotBeRead) {
  const auto error = [&](const Arguments& arguments, int exit = 2) {
    const ToolRun run = Sim(arguments);
    EXPECT_EQ(run.exit, exit) << run.err;
    return run.err;
  };
  EXPECT_THAT(error({"--rate", "5", "--policy", ""}), HasSubstr("found no name"));
  EXPECT_THAT(error({"--rate", "5", "--policy", "fcfs,fcfs"}), HasSubstr("fcfs twice"));
  const std::string trace =
      File("trace", "{\"timestamp\": 0, \"input_length\": 6, \"output_length\": 5}\n");
  EXPECT_THAT(error({"--trace", trace, "--warmup", "1s"}), HasSubstr("--warmup"));
  EXPECT_THAT(error({"--concurrency", "5", "--burstiness", "2"}),
              HasSubstr("--burstiness without --rate"));
  EXPECT_THAT(error({"--rate", "5", "--time-scale", "2"}),
              HasSubstr("--time-scale without --trace"));
  EXPECT_THAT(error({"--rate", "5", "--prefill", "1", "--handoff-bandwidth", "1KiB"}),
              HasSubstr("--handoff-bandwidth 1024"));
  EXPECT_THAT(error({"--rate", "5", "--plots", Path("p"), "--json"}), HasSubstr("both"));
  EXPECT_THAT(error({"--rate", "5", "--plots", File("file", "")}), HasSubstr("another folder"));
  EXPECT_THAT(error({"--rate", "5", "--step-cost", File("empty", "")}),
              HasSubstr("empty: found no step costs"));
  EXPECT_THAT(error({"--rate", "5", "--step-cost", Path(".")}), HasSubstr("Is a directory"));
  EXPECT_THAT(error({"--trace", Path(".")}, 4), HasSubstr("Is a directory"));
}

TEST_F(SimCommandTest, DrawsPicturesBesideTheFigures) {
  const ToolRun run = Sim({"--rate", "20", "--requests", "20", "--plots", Path("plots")});
  ASSERT_EQ(run.exit, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("TTFT P99"));
  for (const char* name : {"latency", "service", "cdf", "timeline"}) {
    EXPECT_THAT(run.out, HasSubstr(Path("plots/") + name + ".svg"));
    EXPECT_THAT(Content(Path("plots/") + name + ".svg"), HasSubstr("fcfs"));
  }
  EXPECT_EQ(nlohmann::json::parse(Content(Path("plots/result.json")))["schema"], "baton.sim/1");
}

TEST_F(SimCommandTest, TellsWhoWasRefused) {
  const ToolRun run = Sim({"--rate", "5", "--requests", "3", "--kv-cache-tokens", "64",
                           "--input-tokens", "100", "--output-tokens", "5"});
  EXPECT_EQ(run.exit, 0);
  EXPECT_THAT(run.err, AllOf(HasSubstr("3 of 3 requests were refused"), HasSubstr("TOO_LONG")));
}

TEST_F(SimCommandTest, FitWritesWhatSimReads) {
  nlohmann::json figures;
  for (int batch = 1; batch <= 12; ++batch) {
    figures["decode"].push_back({{"batch", batch}, {"context", 100}, {"ms", 1 + 0.1 * batch}});
  }
  const ToolRun fit = RunTool({"sim", "fit", File("bench", figures.dump())});
  ASSERT_EQ(fit.exit, 0) << fit.err;
  EXPECT_THAT(fit.err, AllOf(HasSubstr("9 steps fitted"), HasSubstr("3 kept aside")));
  const ToolRun run = RunTool(
      {"sim", "--step-cost", File("made", fit.out), "--concurrency", "2", "--requests", "10"});
  EXPECT_EQ(run.exit, 0) << run.err;
  EXPECT_EQ(RunTool({"sim", "fit", Path("absent")}).exit, 4);
  EXPECT_THAT(RunTool({"sim", "fit", File("empty", "")}).err, HasSubstr("empty: found no "));
  EXPECT_EQ(RunTool({"sim", "fit", File("few", R"({"decode": []})")}).exit, 2);
}

}  // namespace
}  // namespace baton
