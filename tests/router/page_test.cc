// What a router's page knows of requests: a sample of them is watched, whoever asked for what.
#include "nlohmann/json.hpp"
#include "tests/router/router_fixture.h"

namespace baton::testing {
namespace {

using StatusReport = nlohmann::json;

FakeAction HangBehindTheFirst(const FakeMoment& moment) {
  return moment.point == FakePoint::kToken ? FakeAction::Hang() : FakeAction::Go();
}

class PageTest : public RouterTest {
 protected:
  StatusReport Status() { return StatusReport::parse(router_->Status("ready")); }
};

TEST_F(PageTest, EndsAreKnownWithoutALogAndTheClientSeesNoneOfIt) {
  AddDecode([](FakeWorkerOptions& worker) { worker.foresees = true; });
  StartRouter();
  const Answer answer = Generate(Request("hello", 20));
  ASSERT_TRUE(answer.status.ok()) << answer.status;
  EXPECT_TRUE(answer.eos_steps.empty());
  for (const v1::GenerateResponse& message : answer.messages) {
    EXPECT_FALSE(message.has_prediction());
  }
  const StatusReport eos = Status()["eos"];
  EXPECT_EQ(eos["watched"], 0);
  ASSERT_EQ(eos["answers"].size(), 1u);
  EXPECT_EQ(eos["answers"][0]["id"], answer.started.request_id());
  EXPECT_EQ(eos["answers"][0]["finish_reason"], "length");
  EXPECT_EQ(eos["answers"][0]["eos_prob"].size(), 20u);
  // Made at step 1, and it said 0.5; at step 17 the limit of 20 leaves too little.
  EXPECT_EQ(eos["calibration"][2]["within"], 16);
  EXPECT_EQ(eos["calibration"][2]["bins"][5]["estimates"], 1);
  EXPECT_EQ(eos["calibration"][2]["bins"][5]["ended"], 0);
  EXPECT_EQ(eos["calibration"][2]["bins"][5]["unknown"], 0);
}

TEST_F(PageTest, BeyondTheSampleOnlyThoseThatAskAreWatched) {
  AddDecode([](FakeWorkerOptions& worker) {
    worker.script = HangBehindTheFirst;
    worker.foresees = true;
  });
  StartRouter();
  std::vector<std::unique_ptr<grpc::ClientContext>> contexts;
  std::vector<std::unique_ptr<grpc::ClientReader<v1::GenerateResponse>>> readers;
  const auto begin = [&](const v1::GenerateRequest& request) {
    contexts.push_back(std::make_unique<grpc::ClientContext>());
    readers.push_back(stub_->Generate(contexts.back().get(), request));
    EXPECT_TRUE(Eventually([&] { return decode_[0]->seen().size() == readers.size(); }));
    return decode_[0]->seen().back();
  };
  for (size_t i = 0; i < EosFigures::kSample; ++i) {
    EXPECT_TRUE(begin(Request("held", 5)).eos_signals());
  }
  const auto beyond = begin(Request("beyond", 5));
  EXPECT_FALSE(beyond.eos_signals());
  EXPECT_FALSE(beyond.predict());
  v1::GenerateRequest asks = Request("asks", 5);
  asks.mutable_spec()->mutable_eos()->set_steps(true);
  EXPECT_TRUE(begin(asks).predict());
  ASSERT_TRUE(Eventually([&] { return Status()["requests"]["decoding"] == readers.size(); }));
  const StatusReport status = Status();
  EXPECT_EQ(status["eos"]["watched"], EosFigures::kSample + 1);
  ASSERT_EQ(status["oldest"].size(), 20u);
  EXPECT_EQ(status["oldest"][0]["stage"], "decoding");
  EXPECT_EQ(status["oldest"][0]["tokens"], 1);
  EXPECT_EQ(status["oldest"][0]["foreseen"]["expected_remaining"], 100);
  for (size_t i = 0; i < readers.size(); ++i) {
    contexts[i]->TryCancel();
    ReadAnswer(readers[i].get());
  }
  EXPECT_TRUE(Eventually([&] { return Status()["eos"]["watched"] == 0; }));
}

}  // namespace
}  // namespace baton::testing
