// The sending half of a handoff when something breaks.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <semaphore>
#include <vector>

#include "common/base/failpoint.h"
#include "common/base/status.h"
#include "tests/fakes/stuck_file.h"
#include "tests/fakes/worker_harness.h"

namespace baton {
namespace {

WorkerHarness::Options PrefillOptions() { return {.role = WorkerRole::kPrefill}; }

std::string ValueOf(const absl::Status& status, const std::string& key) {
  for (const auto& [name, value] : DetailOf(status).values) {
    if (name == key) return value;
  }
  return "";
}

TEST(PushFaultsTest, AStaleTicketIsPushFailedWithTheReason) {
  WorkerHarness prefill(PrefillOptions()), decode({});
  const auto generation = MakeGeneration(10, 6);
  ReservedCall reserving(decode, generation);
  auto request = PrefillRequestFor(generation, reserving.reserved, decode);
  reserving.call.Cancel();
  ASSERT_TRUE(decode.Idle());
  PrefillCall call(prefill, request);
  call.ReadAll();
  const absl::Status status = call.Finish();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(ReasonOf(status), Reason::kPushFailed) << status;
  EXPECT_EQ(ValueOf(status, "push_reason"), "UNKNOWN_TICKET");
  EXPECT_EQ(ValueOf(status, "push_code"), "NOT_FOUND");
  EXPECT_EQ(prefill.failed_pushes(), std::vector{Reason::kUnknownTicket});
  EXPECT_TRUE(prefill.Idle());
}

TEST(PushFaultsTest, AnUnreachableDecodeWorkerIsPushFailed) {
  WorkerHarness prefill(PrefillOptions());
  const auto generation = MakeGeneration(10, 6);
  worker_pb::PrefillRequest request;
  {
    WorkerHarness decode({});
    ReservedCall reserving(decode, generation);
    request = PrefillRequestFor(generation, reserving.reserved, decode);
    reserving.call.Cancel();
  }
  PrefillCall call(prefill, request);
  call.ReadAll();
  EXPECT_EQ(ReasonOf(call.Finish()), Reason::kPushFailed);
  EXPECT_EQ(prefill.failed_pushes(), std::vector{Reason::kPushFailed});
  EXPECT_TRUE(prefill.Idle());
}

// The client may have left, and the decode worker heard of it first.
TEST(PushFaultsTest, APushWhoseDecodeStreamIsOverIsNoFailure) {
  auto options = PrefillOptions();
  options.engine.max_prefill_tokens = 8;
  WorkerHarness prefill(options), decode({});
  const auto generation = MakeGeneration(64, 6);
  ReservedCall reserving(decode, generation);
  std::binary_semaphore may_go_on(0);
  prefill.control().set_on_step([&](const StepPlan& plan) {
    if (plan.step == 3) may_go_on.acquire();
  });
  PrefillCall call(prefill, PrefillRequestFor(generation, reserving.reserved, decode));
  EXPECT_TRUE(Eventually([&] {
    return std::ranges::any_of(decode.arena(), [](std::byte b) { return b != std::byte(0); });
  })) << "the first blocks arrive";
  reserving.call.Cancel();
  call.ReadAll();
  const absl::Status status = call.Finish();
  may_go_on.release();
  EXPECT_EQ(ReasonOf(status), Reason::kPushFailed) << status;
  EXPECT_EQ(ValueOf(status, "push_reason"), "REVOKED");
  EXPECT_TRUE(prefill.failed_pushes().empty());
  EXPECT_TRUE(decode.refused_pushes().empty());
  EXPECT_TRUE(prefill.Idle());
  EXPECT_TRUE(decode.Idle());
}

TEST(PushFaultsTest, TokensFlowWhileAPushIsBeingOpened) {
  StuckFile certificate;
  auto options = PrefillOptions();
  options.push_tls = {.cert_file = certificate.path(), .key_file = "-", .ca_file = "-"};
  WorkerHarness prefill(options), decode({});
  const auto generation = MakeGeneration(10, 6);
  ReservedCall one(decode, generation), other(decode, generation);
  PrefillCall opening(prefill, PrefillRequestFor(generation, one.reserved, decode));
  const bool stuck = certificate.WaitForReader();
  PrefillCall behind(prefill, PrefillRequestFor(generation, other.reserved, decode));
  worker_pb::PrefillResponse first, second;
  const bool flows = stuck && opening.Read(&first) && behind.Read(&second);
  certificate.Release();
  EXPECT_TRUE(stuck);
  EXPECT_TRUE(flows);
  EXPECT_TRUE(first.has_first_token());
  EXPECT_TRUE(second.has_first_token());
  // The certificate turns out to be none.
  EXPECT_EQ(ReasonOf(opening.Finish()), Reason::kPushFailed);
  EXPECT_EQ(ReasonOf(behind.Finish()), Reason::kPushFailed);
  EXPECT_TRUE(prefill.Idle());
}

TEST(PushFaultsTest, ADecodeWorkerThatAcceptsNothingIsGivenUp) {
  auto options = PrefillOptions();
  options.timeouts.piece = std::chrono::milliseconds(100);
  WorkerHarness prefill(options), decode({});
  const auto generation = MakeGeneration(10, 6);
  ReservedCall reserving(decode, generation);
  // Every piece takes longer than the sender's patience.
  ASSERT_TRUE(base::ArmFailpoints("receiving:delay_ms=500").ok());
  PrefillCall call(prefill, PrefillRequestFor(generation, reserving.reserved, decode));
  call.ReadAll();
  const absl::Status status = call.Finish();
  EXPECT_TRUE(call.first) << "the first token does not wait for the push";
  EXPECT_EQ(ReasonOf(status), Reason::kPushFailed) << status;
  EXPECT_NE(ValueOf(status, "push_message").find("accepted nothing"), std::string::npos) << status;
  EXPECT_TRUE(prefill.Idle());
  base::DisarmFailpoints();
}

TEST(PushFaultsTest, CancelInEveryPhaseFreesBothSides) {
  for (const int32_t steps_before : {0, 1, 3}) {
    auto options = PrefillOptions();
    options.engine.max_prefill_tokens = 8;
    WorkerHarness prefill(options), decode({});
    const auto generation = MakeGeneration(64, 6);
    ReservedCall reserving(decode, generation);
    if (steps_before == 0) prefill.control().Pause();
    PrefillCall call(prefill, PrefillRequestFor(generation, reserving.reserved, decode));
    ASSERT_TRUE(Eventually(
        [&] { return prefill.control().steps() >= static_cast<uint64_t>(steps_before); }));
    call.Cancel();
    reserving.call.Cancel();
    call.ReadAll();
    EXPECT_FALSE(call.Finish().ok() && steps_before == 0);
    prefill.control().Resume();
    EXPECT_TRUE(prefill.Idle()) << steps_before;
    EXPECT_TRUE(decode.Idle()) << steps_before;
  }
}

TEST(PushFaultsTest, AStreamThatEndsWhileItIsAdmittedEndsItsPush) {
  auto options = PrefillOptions();
  options.timeouts.progress = std::chrono::milliseconds(100);
  WorkerHarness prefill(options);
  options = {};
  options.timeouts.reservation_silence = std::chrono::seconds(1);
  WorkerHarness decode(options);
  const auto generation = MakeGeneration(10, 6);
  ReservedCall reserving(decode, generation);
  ASSERT_TRUE(base::ArmFailpoints("accepted:delay_ms=300").ok());
  PrefillCall call(prefill, PrefillRequestFor(generation, reserving.reserved, decode));
  const bool began = Eventually([&] { return prefill.core().streams() == 1; });
  prefill.core().EndStreams();
  call.ReadAll();
  base::DisarmFailpoints();
  EXPECT_TRUE(began);
  EXPECT_EQ(ReasonOf(call.Finish()), Reason::kDrained);
  // A push that went on would give signs of life.
  reserving.call.ReadAll();
  EXPECT_EQ(ReasonOf(reserving.call.Finish()), Reason::kExpired);
  EXPECT_TRUE(prefill.Idle());
  EXPECT_TRUE(decode.Idle());
}

TEST(PushFaultsTest, RefusesARequestForAnotherWorkerBeforeAnyWork) {
  WorkerHarness prefill(PrefillOptions()), decode({});
  const auto generation = MakeGeneration(10, 6);
  ReservedCall reserving(decode, generation);
  const auto good = PrefillRequestFor(generation, reserving.reserved, decode);
  const auto refusal = [&](const worker_pb::PrefillRequest& request) {
    PrefillCall call(prefill, request);
    call.ReadAll();
    EXPECT_FALSE(call.first);
    return call.Finish();
  };
  auto layout = good;
  layout.mutable_layout()->set_block_size(8);
  EXPECT_EQ(ReasonOf(refusal(layout)), Reason::kLayoutMismatch);
  for (const int32_t ranks : {-1, 0, 1 << 30}) {
    layout = good;
    layout.mutable_layout()->set_tensor_parallel(ranks);
    EXPECT_EQ(ReasonOf(refusal(layout)), Reason::kLayoutMismatch) << ranks;
  }
  auto model = good;
  model.mutable_generation()->set_model_fingerprint("fp-b");
  EXPECT_EQ(ReasonOf(refusal(model)), Reason::kLayoutMismatch);
  auto ticket = good;
  ticket.mutable_ticket()->set_secret("short");
  EXPECT_EQ(ReasonOf(refusal(ticket)), Reason::kUnknownTicket);
  auto skip = good;
  skip.set_skip_blocks(4);
  EXPECT_EQ(refusal(skip).code(), absl::StatusCode::kInvalidArgument);
  auto address = good;
  address.clear_push_address();
  EXPECT_EQ(refusal(address).code(), absl::StatusCode::kInvalidArgument);
  auto name = good;
  name.mutable_generation()->set_request_id(std::string(257, 'x'));
  EXPECT_EQ(ReasonOf(refusal(name)), Reason::kLimitExceeded);
  auto id = good;
  id.mutable_generation()->set_prompt_ids(0, -1);
  EXPECT_EQ(ReasonOf(refusal(id)), Reason::kInvalidTokenId);
  EXPECT_EQ(prefill.figures().steps, 0u);
  // The reservation was not touched: another prefill worker may use it.
  PrefillCall call(prefill, good);
  call.ReadAll();
  EXPECT_TRUE(call.Finish().ok());
}

TEST(PushFaultsTest, AFullPrefillQueueIsRefused) {
  auto options = PrefillOptions();
  options.engine.max_num_seqs = 1;
  options.engine.max_num_queued_reqs = 1;
  WorkerHarness prefill(options), decode({});
  prefill.control().Pause();
  std::vector<std::unique_ptr<ReservedCall>> reservings;
  std::vector<std::unique_ptr<PrefillCall>> calls;
  for (int32_t i = 0; i < 3; ++i) {
    const auto generation = MakeGeneration(10, 6, i);
    reservings.push_back(std::make_unique<ReservedCall>(decode, generation));
    calls.push_back(std::make_unique<PrefillCall>(
        prefill, PrefillRequestFor(generation, reservings.back()->reserved, decode)));
    if (i == 0) {
      ASSERT_TRUE(Eventually([&] { return prefill.figures().running == 1; }));
    }
    if (i == 1) {
      ASSERT_TRUE(Eventually([&] { return prefill.admitted() == 2; }));
    }
  }
  calls[2]->ReadAll();
  EXPECT_EQ(ReasonOf(calls[2]->Finish()), Reason::kFull);
  prefill.control().Resume();
}

// Its push is open, so the ticket is of no use to another prefill worker, as it would be after
// FULL.
TEST(PushFaultsTest, APromptThatWaitsTooLongBehindReservationsAsksForANewAttempt) {
  WorkerHarness::Options elastic;
  elastic.elastic = true;
  elastic.engine.max_num_seqs = 1;
  elastic.timeouts.default_reserve = std::chrono::milliseconds(100);
  WorkerHarness full(elastic), decode({});
  ReservedCall holds(full, MakeGeneration(10, 6));
  const auto generation = MakeGeneration(10, 6, 1);
  ReservedCall reserving(decode, generation);
  PrefillCall call(full, PrefillRequestFor(generation, reserving.reserved, decode));
  call.ReadAll();
  const absl::Status status = call.Finish();
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
  EXPECT_EQ(ReasonOf(status), Reason::kRevoked) << status;
  EXPECT_FALSE(call.first);
  holds.call.Cancel();
  reserving.call.Cancel();
  EXPECT_TRUE(full.Idle());
  EXPECT_TRUE(decode.Idle());
}

}  // namespace
}  // namespace baton
