// The EOS log as the router writes it: FILE, FILE.meta.json and FILE.requests.jsonl.
#include <gmock/gmock.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <thread>

#include "nlohmann/json.hpp"
#include "router/edge/eos_meta.h"
#include "tests/fakes/hung_disk.h"
#include "tests/fakes/scratch_folder.h"
#include "tests/router/router_fixture.h"

namespace baton::testing {
namespace {

using Json = nlohmann::ordered_json;

std::vector<Json> Lines(const std::string& path) {
  std::vector<Json> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) lines.push_back(Json::parse(line));
  return lines;
}

class EosLogTest : public RouterTest {
 protected:
  EosLogTest() {
    auto log = EosLog::Open({.path = path_, .meta_json = "{}\n"});
    EXPECT_TRUE(log.ok()) << log.status();
    eos_log_ = std::move(log).value();
  }
  // What writes ends before the folder that it writes to.
  ~EosLogTest() override {
    stub_.reset();
    router_.reset();
    eos_log_.reset();
  }

  // Starts a request whose worker stands still after three tokens, and reads those.
  std::unique_ptr<grpc::ClientReader<v1::GenerateResponse>> ReadThreeTokens(
      grpc::ClientContext* context) {
    AddDecode([](FakeWorkerOptions& worker) {
      worker.script = [](const FakeMoment& moment) {
        const bool here = moment.point == FakePoint::kToken && moment.index == 3;
        return here ? FakeAction::Hang() : FakeAction::Go();
      };
    });
    StartRouter();
    auto reader = stub_->Generate(context, Request("log", 9));
    v1::GenerateResponse message;
    int tokens = 0;
    while (tokens < 3 && reader->Read(&message)) tokens += message.delta().token_ids_size();
    return reader;
  }

  // The rows once the router is gone.
  std::vector<Json> Rows() {
    stub_.reset();
    router_.reset();
    return Lines(path_);
  }
  std::vector<Json> Summaries() const { return Lines(path_.string() + ".requests.jsonl"); }

  const ScratchFolder folder_;
  const std::filesystem::path path_ = folder_ / "eos.jsonl";
};

TEST_F(EosLogTest, RowsStandOnceEachAndOnlyTheLastOneIsFinished) {
  AddDecode();
  AddPrefill();
  StartRouter();
  const Answer answer = Generate(Request("log", 6));
  ASSERT_TRUE(answer.status.ok());
  const auto rows = Rows();
  ASSERT_EQ(rows.size(), 6u);
  for (size_t i = 0; i < rows.size(); ++i) {
    const int step = static_cast<int>(i) + 1;
    EXPECT_EQ(rows[i]["request_id"], answer.started.request_id());
    EXPECT_EQ(rows[i]["step"], step);
    EXPECT_EQ(rows[i]["output_length"], step);
    EXPECT_EQ(rows[i]["prompt_length"], 4);
    EXPECT_EQ(rows[i]["total_length"], 4 + step);
    EXPECT_EQ(rows[i]["current_token_id"], answer.ids[i]);
    EXPECT_EQ(rows[i]["eos_token_id"], kEos);
    EXPECT_EQ(rows[i]["is_finished"], step == 6);
    EXPECT_EQ(rows[i]["finish_reason"], step == 6 ? Json("length") : Json(nullptr));
    EXPECT_NEAR(rows[i]["eos_prob"], std::exp(rows[i]["eos_logprob"].get<double>()), 1e-8);
    EXPECT_EQ(rows[i]["attempt"], 1);
  }
}

TEST_F(EosLogTest, RowsStandOnceEachAfterAKilledWorker) {
  const auto left = std::make_shared<std::atomic<int>>(1);
  for (int i = 0; i < 2; ++i) {
    auto decode = WorkerOptions(worker::v1::WORKER_ROLE_DECODE);
    decode.script = [=](const FakeMoment& moment) {
      const bool here = moment.point == FakePoint::kToken && moment.index == 4;
      return here && left->fetch_sub(1) > 0 ? FakeAction::Die() : FakeAction::Go();
    };
    AddDecode(decode);
  }
  AddPrefill();
  StartRouter();
  const Answer answer = Generate(Request("log", 9));
  ASSERT_TRUE(answer.status.ok()) << answer.status;
  EXPECT_EQ(answer.final->attempts(), 2);
  const auto rows = Rows();
  ASSERT_EQ(rows.size(), 9u);
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i]["step"], static_cast<int>(i) + 1);
    EXPECT_EQ(rows[i]["current_token_id"], answer.ids[i]);
    EXPECT_EQ(rows[i]["attempt"], i < 4 ? 1 : 2);
  }
}

