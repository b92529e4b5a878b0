// How requests end, and what the client is told about it.
#include <gmock/gmock.h>

#include <atomic>
#include <memory>

#include "tests/router/router_fixture.h"

namespace baton::testing {
namespace {

using ::testing::ElementsAreArray;
using StopTest = RouterTest;

v1::StopParams* Stop(v1::GenerateRequest* request) {
  return request->mutable_spec()->mutable_stop();
}

TEST_F(StopTest, StopStringCutsTheTextAndReleasesTheWorker) {
  // Waits past the stop, so that it cannot have ended by itself.
  auto decode = WorkerOptions(worker::v1::WORKER_ROLE_DECODE);
  decode.script = [](const FakeMoment& moment) {
    const bool past = moment.point == FakePoint::kToken && moment.index >= 12;
    return past ? FakeAction::Hang() : FakeAction::Go();
  };
  AddDecode(decode);
  AddPrefill();
  StartRouter();
  const auto ids = Expected("stop", 40);
  const std::string text = TextOf(ids);
  v1::GenerateRequest request = Request("stop", 40);
  Stop(&request)->add_stop(text.substr(6, 4));
  const size_t at = text.find(text.substr(6, 4));
  const Answer answer = Generate(request);
  ASSERT_TRUE(answer.status.ok()) << answer.status;
  EXPECT_EQ(answer.text, text.substr(0, at));
  EXPECT_EQ(answer.final->finish_reason(), v1::FINISH_REASON_STOP_STRING);
  EXPECT_EQ(answer.final->stop_cause(), v1::STOP_CAUSE_STRING);
  EXPECT_EQ(answer.final->stop_string(), text.substr(6, 4));
  EXPECT_EQ(answer.final->usage().completion_tokens(), static_cast<int>(at) + 4);
  EXPECT_EQ(answer.ids.size(), at + 4);
  ASSERT_TRUE(Eventually([&] { return cluster_.endings().size() == 1; }));
  EXPECT_EQ(cluster_.endings()[0].release, worker::v1::FINISH_CAUSE_STOP_STRING);
  EXPECT_EQ(Metric("baton_attempts_total{engine=\"0\",model_name=\"tiny\",role=\"router\","
                   "outcome=\"released\""),
            1);
}

TEST_F(StopTest, StopStringStaysWhenAskedFor) {
  AddDecode();
  StartRouter();
  const std::string text = TextOf(Expected("stop", 12));
  v1::GenerateRequest request = Request("stop", 40);
  Stop(&request)->add_stop(text.substr(6, 4));
  Stop(&request)->set_include_stop_in_output(true);
  EXPECT_EQ(Generate(request).text, text.substr(0, text.find(text.substr(6, 4)) + 4));
}

TEST_F(StopTest, StopStringsAreIgnoredUntilMinTokens) {
  const auto model = [](const std::vector<int32_t>&) { return int32_t{'x'}; };
  AddDecode([&](FakeWorkerOptions& worker) { worker.model = model; });
  StartRouter();
  v1::GenerateRequest request = Request("stop", 20);
  Stop(&request)->add_stop("x");
  Stop(&request)->set_min_tokens(5);
  const Answer answer = Generate(request);
  EXPECT_EQ(answer.text, "xxxxx");
  EXPECT_EQ(answer.final->usage().completion_tokens(), 6);
}

TEST_F(StopTest, HeldBackTextIsFlushedAtTheEnd) {
  const auto model = [](const std::vector<int32_t>&) { return int32_t{'x'}; };
  AddDecode([&](FakeWorkerOptions& worker) { worker.model = model; });
  StartRouter();
  v1::GenerateRequest request = Request("stop", 3);
  Stop(&request)->add_stop("xxxx");
  const Answer answer = Generate(request);
  EXPECT_EQ(answer.text, "xxx");
  EXPECT_EQ(answer.final->finish_reason(), v1::FINISH_REASON_LENGTH);
}

TEST_F(StopTest, ARunawayThatTheWorkerEndsIsTold) {
  AddDecode([](FakeWorkerOptions& worker) { worker.runaway_index = 6; });
  StartRouter();
  const Answer answer = Generate(Request("loop", 40));
  ASSERT_TRUE(answer.status.ok()) << answer.status;
  EXPECT_THAT(answer.ids, ElementsAreArray(Expected("loop", 7)));
  EXPECT_EQ(answer.text, TextOf(answer.ids)) << "its last token is text like the others";
  EXPECT_EQ(answer.final->finish_reason(), v1::FINISH_REASON_RUNAWAY);
  EXPECT_EQ(answer.final->stop_cause(), v1::STOP_CAUSE_RUNAWAY);
  EXPECT_FALSE(answer.final->has_stop_token_id());
  EXPECT_FALSE(answer.final->usage().has_natural_end_step());
  EXPECT_EQ(Metric("baton_request_success_total{engine=\"0\",model_name=\"tiny\","
                   "role=\"router\",finished_reason=\"length\",stop_cause=\"runaway\""),
            1);
}

// Nobody else would end it at that token.
TEST_F(StopTest, ARunawayNeedsNoFurtherWordOfItsWorker) {
  const auto died = std::make_shared<std::atomic<bool>>(false);
  for (int i = 0; i < 2; ++i) {
    AddDecode([&](FakeWorkerOptions& worker) {
      worker.runaway_index = 6;
      worker.script = [died](const FakeMoment& moment) {
        const bool last = moment.point == FakePoint::kFinal && !died->exchange(true);
        return last ? FakeAction::Die() : FakeAction::Go();
      };
    });
  }
  StartRouter();
  const Answer answer = Generate(Request("loop", 40));
  ASSERT_TRUE(answer.status.ok()) << answer.status;
  EXPECT_TRUE(*died);
  EXPECT_THAT(answer.ids, ElementsAreArray(Expected("loop", 7)));
  EXPECT_EQ(answer.final->finish_reason(), v1::FINISH_REASON_RUNAWAY);
  EXPECT_EQ(answer.final->attempts(), 1);
}

TEST_F(StopTest, LengthControlReachesTheWorker) {
  FakeWorker* const worker = AddDecode();
  StartRouter();
  v1::GenerateRequest request = Request("length", 4);
  Stop(&request)->mutable_length_control()->set_target(30);
  Stop(&request)->mutable_length_control()->set_strength(1.5F);
  ASSERT_TRUE(Generate(request).status.ok());
  ASSERT_TRUE(Generate(Request("none", 4)).status.ok());
  ASSERT_EQ(worker->seen().size(), 2u);
  EXPECT_EQ(worker->seen()[0].stopping().length_control().target(), 30);
  EXPECT_EQ(worker->seen()[0].stopping().length_control().strength(), 1.5F);
  EXPECT_FALSE(worker->seen()[1].stopping().has_length_control());
}

TEST_F(StopTest, StopTokenIdEndsAndIsNamed) {
  AddDecode();
  StartRouter();
  const auto ids = Expected("stop", 12);
  v1::GenerateRequest request = Request("stop", 12);
  Stop(&request)->add_stop_token_ids(ids[5]);
  const Answer answer = Generate(request);
  EXPECT_EQ(answer.final->finish_reason(), v1::FINISH_REASON_STOP_TOKEN);
  EXPECT_EQ(answer.final->stop_cause(), v1::STOP_CAUSE_TOKEN);
  EXPECT_EQ(answer.final->stop_token_id(), ids[5]);
  EXPECT_EQ(answer.ids.back(), ids[5]);
}

TEST_F(StopTest, EosAtTheLastAllowedIndexIsEos) {
  const auto model = [](const std::vector<int32_t>& history) {
    return history.size() >= 8 ? kEos : FakeLetter(history);
  };
  AddDecode([&](FakeWorkerOptions& worker) { worker.model = model; });
  StartRouter();
  const Answer answer = Generate(Request("hello", 3));
  EXPECT_EQ(answer.ids.size(), 3u);
  EXPECT_EQ(answer.final->finish_reason(), v1::FINISH_REASON_STOP_EOS);
}

TEST_F(StopTest, IgnoredEosIsFedBackAndItsTextIsSkipped) {
  const auto model = [](const std::vector<int32_t>& history) {
    return history.size() == 8 ? kEos : FakeLetter(history);
  };
  AddDecode([&](FakeWorkerOptions& worker) { worker.model = model; });
  StartRouter();
  v1::GenerateRequest request = Request("hello", 6);
  Stop(&request)->set_eos_policy(v1::EOS_POLICY_IGNORE_CONTINUE);
  const Answer answer = Generate(request);
  EXPECT_THAT(answer.ids, ElementsAreArray(Expected("hello", 6, model)));
  EXPECT_EQ(answer.text.size(), 5u);
  EXPECT_EQ(answer.final->finish_reason(), v1::FINISH_REASON_LENGTH);
  EXPECT_EQ(Metric("baton_ignore_eos_requests_total{engine=\"0\",model_name=\"tiny\","
                   "role=\"router\",policy=\"continue\""),
            1);
}

TEST_F(StopTest, WorkerThatGoesOnPastTheEndIsReleased) {
  // The worker does not know the EOS id; the router does.
  const auto model = [](const std::vector<int32_t>& history) {
    return history.size() == 8 ? kEos : FakeLetter(history);
  };
  AddDecode([&](FakeWorkerOptions& worker) {
    worker.model = model;
    worker.eos_ids = {};
  });
  StartRouter();
  const Answer answer = Generate(Request("hello", 20));
  ASSERT_TRUE(answer.status.ok()) << answer.status;
  EXPECT_EQ(answer.ids.size(), 3u);
  EXPECT_EQ(answer.final->finish_reason(), v1::FINISH_REASON_STOP_EOS);
}

TEST_F(StopTest, CharactersAreNeverSplit) {
  // "é" is two byte tokens; the answer alternates between its halves.
  const auto model = [](const std::vector<int32_t>& history) {
    return history.size() % 2 == 0 ? int32_t{0xc3} : int32_t{0xa9};
  };
  AddDecode([&](FakeWorkerOptions& worker) { worker.model = model; });
  StartRouter();
  const Answer answer = Generate(Request("abcde", 6));
  EXPECT_EQ(answer.text, "ééé");
  for (const auto& message : answer.messages) {
    EXPECT_EQ(message.delta().text().size() % 2, 0u);
  }
}

}  // namespace
}  // namespace baton::testing
