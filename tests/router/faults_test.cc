#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "absl/strings/str_cat.h"
#include "tests/router/faults_fixture.h"

namespace baton::testing {
namespace {

using ::testing::ElementsAreArray;

class ForeignTokenTest : public FaultsTest, public ::testing::WithParamInterface<int32_t> {};

// It does not reach the client: the worker that says so is wrong, and the next attempt goes on.
TEST_P(ForeignTokenTest, IsTheWorkersFault) {
  const auto said = std::make_shared<std::atomic<bool>>(false);
  for (int i = 0; i < 2; ++i) {
    AddDecode([&](FakeWorkerOptions& worker) {
      worker.model = [said](const std::vector<int32_t>& history) {
        const size_t index = history.size() - std::string("fault").size() - 1;  // and BOS
        return index == 3 && !said->exchange(true) ? GetParam() : FakeLetter(history);
      };
    });
  }
  StartRouter();
  ExpectUndisturbed(Generate(Request("fault", 12)), 2);
  EXPECT_EQ(Metric("baton_attempts_total{outcome=\"other\""), 1);
}

constexpr int32_t kVocab = 320;
INSTANTIATE_TEST_SUITE_P(Ids, ForeignTokenTest, ::testing::Values(-1, kVocab, 1 << 30));

TEST_F(FaultsTest, ALengthThatIsNotReachedIsTheWorkersFault) {
  for (int i = 0; i < 2; ++i) {
    AddDecode([](FakeWorkerOptions& worker) { worker.cut_index = 4; });
  }
  StartRouter();
  ExpectUndisturbed(Generate(Request("fault", 12)), 2);
  EXPECT_EQ(Metric("baton_attempts_total{outcome=\"other\""), 1);
}

struct FaultCase {
  std::string name;
  FakePoint point;
  int32_t index;
};

class EveryPointTest : public FaultsTest, public ::testing::WithParamInterface<FaultCase> {};

TEST_P(EveryPointTest, WorkerThatDiesThereCostsAnAttemptAndNoToken) {
  StartSplit(OneFault{GetParam().point, GetParam().index, FakeAction::Die()});
  ExpectUndisturbed(Generate(Request("fault", 12)), 2);
  // A replay whose first token is the last one is released, not finished.
  EXPECT_EQ(Metric("baton_attempts_total{outcome=\"finished\"") +
                Metric("baton_attempts_total{outcome=\"released\""),
            1);
}

TEST_P(EveryPointTest, StreamThatBreaksThereCostsAnAttemptAndNoToken) {
  StartSplit(OneFault{GetParam().point, GetParam().index, FakeAction::Fail(Lost())});
  ExpectUndisturbed(Generate(Request("fault", 12)), 2);
  EXPECT_EQ(Metric("baton_attempts_total{outcome=\"stream_broken\""), 1);
}

TEST_P(EveryPointTest, OneWorkerOfEachRoleIsEnoughToRecover) {
  StartSplit(OneFault{GetParam().point, GetParam().index, FakeAction::Fail(Lost())}, 1);
  ExpectUndisturbed(Generate(Request("fault", 12)), 2);
}

TEST_P(EveryPointTest, ClientThatCancelsThereLeavesNoStreamBehind) {
  StartSplit(OneFault{GetParam().point, GetParam().index, FakeAction::Hang()});
  grpc::ClientContext context;
  const auto reader = stub_->Generate(&context, Request("fault", 12));
  const auto open = [&] {
    int streams = 0;
    for (const auto& worker : decode_) streams += worker->open_streams();
    for (const auto& worker : prefill_) streams += worker->open_streams();
    return streams;
  };
  ASSERT_TRUE(Eventually([&] { return open() > 0; }));
  context.TryCancel();
  EXPECT_EQ(ReadAnswer(reader.get()).status.code(), absl::StatusCode::kCancelled);
  EXPECT_TRUE(Eventually([&] { return open() == 0; })) << open();
  EXPECT_TRUE(Eventually([&] { return router_->in_flight() == 0; }));
  EXPECT_EQ(Metric("baton_request_failure_total{finished_reason=\"abort\""), 1);
}

TEST_P(EveryPointTest, DeadlineThatPassesThereEndsTheRequest) {
  options_.deadlines.request = std::chrono::milliseconds(300);
  StartSplit(OneFault{GetParam().point, GetParam().index, FakeAction::Hang()});
  const Answer answer = Generate(Request("fault", 12));
  EXPECT_EQ(answer.status.code(), absl::StatusCode::kDeadlineExceeded) << answer.status;
  EXPECT_TRUE(Eventually([&] { return router_->in_flight() == 0; }));
}

INSTANTIATE_TEST_SUITE_P(Points, EveryPointTest,
                         ::testing::Values(FaultCase{"DecodeOpen", FakePoint::kDecodeOpen, -1},
                                           FaultCase{"Reserved", FakePoint::kReserved, -1},
                                           FaultCase{"PrefillOpen", FakePoint::kPrefillOpen, -1},
                                           FaultCase{"FirstToken", FakePoint::kFirstToken, -1},
                                           FaultCase{"Commit", FakePoint::kCommit, -1},
                                           FaultCase{"Started", FakePoint::kStarted, -1},
                                           FaultCase{"SecondToken", FakePoint::kToken, 1},
                                           FaultCase{"LaterToken", FakePoint::kToken, 7},
                                           FaultCase{"LastToken", FakePoint::kToken, 11}),
                         [](const auto& test) { return test.param.name; });

TEST_F(FaultsTest, WorkerThatDiesBeforeItsFinalWordIsNotNeededAgain) {
  StartSplit(OneFault{FakePoint::kFinal, -1, FakeAction::Die()});
  ExpectUndisturbed(Generate(Request("fault", 12)), 1);
}

TEST_F(FaultsTest, PrefillWorkerThatDiesAfterTheCommitDisturbsNothing) {
  StartSplit(OneFault{FakePoint::kPrefillFinal, -1, FakeAction::Hang()});
  ExpectUndisturbed(Generate(Request("fault", 12)), 1);
}

TEST_F(FaultsTest, GapInAnAttemptEndsTheAttempt) {
  StartSplit(OneFault{FakePoint::kToken, 5, FakeAction::Skip()});
  ExpectUndisturbed(Generate(Request("fault", 12)), 2);
}

TEST_F(FaultsTest, FirstTokensThatDisagreeEndTheAttempt) {
  // The decode workers' model draws another first token; what was sent stays.
  auto prefill = WorkerOptions(worker::v1::WORKER_ROLE_PREFILL);
  AddPrefill(prefill);
  auto decode = WorkerOptions(worker::v1::WORKER_ROLE_DECODE);
  OneFault once{FakePoint::kStarted, -1, FakeAction::Skip()};
  decode.script = once;
  AddDecode(decode);
  StartRouter();
  ExpectUndisturbed(Generate(Request("fault", 12)), 2);
}

TEST_F(FaultsTest, WorkerThatDoesNotKnowACallCostsAnAttemptAndNoRequest) {
  for (const FakePoint point : {FakePoint::kDecodeOpen, FakePoint::kPrefillOpen}) {
    decode_.clear();
    prefill_.clear();
    router_.reset();
    StartSplit(OneFault{point, -1, FakeAction::Fail(absl::UnimplementedError("no such call"))});
    const Answer answer = Generate(Request("fault", 12));
    EXPECT_LE(answer.final->attempts(), 2);
    ExpectUndisturbed(answer, answer.final->attempts());
  }
}

TEST_F(FaultsTest, PrefillRefusedBeforeAnyWorkGoesToAnotherUnderTheSameReservation) {
  StartSplit(
      OneFault{FakePoint::kPrefillOpen, -1,
               FakeAction::Fail(WithReason(absl::StatusCode::kResourceExhausted, Reason::kFull))});
  ExpectUndisturbed(Generate(Request("fault", 12)), 1);
  EXPECT_EQ(prefill_[0]->prefill_streams() + prefill_[1]->prefill_streams(), 2);
  EXPECT_EQ(decode_[0]->decode_streams() + decode_[1]->decode_streams(), 1);
  EXPECT_EQ(Metric("baton_router_worker_retries_total{outcome=\"accepted\""), 1);
}

// Whether an answer has run away hangs on the last chance to end, which a replay brings along.
TEST_F(FaultsTest, AReplayTellsWhenTheAnswerCouldLastEnd) {
  for (const bool had_one : {true, false}) {
    FakeWorker* const worker = AddDecode([&](FakeWorkerOptions& options) {
      options.script = OneFault{FakePoint::kToken, 7, FakeAction::Fail(Lost())};
      if (had_one) options.end_chances = {2, 4, 9};
    });
    StartRouter();
    ExpectUndisturbed(Generate(Request("fault", 12)), 2);
    ASSERT_EQ(worker->seen().size(), 2u);
    EXPECT_EQ(worker->seen()[0].end_chance_step(), 0);
    EXPECT_TRUE(worker->seen()[1].has_end_chance_step());
    EXPECT_EQ(worker->seen()[1].end_chance_step(), had_one ? 5 : 0);
    decode_.clear();
  }
}

TEST_F(FaultsTest, AnAnswerThatGoesOnWithOtherNumericsIsCounted) {
  for (const bool other : {false, true}) {
    const OneFault fault{FakePoint::kToken, 7, FakeAction::Die()};
    for (const char* numerics : {"cpu/kv-int8", other ? "cpu/kv-bfloat16" : "cpu/kv-int8"}) {
      AddDecode([&](FakeWorkerOptions& options) {
        options.script = fault;
        options.numerics = numerics;
      });
    }
    StartRouter();
    ExpectUndisturbed(Generate(Request("fault", 12)), 2);
    EXPECT_EQ(Metric("baton_router_numerics_mismatch_total"), other ? 1 : 0);
    decode_.clear();
  }
}

// Only workers whose tokens were taken count: one that was asked and had no room wrote nothing.
TEST_F(FaultsTest, AFullWorkerOfOtherNumericsIsNoChangeOfThem) {
  AddDecode([](FakeWorkerOptions& options) {
    options.script = OneFault{FakePoint::kToken, 7, FakeAction::Fail(Lost())};
    options.numerics = "cpu/kv-int8";
  });
  AddDecode([](FakeWorkerOptions& options) {
    options.script = [](const FakeMoment& moment) {
      if (moment.point != FakePoint::kDecodeOpen) return FakeAction::Go();
      return FakeAction::Fail(WithReason(absl::StatusCode::kResourceExhausted, Reason::kFull));
    };
    options.numerics = "cpu/kv-bfloat16";
  });
  StartRouter();
  ExpectUndisturbed(Generate(Request("fault", 12)), 2);
  EXPECT_GE(Metric("baton_attempts_total{outcome=\"full\""), 1);
  EXPECT_EQ(Metric("baton_router_numerics_mismatch_total"), 0);
}

TEST_F(FaultsTest, FailedPushIsRepeatedOnAnotherPair) {
  StartSplit(
      OneFault{FakePoint::kCommit, -1,
               FakeAction::Fail(WithReason(absl::StatusCode::kUnavailable, Reason::kPushFailed))});
  const Answer answer = Generate(Request("fault", 12));
  ExpectUndisturbed(answer, 2);
  EXPECT_EQ(Metric("baton_attempts_total{outcome=\"push_failed\""), 1);
}

TEST_F(FaultsTest, FourCountedAttemptsEndTheRequestUnavailable) {
  StartSplit([](const FakeMoment& moment) {
    return moment.point == FakePoint::kToken && moment.index >= 3 ? FakeAction::Fail(Lost())
                                                                  : FakeAction::Go();
  });
  const Answer answer = Generate(Request("fault", 12));
  EXPECT_EQ(answer.status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(ReasonText(answer.status), "ATTEMPTS_EXHAUSTED");
  EXPECT_FALSE(answer.final.has_value());
  // Each attempt brings at least its first token, which is accepted: what was sent is right.
  const auto expected = Expected("fault", static_cast<int>(answer.ids.size()));
  EXPECT_THAT(answer.ids, ElementsAreArray(expected));
  EXPECT_EQ(Metric("baton_attempts_total{outcome=\"stream_broken\""), 4);
}

TEST_F(FaultsTest, RequestThatKilledThreeProcessesIsNotTriedAgain) {
  StartSplit(
      [](const FakeMoment& moment) {
        return moment.point == FakePoint::kToken && moment.index >= 3 ? FakeAction::Die()
                                                                      : FakeAction::Go();
      },
      5);
  const Answer answer = Generate(Request("fault", 12));
  EXPECT_EQ(answer.status.code(), absl::StatusCode::kInternal) << answer.status;
  EXPECT_EQ(ReasonText(answer.status), "REQUEST_KILLED_WORKERS");
  int dead = 0;
  for (const auto& worker : decode_) dead += worker->decode_streams() > 0;
  EXPECT_EQ(dead, 3);
}

TEST_F(FaultsTest, BrokenConnectionsToThreeLivingProcessesAreNotTheirDeaths) {
  options_.deadlines.settle = std::chrono::seconds(2);
  std::atomic<int> cut{0};
  const auto script = [&](const FakeMoment& moment) {
    const bool here = moment.point == FakePoint::kToken && moment.index >= 3 && cut < 3;
    if (here) ++cut;
    return here ? FakeAction::Die() : FakeAction::Go();
  };
  for (uint64_t i = 1; i <= 4; ++i) {
    AddDecode([&](FakeWorkerOptions& worker) {
      worker.script = script;
      worker.incarnation = i;
    });
  }
  StartRouter();
  Answer answer;
  std::thread client([&] { answer = Generate(Request("fault", 12)); });
  const auto gone = [](const auto& worker) {
    return worker->decode_streams() > 0 && worker->open_streams() == 0;
  };
  EXPECT_TRUE(Eventually([&] { return cut == 3 && std::ranges::count_if(decode_, gone) == 3; }));
  for (const auto& worker : decode_) {
    if (gone(worker)) worker->Restart();
  }
  client.join();
  ExpectUndisturbed(answer, 4);
}

TEST_F(FaultsTest, CommitWithoutStartedIsAFailedPush) {
  options_.deadlines.commit_to_started = std::chrono::milliseconds(100);
  options_.deadlines.slow_answer = std::chrono::milliseconds(200);
  StartSplit(OneFault{FakePoint::kStarted, -1, FakeAction::Hang()});
  ExpectUndisturbed(Generate(Request("fault", 12)), 2);
  EXPECT_EQ(Metric("baton_attempts_total{outcome=\"push_failed\""), 1);
}

TEST_F(FaultsTest, DecodeWorkerThatSpeaksButGivesNoBlocksIsFullAfterAWhile) {
  options_.deadlines.reserve = std::chrono::milliseconds(100);
  options_.deadlines.answer_grace = std::chrono::milliseconds(50);
  options_.deadlines.slow_answer = std::chrono::milliseconds(300);
  StartSplit(OneFault{FakePoint::kReserved, -1, FakeAction::Hang()});
  ExpectUndisturbed(Generate(Request("fault", 12)), 1);
  EXPECT_EQ(decode_[0]->seen().size() + decode_[1]->seen().size(), 2u);
  EXPECT_EQ(Metric("baton_attempts_total{outcome=\"full\""), 1);
}

TEST_F(FaultsTest, SlowAnswersOfALivingWorkerAreWaitedFor) {
  options_.deadlines.reserve = std::chrono::milliseconds(20);
  options_.deadlines.answer_grace = std::chrono::milliseconds(10);
  options_.deadlines.commit_to_started = std::chrono::milliseconds(20);
  StartSplit([this](const FakeMoment& moment) {
    const bool slow = moment.point == FakePoint::kReserved || moment.point == FakePoint::kStarted;
    const base::Instant until = clock_.Now() + std::chrono::milliseconds(150);
    if (slow) {
      EXPECT_TRUE(Eventually([&] { return clock_.Now() > until; }));
    }
    return FakeAction::Go();
  });
  for (int i = 0; i < 2; ++i) ExpectUndisturbed(Generate(Request("fault", 12)), 1);
  EXPECT_EQ(decode_[0]->decode_streams() + decode_[1]->decode_streams(), 2);
}

TEST_F(FaultsTest, LateFullIsFullAndNoBrokenStream) {
  options_.deadlines.reserve = std::chrono::milliseconds(20);
  options_.deadlines.answer_grace = std::chrono::milliseconds(10);
  const auto left = std::make_shared<std::atomic<int>>(5);
  StartSplit([this, left](const FakeMoment& moment) {
    if (moment.point != FakePoint::kReserved || left->fetch_sub(1) <= 0) return FakeAction::Go();
    const base::Instant until = clock_.Now() + std::chrono::milliseconds(60);
    EXPECT_TRUE(Eventually([&] { return clock_.Now() > until; }));
    return FakeAction::Fail(WithReason(absl::StatusCode::kResourceExhausted, Reason::kFull));
  });
  ExpectUndisturbed(Generate(Request("fault", 12)), 1);
  EXPECT_EQ(Metric("baton_attempts_total{outcome=\"full\""), 5);
  EXPECT_EQ(Metric("baton_attempts_total{outcome=\"stream_broken\""), 0);
}

TEST_F(FaultsTest, RestartedWorkerServesAgain) {
  StartSplit({}, 1);
  ExpectUndisturbed(Generate(Request("fault", 12)), 1);
  decode_[0]->Restart();
  prefill_[0]->Restart();
  ExpectUndisturbed(Generate(Request("fault", 12)), 1);
}

TEST_F(FaultsTest, WithoutHealthyPrefillWorkerTheDecodeWorkerPrefills) {
  StartSplit({}, 1);
  prefill_[0]->Kill();
  ASSERT_TRUE(Eventually([&] { return Metric("baton_router_worker_up") == 1; }));
  const Answer answer = Generate(Request("fault", 12));
  ExpectUndisturbed(answer, 1);
  EXPECT_EQ(answer.final->prefill_worker(), "");
}

}  // namespace
}  // namespace baton::testing