TEST_F(EosLogTest, CancelledRequestEndsAborted) {
  grpc::ClientContext context;
  const auto reader = ReadThreeTokens(&context);
  context.TryCancel();
  ReadAnswer(reader.get());
  ASSERT_TRUE(Eventually([&] { return router_->in_flight() == 0; }));
  const auto rows = Rows();
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[2]["finish_reason"], "aborted");
  EXPECT_EQ(rows[2]["is_finished"], true);
  const auto summaries = Summaries();
  ASSERT_EQ(summaries.size(), 1u);
  EXPECT_EQ(summaries[0]["finish_reason"], "aborted");
  EXPECT_EQ(summaries[0]["tenant"], "default");
  EXPECT_EQ(summaries[0]["output_length"], 3);
}

TEST_F(EosLogTest, DeadlineAndErrorAreReasonsOfTheirOwn) {
  options_.deadlines.request = std::chrono::milliseconds(150);
  options_.attempts.counted = 1;
  auto decode = WorkerOptions(worker::v1::WORKER_ROLE_DECODE);
  decode.script = [](const FakeMoment& moment) {
    if (moment.point != FakePoint::kToken || moment.index != 2) return FakeAction::Go();
    return moment.generation.prompt_ids_size() > 4
               ? FakeAction::Hang()
               : FakeAction::Fail(absl::UnavailableError("lost"));
  };
  AddDecode(decode);
  StartRouter();
  EXPECT_EQ(Generate(Request("hangs", 9)).status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(ReasonText(Generate(Request("err", 9)).status), "ATTEMPTS_EXHAUSTED");
  const auto rows = Rows();
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_EQ(rows[1]["finish_reason"], "deadline");
  EXPECT_EQ(rows[3]["finish_reason"], "error");
}

TEST_F(EosLogTest, TokensPastAStopStringAreNotLogged) {
  AddDecode();
  StartRouter();
  const std::string text = TextOf(Expected("log", 12));
  v1::GenerateRequest request = Request("log", 12);
  request.mutable_spec()->mutable_stop()->add_stop(text.substr(4, 3));
  const Answer answer = Generate(request);
  ASSERT_TRUE(answer.status.ok()) << answer.status;
  EXPECT_EQ(answer.final->finish_reason(), v1::FINISH_REASON_STOP_STRING);
  const auto rows = Rows();
  ASSERT_EQ(rows.size(), static_cast<size_t>(answer.final->usage().completion_tokens()));
  EXPECT_EQ(rows.back()["finish_reason"], "stop_string");
  EXPECT_EQ(Summaries()[0]["stop_match"], text.substr(4, 3));
}

TEST_F(EosLogTest, RowIsInTheFileHalfASecondAfterItIsComplete) {
  grpc::ClientContext context;
  const auto reader = ReadThreeTokens(&context);
  const auto begin = std::chrono::steady_clock::now();
  // Three tokens were accepted; the third's row waits for the end.
  ASSERT_TRUE(Eventually([&] { return Lines(path_).size() == 2; }));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(500));
  context.TryCancel();
  ReadAnswer(reader.get());
}

TEST_F(EosLogTest, LostLinesAreCountedAndTheRequestIsServed) {
  const std::string full = path_.string() + ".full";
  std::filesystem::create_symlink("/dev/full", full);
  auto log = EosLog::Open({.path = full, .meta_json = "{}\n"});
  ASSERT_TRUE(log.ok()) << log.status();
  eos_log_ = std::move(log).value();
  AddDecode();
  StartRouter();
  EXPECT_EQ(Metric("baton_eos_log_dropped_total"), 0);
  EXPECT_EQ(Generate(Request("log", 6)).ids.size(), 6u);
  EXPECT_TRUE(Eventually([&] { return Metric("baton_eos_log_dropped_total") == 6; }));
}

TEST_F(EosLogTest, HungDiskCostsRowsButNoRequest) {
  const std::string hung = path_.string() + ".hung";
  static base::ManualClock clock;
  HungDisk disk(hung);
  auto log = EosLog::Open({.path = hung, .meta_json = "{}\n", .queue_rows = 8, .clock = &clock});
  ASSERT_TRUE(log.ok()) << log.status();
  eos_log_ = std::move(log).value();
  const auto append = [log = eos_log_.get()] {
    EosRequestLog rows(log, {.request_id = "before"});
    rows.Accept({.step = 1, .id = 7, .signal = {}, .natural_end_step = {}});
    rows.Finish(FinishReason::kLength);
  };
  append();
  ASSERT_TRUE(Eventually([&] { return eos_log_->writing(); }));
  for (int i = 0; i < 5; ++i) append();
  options_.deadlines.request = std::chrono::seconds(10);
  AddDecode();
  StartRouter();
  Answer answer;
  std::thread client([&] { answer = Generate(Request("log", 20)); });
  EXPECT_TRUE(Eventually([&] { return Metric("baton_num_requests_in_stage{engine") == 1; }));
  clock.Advance(EosLog::kStalledAfter);
  client.join();
  EXPECT_EQ(answer.ids.size(), 20u);
  EXPECT_GT(Metric("baton_eos_log_dropped_total"), 0);
  disk.TakeRows();
  stub_.reset();
  router_.reset();
}

