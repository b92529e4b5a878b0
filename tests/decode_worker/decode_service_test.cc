// The decode worker as a router sees it, with local prefill: tokens, ends, refusals.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "common/base/status.h"
#include "tests/fakes/worker_harness.h"

namespace baton {
namespace {

TEST(DecodeServiceTest, StreamsFromTheFirstIndexToFinal) {
  WorkerHarness worker({});
  DecodeCall call(worker, LocalStart(MakeGeneration(10, 6)));
  call.ReadAll();
  ASSERT_TRUE(call.Finish().ok());
  EXPECT_EQ(call.tokens.size(), 6u);
  ASSERT_TRUE(call.started);
  EXPECT_EQ(call.started->token().index(), 0);
  EXPECT_TRUE(call.started->token().has_eos());
  EXPECT_GT(call.started->token().unix_time(), 1e9);
  ASSERT_TRUE(call.final);
  EXPECT_EQ(call.final->ending().cause(), worker_pb::FINISH_CAUSE_LENGTH);
  EXPECT_TRUE(worker.Idle());
}

TEST(DecodeServiceTest, ResumesAfterAcceptedTokens) {
  WorkerHarness worker({});
  const auto whole = RunLocal(worker, MakeGeneration(10, 8));
  worker_pb::Generation rest = MakeGeneration(10, 8);
  rest.mutable_generated_ids()->Assign(whole.begin(), whole.begin() + 3);
  DecodeCall call(worker, LocalStart(rest));
  call.ReadAll();
  ASSERT_TRUE(call.Finish().ok());
  EXPECT_EQ(call.started->token().index(), 3);
  EXPECT_GT(call.started->cached_tokens(), 0);
  EXPECT_EQ(call.tokens, std::vector<TokenId>(whole.begin() + 3, whole.end()));
}

TEST(DecodeServiceTest, ReleaseEndsWithTheRoutersCause) {
  // Far longer than a release takes to arrive: 7 900 steps of at least a millisecond.
  WorkerHarness::Options longer;
  longer.engine.max_model_len = 8000;
  longer.num_blocks = 2000;
  WorkerHarness worker(longer);
  worker.control().set_on_step(
      [](const StepPlan&) { std::this_thread::sleep_for(std::chrono::milliseconds(1)); });
  DecodeCall call(worker, LocalStart(MakeGeneration(10, 7900)));
  worker_pb::DecodeResponse response;
  ASSERT_TRUE(call.Read(&response));
  ASSERT_TRUE(response.has_started());
  call.Release(worker_pb::FINISH_CAUSE_STOP_STRING);
  while (call.Read(&response)) {
    if (response.has_final()) call.final = response.final();
  }
  EXPECT_TRUE(call.Finish().ok());
  ASSERT_TRUE(call.final);
  EXPECT_EQ(call.final->ending().cause(), worker_pb::FINISH_CAUSE_STOP_STRING);
  EXPECT_TRUE(worker.Idle());
}

TEST(DecodeServiceTest, CancelFreesEverything) {
  WorkerHarness worker({});
  worker.control().Pause();
  DecodeCall call(worker, LocalStart(MakeGeneration(10, 200)));
  ASSERT_TRUE(Eventually([&] { return worker.figures().running == 1; }));
  call.Cancel();
  EXPECT_EQ(call.Finish().code(), absl::StatusCode::kCancelled);
  worker.control().Resume();
  EXPECT_TRUE(worker.Idle());
}

TEST(DecodeServiceTest, DeadlineFreesEverything) {
  WorkerHarness worker({});
  worker.control().Pause();
  DecodeCall call(worker, LocalStart(MakeGeneration(10, 200)), std::chrono::milliseconds(50));
  call.ReadAll();
  EXPECT_EQ(call.Finish().code(), absl::StatusCode::kDeadlineExceeded);
  worker.control().Resume();
  EXPECT_TRUE(worker.Idle());
}

TEST(DecodeServiceTest, RefusesAnotherModelWithBothSidesPrinted) {
  WorkerHarness worker({});
  worker_pb::Generation generation = MakeGeneration(10, 6);
  generation.set_model_fingerprint("fp-b");
  DecodeCall call(worker, LocalStart(generation));
  call.ReadAll();
  const absl::Status status = call.Finish();
  EXPECT_EQ(ReasonOf(status), Reason::kLayoutMismatch);
  EXPECT_NE(status.message().find("fp-a"), absl::string_view::npos) << status;
  EXPECT_NE(status.message().find("fp-b"), absl::string_view::npos) << status;
}

TEST(DecodeServiceTest, RefusesBadRequestsByReason) {
  WorkerHarness worker({});
  struct Case {
    worker_pb::Generation generation;
    Reason reason;
  };
  std::vector<Case> cases;
  cases.push_back({MakeGeneration(0, 6), Reason::kEmptyPrompt});
  cases.push_back({MakeGeneration(300, 6), Reason::kTooLong});
  cases.push_back({MakeGeneration(10, 6), Reason::kInvalidTokenId});
  cases.back().generation.set_prompt_ids(3, 1000);
  cases.push_back({MakeGeneration(10, 6), Reason::kInvalidMaxTokens});
  cases.back().generation.mutable_stopping()->set_max_tokens(-1);
  cases.push_back({MakeGeneration(10, 6), Reason::kInvalidSampling});
  cases.back().generation.mutable_sampling()->set_top_p(2);
  cases.push_back({MakeGeneration(10, 6), Reason::kUnsupportedField});
  cases.back().generation.mutable_stopping()->set_eos_handling(
      static_cast<worker_pb::EosHandling>(9));
  cases.push_back({MakeGeneration(10, 6), Reason::kLimitExceeded});
  cases.back().generation.set_request_id(std::string(257, 'x'));
  for (const Case& c : cases) {
    DecodeCall call(worker, LocalStart(c.generation));
    call.ReadAll();
    const absl::Status status = call.Finish();
    EXPECT_EQ(ReasonOf(status), c.reason) << status;
  }
  EXPECT_TRUE(worker.Idle());
}

TEST(DecodeServiceTest, EngineFaultEndsStreamsAsDeviceFault) {
  WorkerHarness worker({});
  worker.control().FailNextStep();
  DecodeCall call(worker, LocalStart(MakeGeneration(10, 6)));
  call.ReadAll();
  EXPECT_EQ(ReasonOf(call.Finish()), Reason::kDeviceFault);
  DecodeCall after(worker, LocalStart(MakeGeneration(10, 6)));
  after.ReadAll();
  EXPECT_EQ(ReasonOf(after.Finish()), Reason::kDeviceFault);
}

TEST(DecodeServiceTest, AStalledEngineEndsStreamsAsDeviceFault) {
  WorkerHarness::Options options;
  options.engine.stall_timeout = std::chrono::milliseconds(50);
  WorkerHarness worker(options);
  worker.control().Pause();
  DecodeCall call(worker, LocalStart(MakeGeneration(10, 6)));
  call.ReadAll();
  EXPECT_EQ(ReasonOf(call.Finish()), Reason::kDeviceFault);
  EXPECT_TRUE(Eventually([&] { return worker.core().streams() == 0; }));
}

TEST(DecodeServiceTest, PreemptionKeepsTheTokens) {
  WorkerHarness alone({});
  WorkerHarness::Options tight;
  tight.num_blocks = 24;
  WorkerHarness worker(tight);
  worker.control().Pause();
  std::vector<std::unique_ptr<DecodeCall>> calls;
  for (int32_t i = 0; i < 3; ++i) {
    calls.push_back(std::make_unique<DecodeCall>(worker, LocalStart(MakeGeneration(20, 30, i))));
  }
  ASSERT_TRUE(Eventually([&] { return worker.admitted() == 3; }));
  worker.control().Resume();
  int32_t preemptions = 0;
  for (int32_t i = 0; i < 3; ++i) {
    calls[static_cast<size_t>(i)]->ReadAll();
    ASSERT_TRUE(calls[static_cast<size_t>(i)]->Finish().ok());
    EXPECT_EQ(calls[static_cast<size_t>(i)]->tokens, RunLocal(alone, MakeGeneration(20, 30, i)));
    preemptions += calls[static_cast<size_t>(i)]->final->preemptions();
  }
  EXPECT_GE(preemptions, 1);
  EXPECT_TRUE(worker.Idle());
}

}  // namespace
}  // namespace baton
