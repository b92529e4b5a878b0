// Drain: new streams are refused, granted tickets are honoured, the rest ends in time.
#include <gtest/gtest.h>

#include "common/base/status.h"
#include "tests/fakes/worker_harness.h"

namespace baton {
namespace {

base::Instant Soon() { return base::SteadyClock().Now() + std::chrono::seconds(10); }

TEST(DrainTest, RefusesNewStreamsAndFinishesRunningOnes) {
  WorkerHarness worker({});
  worker.control().Pause();
  DecodeCall running(worker, LocalStart());
  ASSERT_TRUE(Eventually([&] { return worker.figures().running == 1; }));
  worker.core().BeginDrain();
  DecodeCall late(worker, LocalStart());
  late.ReadAll();
  const absl::Status refused = late.Finish();
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(ReasonOf(refused), Reason::kDraining);
  worker.control().Resume();
  running.ReadAll();
  EXPECT_TRUE(running.Finish().ok());
  EXPECT_EQ(running.tokens.size(), 6u);
  EXPECT_TRUE(worker.core().WaitUntilIdle(Soon()));
}

TEST(DrainTest, AcceptsPushesForGrantedTickets) {
  WorkerHarness prefill({.role = WorkerRole::kPrefill}), decode({});
  const auto generation = MakeGeneration(10, 6);
  ReservedCall waiting(decode, generation);
  decode.core().BeginDrain();
  PrefillCall prefill_call(prefill, PrefillRequestFor(generation, waiting.reserved, decode));
  prefill_call.ReadAll();
  EXPECT_TRUE(prefill_call.Finish().ok());
  waiting.call.ReadAll();
  EXPECT_TRUE(waiting.call.Finish().ok());
  EXPECT_EQ(waiting.call.tokens.size(), 6u);
}

TEST(DrainTest, WhatIsLeftAtTheTimeoutEndsAsDrained) {
  WorkerHarness worker({});
  worker.control().Pause();
  DecodeCall running(worker, LocalStart(MakeGeneration(10, 100)));
  ASSERT_TRUE(Eventually([&] { return worker.figures().running == 1; }));
  worker.core().BeginDrain();
  EXPECT_FALSE(worker.core().WaitUntilIdle(base::SteadyClock().Now()));
  worker.core().EndStreams();
  running.ReadAll();
  const absl::Status status = running.Finish();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(ReasonOf(status), Reason::kDrained);
  worker.control().Resume();
  EXPECT_TRUE(worker.Idle());
}

TEST(DrainTest, APrefillWorkerRefusesTooAndEndsAsDrained) {
  WorkerHarness prefill({.role = WorkerRole::kPrefill}), decode({});
  const auto generation = MakeGeneration(10, 6);
  ReservedCall waiting(decode, generation);
  const auto request = PrefillRequestFor(generation, waiting.reserved, decode);
  prefill.control().Pause();
  PrefillCall running(prefill, request);
  ASSERT_TRUE(Eventually([&] { return prefill.figures().running == 1; }));
  prefill.core().BeginDrain();
  PrefillCall late(prefill, request);
  late.ReadAll();
  EXPECT_EQ(ReasonOf(late.Finish()), Reason::kDraining);
  prefill.core().EndStreams();
  running.ReadAll();
  EXPECT_EQ(ReasonOf(running.Finish()), Reason::kDrained);
  prefill.control().Resume();
  EXPECT_TRUE(prefill.Idle());
}

TEST(SlowRouterTest, AStreamThatIsNotReadIsEndedAndOthersGoOn) {
  WorkerHarness::Options options;
  options.engine.max_model_len = 8000;
  options.num_blocks = 4000;
  options.timeouts.stream_buffer_bytes = 20'000;
  options.narrow_client = true;
  WorkerHarness worker(options);
  worker_pb::DecodeStart start = LocalStart(MakeGeneration(10, 7900));
  start.mutable_generation()->mutable_sampling()->set_num_top_logprobs(20);
  start.mutable_generation()->mutable_stopping()->set_eos_handling(
      worker_pb::EOS_HANDLING_IGNORE_CONTINUE);
  // Nobody reads; the flow-control window fills, then the worker's buffer.
  DecodeCall slow(worker, start);
  ASSERT_TRUE(Eventually([&] { return worker.figures().generated_tokens > 0; }));
  EXPECT_TRUE(Eventually([&] { return worker.core().streams() == 0; }));
  slow.ReadAll();
  EXPECT_FALSE(slow.Finish().ok());
  EXPECT_FALSE(slow.final);
  DecodeCall other(worker, LocalStart());
  other.ReadAll();
  EXPECT_TRUE(other.Finish().ok());
  EXPECT_TRUE(worker.Idle());
}

}  // namespace
}  // namespace baton