TEST_F(EosLogTest, SummariesHaveTheTagAndTheHashOfThePrompt) {
  AddDecode();
  StartRouter();
  v1::GenerateRequest tagged = Request("log", 2);
  tagged.mutable_spec()->set_tag("stories of \"Zoë\"");
  tagged.mutable_spec()->set_preset("creative");
  ASSERT_TRUE(Generate(tagged).status.ok());
  v1::GenerateRequest salted = Request("log", 3);
  salted.mutable_spec()->set_cache_salt("other");
  ASSERT_TRUE(Generate(salted).status.ok());
  ASSERT_TRUE(Generate(Request("lot", 2)).status.ok());
  Rows();
  const auto summaries = Summaries();
  ASSERT_EQ(summaries.size(), 3u);
  EXPECT_EQ(summaries[0]["tag"], "stories of \"Zoë\"");
  EXPECT_EQ(summaries[1]["tag"], nullptr);
  EXPECT_EQ(summaries[0]["preset"], "creative");
  EXPECT_EQ(summaries[0]["sampling"]["presence_penalty"].get<float>(), 0.3F);
  EXPECT_EQ(summaries[1]["preset"], nullptr);
  EXPECT_EQ(summaries[0]["prompt_hash"].get<std::string>().size(), 16u);
  EXPECT_EQ(summaries[0]["prompt_hash"], summaries[1]["prompt_hash"]);
  EXPECT_NE(summaries[0]["prompt_hash"], summaries[2]["prompt_hash"]);
}

TEST_F(EosLogTest, ARequestOutsideTheSampleHasNoRowAndNoSummary) {
  eos_log_.reset();
  auto log = EosLog::Open({.path = path_, .meta_json = "{}\n", .sample = 0.5});
  ASSERT_TRUE(log.ok()) << log.status();
  std::string inside, outside;
  for (int i = 0; inside.empty() || outside.empty(); ++i) {
    const std::string id = "request-" + std::to_string(i);
    ((*log)->Samples(id) ? inside : outside) = id;
  }
  eos_log_ = std::move(log).value();
  AddDecode();
  StartRouter();
  for (const std::string& id : {outside, inside}) {
    v1::GenerateRequest request = Request("log", 4);
    request.mutable_spec()->set_request_id(id);
    ASSERT_TRUE(Generate(request).status.ok());
  }
  v1::GenerateRequest asks = Request("log", 4);
  asks.mutable_spec()->set_request_id(outside);
  asks.mutable_spec()->mutable_eos()->set_steps(true);
  EXPECT_EQ(Generate(asks).status, absl::OkStatus());
  EXPECT_TRUE(decode_[0]->seen().back().eos_signals());
  const auto rows = Rows();
  ASSERT_EQ(rows.size(), 4u);
  for (const Json& row : rows) EXPECT_EQ(row["request_id"], inside);
  ASSERT_EQ(Summaries().size(), 1u);
  EXPECT_EQ(Summaries()[0]["request_id"], inside);
}

TEST_F(EosLogTest, FilesThatCannotBeRotatedAreCountedAndTheRequestIsServed) {
  eos_log_.reset();
  const std::string next = path_.string() + ".next";
  std::filesystem::create_directory(next);
  auto log = EosLog::Open({.path = path_, .meta_json = "{}\n", .max_bytes = 1});
  ASSERT_TRUE(log.ok()) << log.status();
  eos_log_ = std::move(log).value();
  AddDecode();
  StartRouter();
  const std::string failures = "baton_eos_log_upkeep_failures_total{step=\"rotate\"";
  EXPECT_EQ(Generate(Request("log", 3)).ids.size(), 3u);
  EXPECT_TRUE(Eventually([&] { return Lines(path_).size() == 3; }));
  EXPECT_EQ(Generate(Request("log", 3)).ids.size(), 3u);
  EXPECT_TRUE(Eventually([&] { return Metric(failures) == 1; }));
  EXPECT_EQ(Rows().size(), 6u);
  std::filesystem::remove(next);
}

TEST_F(EosLogTest, MetaTellsTheModelItsEosSetAndDefaults) {
  const auto model = LoadServedModel(ModelDir(), "tiny");
  ASSERT_TRUE(model.ok());
  const Json meta = Json::parse(EosMetaJson(**model, options_, 0.25, 12.5));
  EXPECT_EQ(meta["model"], "tiny");
  EXPECT_EQ(meta["sample"], 0.25);
  EXPECT_EQ(meta["eos_token_id"], kEos);
  ASSERT_EQ(meta["eos_set"].size(), 2u);
  EXPECT_EQ(meta["eos_set"][0]["id"], kEos);
  EXPECT_EQ(meta["eos_set"][1]["sources"].size(), 2u);
  EXPECT_EQ(meta["sampling_defaults"]["temperature"], 1.0);
  EXPECT_FALSE(meta["baton_version"].get<std::string>().empty());
}

}  // namespace
}  // namespace baton::testing
