#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "common/base/sha256.h"
#include "common/base/status.h"
#include "common/rpc/status_map.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/fakes/fake_inference_service.h"
#include "tests/tools/answers.h"
#include "tests/tools/eos/log_files.h"
#include "tests/tools/run_tool.h"

namespace baton {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using Answer = FakeInferenceService::Answer;

// As GoodAnswer, with `width` products for each token.
Answer ProbedAnswer(const v1::GenerationSpec& spec, const std::string& text, int width) {
  Answer answer = GoodAnswer(spec, text);
  for (v1::GenerateResponse& event : answer.events) {
    if (!event.has_delta()) continue;
    for (v1::EosStep& step : *event.mutable_delta()->mutable_eos_steps()) {
      for (int i = 0; i < width; ++i) step.add_probe(static_cast<float>(10 * step.step() + i));
    }
  }
  return answer;
}

Answer Refused() {
  return {.events = {},
          .status = ToGrpcStatus(InvalidArgument(Reason::kTooLong, "", "the prompt is too long"))};
}

class EosCollectTest : public LogFilesTest {
 protected:
  const std::string out_ = Path("set");
  const std::string prompts_ = File("prompts",
                                    "{\"prompt\": \"one\", \"family\": \"story\"}\n{\"prompt\": "
                                    "\"two\", \"family\": \"list\"}\n");

  ToolRun Collect(const FakeInferenceService& server, Arguments more = {}) const {
    Arguments arguments = {"eos",       "collect", "--server",       server.address(),
                           "--prompts", prompts_,  "--out",          out_,
                           "--seeds",   "2",       "--temperatures", "0,0.8"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return RunTool(arguments);
  }
  json Manifest() const { return json::parse(Content(out_ + "/manifest.json")); }
  std::vector<json> Lines(const std::string& name) const {
    std::istringstream text(Content(out_ + "/" + name));
    std::vector<json> lines;
    for (std::string line; std::getline(text, line);) lines.push_back(json::parse(line));
    return lines;
  }
};

TEST_F(EosCollectTest, KeepsRowsInTheFormOfTheLogAndALinePerRequest) {
  FakeInferenceService server(GoodAnswer);
  const ToolRun run = Collect(server);
  EXPECT_EQ(run.exit, 0) << run.err;
  EXPECT_EQ(run.out, out_ + ": 8 of 8 requests, 16 rows; 8 asked now, of which 0 failed\n");
  const ToolRun valid = RunTool({"eos", "validate", out_ + "/rows.jsonl"});
  EXPECT_EQ(valid.exit, 0) << valid.out;
  EXPECT_THAT(valid.out, HasSubstr("16 rows of 8 requests, 0 of them open: all rows are good"));

  std::map<std::string, json> requests;
  for (const json& line : Lines("requests.jsonl")) requests[line["request_id"]] = line;
  ASSERT_EQ(requests.size(), 8);
  const json& one = requests["list-000001-t0.8-p1-s2"];
  EXPECT_EQ(one["family"], "list");
  EXPECT_EQ(one["prompt_index"], 1);
  EXPECT_EQ(one["prompt_sha256"], Sha256Hex(R"({"prompt":"two"})"));
  EXPECT_EQ(one["seed"], 2000001);
  EXPECT_EQ(one["temperature"], 0.8);
  EXPECT_EQ(one["finish_reason"], "stop_eos");
  EXPECT_EQ(one["prompt_length"], 5);
  EXPECT_EQ(one["output_length"], 2);
  EXPECT_EQ(one["token_ids"], json::array({7, 2}));
}

TEST_F(EosCollectTest, TheManifestSaysWhatWasAskedAndWhatCameOfIt) {
  FakeInferenceService server(GoodAnswer);
  ASSERT_EQ(Collect(server).exit, 0);
  const json manifest = Manifest();
  EXPECT_EQ(manifest["complete"], true);
  EXPECT_EQ(manifest["model"]["name"], "demo");
  EXPECT_EQ(manifest["model"]["fingerprint"], "f1");
  EXPECT_EQ(manifest["model"]["stop_ids"][0]["id"], 2);
  EXPECT_EQ(manifest["grid"]["temperatures"], json::array({0, 0.8}));
  EXPECT_EQ(manifest["families"]["story"],
            json({{"requests", 4}, {"rows", 8}, {"ended", {{"stop_eos", 4}}}}));
  EXPECT_EQ(manifest["counts"],
            json({{"planned", 8}, {"requests", 8}, {"rows", 16}, {"failed", 0}}));
  EXPECT_EQ(manifest["projections"], nullptr);
  const std::string rows = Content(out_ + "/rows.jsonl");
  EXPECT_EQ(manifest["files"]["rows.jsonl"],
            json({{"bytes", rows.size()}, {"sha256", Sha256Hex(rows)}}));
  EXPECT_TRUE(manifest["files"].contains("requests.jsonl"));
}

TEST_F(EosCollectTest, AFailureIsToldAndCountedAndAskedAgain) {
  std::atomic<bool> refuse{true};
  FakeInferenceService server([&](const auto& spec, const std::string& text) {
    const bool refused = refuse && spec.request_id() == "story-000000-t0-p1-s1";
    return refused ? Refused() : GoodAnswer(spec, text);
  });
  const ToolRun first = Collect(server);
  EXPECT_EQ(first.exit, 1);
  EXPECT_THAT(first.err, HasSubstr("request story-000000-t0-p1-s1 failed: TOO_LONG"));
  EXPECT_THAT(first.out, HasSubstr("7 of 8 requests, 14 rows; 8 asked now, of which 1 failed"));
  EXPECT_EQ(Manifest()["complete"], false);
  EXPECT_EQ(Manifest()["counts"]["failed"], 1);

  refuse = false;
  const ToolRun second = Collect(server);
  EXPECT_EQ(second.exit, 0) << second.err;
  EXPECT_THAT(second.out, HasSubstr("8 of 8 requests, 16 rows; 1 asked now, of which 0 failed"));
  EXPECT_EQ(server.generate_requests().size(), 9);
  EXPECT_EQ(Manifest()["complete"], true);
  EXPECT_EQ(RunTool({"eos", "validate", out_ + "/rows.jsonl"}).exit, 0);
}

TEST_F(EosCollectTest, AnAnswerThatRanAwayIsOneMore) {
  FakeInferenceService server([](const auto& spec, const std::string& text) {
    Answer answer = GoodAnswer(spec, text);
    v1::Final* final = answer.events.back().mutable_final();
    final->set_finish_reason(v1::FINISH_REASON_RUNAWAY);
    final->set_stop_cause(v1::STOP_CAUSE_RUNAWAY);
    final->clear_stop_token_id();
    return answer;
  });
  const ToolRun run = Collect(server);
  EXPECT_EQ(run.exit, 0) << run.err;
  EXPECT_EQ(Lines("requests.jsonl")[0]["finish_reason"], "runaway");
  EXPECT_EQ(Lines("rows.jsonl")[1]["finish_reason"], "runaway");
  EXPECT_EQ(Manifest()["families"]["story"]["ended"], json({{"runaway", 4}}));
  EXPECT_EQ(RunTool({"eos", "validate", out_ + "/rows.jsonl"}).exit, 0);
}

TEST_F(EosCollectTest, WhatAnInterruptionLeftBehindIsCutOff) {
  FakeInferenceService server(GoodAnswer);
  ASSERT_EQ(Collect(server).exit, 0);
  const std::string rows = Content(out_ + "/rows.jsonl");
  // The rows of a request are written before its line, of which only the beginning is there.
  const std::string requests = Content(out_ + "/requests.jsonl");
  const size_t last = requests.rfind("{\"request_id\"");
  std::ofstream(out_ + "/requests.jsonl") << requests.substr(0, last + 30);
  std::ofstream(out_ + "/rows.jsonl", std::ios::app) << rows.substr(0, 50);
  const ToolRun run = Collect(server);
  EXPECT_EQ(run.exit, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("8 of 8 requests, 16 rows; 1 asked now"));
  EXPECT_EQ(Content(out_ + "/requests.jsonl"), requests);
  EXPECT_EQ(Content(out_ + "/rows.jsonl"), rows);
}

TEST_F(EosCollectTest, ARunThatIsCompleteAsksNothing) {
  FakeInferenceService server(GoodAnswer);
  ASSERT_EQ(Collect(server).exit, 0);
  const ToolRun again = Collect(server);
  EXPECT_EQ(again.exit, 0);
  EXPECT_THAT(again.out, HasSubstr("8 of 8 requests, 16 rows; 0 asked now"));
  EXPECT_EQ(server.generate_requests().size(), 8);
}

TEST_F(EosCollectTest, AnotherGridPromptOrModelDoesNotMixIn) {
  FakeInferenceService server(GoodAnswer);
  ASSERT_EQ(Collect(server).exit, 0);
  const ToolRun grid = Collect(server, {"--top-p", "0.5"});
  EXPECT_EQ(grid.exit, 2);
  EXPECT_THAT(grid.err, AllOf(HasSubstr("found grid.top_p 1.0; expected 0.5"), HasSubstr("--out")));
  server.SetFingerprint("f2");
  EXPECT_THAT(Collect(server).err, HasSubstr("found model.fingerprint \"f1\"; expected \"f2\""));
  server.SetFingerprint("f1");
  File("prompts", "{\"prompt\": \"three\"}\n");
  EXPECT_THAT(Collect(server).err, HasSubstr("found prompts.count 2; expected 1"));
  std::filesystem::remove(out_ + "/manifest.json");
  EXPECT_THAT(Collect(server).err, HasSubstr("found rows.jsonl and no manifest.json"));
}

TEST_F(EosCollectTest, AnotherSamplerDoesNotMixIn) {
  FakeInferenceService server(GoodAnswer);
  v1::SamplingDefaults sampling;
  sampling.set_min_p(0.1F);
  sampling.set_temperature(0.5F);
  server.SetSampling(sampling);
  ASSERT_EQ(Collect(server).exit, 0);
  // The grid has the temperature.
  sampling.set_temperature(1);
  server.SetSampling(sampling);
  EXPECT_EQ(Collect(server).exit, 0);
  sampling.set_top_k(40);
  server.SetSampling(sampling);
  const ToolRun other = Collect(server);
  EXPECT_EQ(other.exit, 2);
  EXPECT_THAT(other.err,
              AllOf(HasSubstr("found sampler.top_k 0; expected 40"), HasSubstr("--out")));
  auto manifest = nlohmann::ordered_json::parse(Content(out_ + "/manifest.json"));
  manifest.erase("sampler");
  File("set/manifest.json", manifest.dump());
  const ToolRun unknown = Collect(server);
  EXPECT_EQ(unknown.exit, 2);
  EXPECT_THAT(unknown.err, HasSubstr("found sampler.top_p null; expected 1.0"));
  EXPECT_EQ(server.generate_requests().size(), 8);
}

TEST_F(EosCollectTest, WithoutATemperatureThereIsNothingToAsk) {
  FakeInferenceService server(GoodAnswer);
  const ToolRun run = RunTool({"eos", "collect", "--server", server.address(), "--prompts",
                               prompts_, "--out", out_, "--temperatures", ""});
  EXPECT_EQ(run.exit, 2);
  EXPECT_THAT(run.err, HasSubstr("--temperatures is empty"));
}

TEST_F(EosCollectTest, AForeignManifestIsRefused) {
  FakeInferenceService server(GoodAnswer);
  std::filesystem::create_directories(out_);
  for (const char* foreign : {R"({"schema": 1})", R"({"schema": null})", "[]", "no JSON", "{}"}) {
    File("set/manifest.json", foreign);
    const ToolRun run = Collect(server);
    EXPECT_EQ(run.exit, 2) << foreign;
    EXPECT_THAT(run.err, HasSubstr("found no baton.eos.collected/1 in manifest.json")) << foreign;
    EXPECT_EQ(Content(out_ + "/manifest.json"), foreign);
  }
  for (const char* damaged : {R"({"schema":"baton.eos.collected/1","prompts":5})",
                              R"({"schema":"baton.eos.collected/1"})"}) {
    File("set/manifest.json", damaged);
    const ToolRun run = Collect(server);
    EXPECT_EQ(run.exit, 2) << damaged;
    EXPECT_THAT(run.err, HasSubstr("found prompts.count null; expected 2")) << damaged;
  }
  EXPECT_EQ(server.generate_requests().size(), 0);
}

TEST_F(EosCollectTest, AFileThatHappensToHaveTheNameStays) {
  FakeInferenceService server(GoodAnswer);
  std::filesystem::create_directories(out_);
  File("set/rows.jsonl", "something else\n");
  const ToolRun run = Collect(server);
  EXPECT_EQ(run.exit, 2);
  EXPECT_THAT(run.err, HasSubstr("found rows.jsonl and no manifest.json; expected both or none"));
  EXPECT_EQ(Content(out_ + "/rows.jsonl"), "something else\n");
}

TEST_F(EosCollectTest, FilesThatDoNotFitEachOtherAreRefused) {
  FakeInferenceService server(GoodAnswer);
  ASSERT_EQ(Collect(server).exit, 0);
  File("set/rows.jsonl", "{}\n");
  const ToolRun run = Collect(server);
  EXPECT_EQ(run.exit, 4);
  EXPECT_THAT(run.err, HasSubstr("rows.jsonl: found 1 rows, expected 16 or more"));
  // An error of the disk is told as that.
  std::filesystem::remove(out_ + "/rows.jsonl");
  std::filesystem::create_directory(out_ + "/rows.jsonl");
  EXPECT_THAT(Collect(server).err, HasSubstr("rows.jsonl: Is a directory"));
}

TEST_F(EosCollectTest, HiddenKeepsTheProductsInTheOrderOfRows) {
  FakeInferenceService server([](const auto& spec, const std::string& text) {
    return ProbedAnswer(spec, text, spec.eos().probe() ? 3 : 0);
  });
  const ToolRun run = Collect(server, {"--hidden", "--concurrency", "1"});
  ASSERT_EQ(run.exit, 0) << run.err;
  EXPECT_EQ(Manifest()["projections"]["width"], 3);
  EXPECT_TRUE(Manifest()["files"].contains("projections.f32"));
  const std::string bytes = Content(out_ + "/projections.f32");
  const std::vector<json> rows = Lines("rows.jsonl");
  ASSERT_EQ(bytes.size(), rows.size() * 3 * sizeof(float));
  for (size_t row = 0; row < rows.size(); ++row) {
    float value = 0;
    std::memcpy(&value, bytes.data() + (3 * row + 2) * sizeof(float), sizeof(value));
    EXPECT_EQ(value, 10 * rows[row]["step"].get<float>() + 2);
  }
}

TEST_F(EosCollectTest, HiddenWithoutAProbeSaysWhatToDo) {
  FakeInferenceService server(GoodAnswer);
  const ToolRun run = Collect(server, {"--hidden"});
  EXPECT_EQ(run.exit, 1);
  EXPECT_THAT(run.err, AllOf(HasSubstr("found 0 probe products at step 1"),
                             HasSubstr("workers that were started with a probe file")));
  EXPECT_EQ(Manifest()["counts"]["requests"], 0);
}

TEST_F(EosCollectTest, ProductsOfAnotherWidthEndTheRun) {
  std::atomic<int> width{3};
  FakeInferenceService server(
      [&](const auto& spec, const std::string& text) { return ProbedAnswer(spec, text, width++); });
  const ToolRun run = Collect(server, {"--hidden", "--concurrency", "1"});
  EXPECT_EQ(run.exit, 1);
  EXPECT_THAT(run.err, HasSubstr("found 4 probe products; expected 3 as before"));
}

TEST_F(EosCollectTest, AServerThatOnlyFailsIsLeftAlone) {
  FakeInferenceService server([](const auto&, const auto&) {
    return Answer{.events = {}, .status = {grpc::StatusCode::INTERNAL, "broken"}};
  });
  const ToolRun run = Collect(server, {"--seeds", "50", "--concurrency", "1"});
  EXPECT_EQ(run.exit, 1);
  EXPECT_THAT(run.err, HasSubstr("16 requests in a row failed"));
  EXPECT_EQ(server.generate_requests().size(), 16);
}

TEST_F(EosCollectTest, APromptThatIsRefusedEachTimeDoesNotKeepOutTheOthers) {
  FakeInferenceService server([&](const auto& spec, const std::string& text) {
    return text == "one" ? Refused() : GoodAnswer(spec, text);
  });
  const ToolRun run = Collect(server, {"--seeds", "50", "--concurrency", "1"});
  EXPECT_EQ(run.exit, 1);
  EXPECT_THAT(run.out,
              HasSubstr("100 of 200 requests, 200 rows; 200 asked now, of which 100 failed"));
}

TEST_F(EosCollectTest, RefusalsDoNotEndARowOfFailures) {
  std::atomic<int> asked = 0;
  FakeInferenceService server([&](const auto&, const auto&) {
    const bool refused = asked++ % 2 == 1;
    return refused ? Refused()
                   : Answer{.events = {}, .status = {grpc::StatusCode::INTERNAL, "broken"}};
  });
  EXPECT_EQ(Collect(server, {"--seeds", "50", "--concurrency", "1"}).exit, 1);
  EXPECT_EQ(asked, 31);
}

TEST_F(EosCollectTest, AnAnswerWithoutStepsEndsTheRun) {
  FakeInferenceService server([](auto spec, const std::string& text) {
    spec.mutable_eos()->set_steps(false);
    return GoodAnswer(spec, text);
  });
  const ToolRun run = Collect(server);
  EXPECT_EQ(run.exit, 1);
  EXPECT_THAT(run.err, HasSubstr("found 2 tokens and 0 EOS steps"));
}

TEST_F(EosCollectTest, WithoutAWorkerNothingIsBegun) {
  FakeInferenceService server(GoodAnswer);
  server.SetFingerprint("");
  const ToolRun run = Collect(server);
  EXPECT_EQ(run.exit, 1);
  EXPECT_THAT(run.err, HasSubstr("sees no healthy decode worker"));
  EXPECT_FALSE(std::filesystem::exists(out_));
}

TEST_F(EosCollectTest, WrongFlagsAreTold) {
  FakeInferenceService server(GoodAnswer);
  EXPECT_THAT(Collect(server, {"--top-p", "0"}).err, HasSubstr("--top-p is 0"));
  const auto temperatures = [&](const std::string& list) {
    return RunTool(
        {"eos", "collect", "--prompts", prompts_, "--out", out_, "--temperatures", list});
  };
  EXPECT_THAT(temperatures("0,hot").err, HasSubstr("--temperatures has 'hot'"));
  EXPECT_THAT(temperatures("1,1").err, HasSubstr("--temperatures has 1 twice"));
  EXPECT_THAT(temperatures("0.1234567,1,0.1234568").err,
              HasSubstr("--temperatures has 0.1234568 and another that reads 0.123457"));
  EXPECT_EQ(RunTool({"eos", "collect"}).exit, 2);
}

}  // namespace
}  // namespace baton
