#include <gmock/gmock.h>

#include <atomic>
#include <map>
#include <thread>

#include "common/sample/answer_seed.h"
#include "tests/router/router_fixture.h"

// Several answers to one request.
namespace baton::testing {
namespace {

using ::testing::ElementsAre;

// What a stream brought of one of its answers.
struct OneAnswer {
  std::string text;
  std::vector<int32_t> ids;
  std::vector<v1::TokenLogprobs> logprobs;
  std::optional<v1::Final> final;
};

std::map<int32_t, OneAnswer> AnswersIn(const Answer& answer) {
  std::map<int32_t, OneAnswer> answers;
  for (const v1::GenerateResponse& message : answer.messages) {
    if (message.has_delta()) {
      const v1::Delta& delta = message.delta();
      OneAnswer& one = answers[delta.index()];
      EXPECT_FALSE(one.final.has_value()) << "output behind the end of answer " << delta.index();
      one.text += delta.text();
      one.ids.insert(one.ids.end(), delta.token_ids().begin(), delta.token_ids().end());
      one.logprobs.insert(one.logprobs.end(), delta.logprobs().begin(), delta.logprobs().end());
    }
    if (message.has_final()) answers[message.final().index()].final = message.final();
  }
  return answers;
}

class AnswersTest : public RouterTest {
 protected:
  void Start(int decode, int prefill, FakeWorkerOptions more = {}) {
    const auto draw = [&](FakeWorkerOptions& worker) {
      worker.draws_by_seed = true;
      worker.script = more.script;
      worker.token_delay = more.token_delay;
    };
    for (int i = 0; i < decode; ++i) AddDecode(draw);
    for (int i = 0; i < prefill; ++i) AddPrefill(draw);
    StartRouter();
  }

  static v1::GenerateRequest Several(int32_t n, int32_t best_of = 0) {
    v1::GenerateRequest request = Request("hello", 9);
    request.mutable_spec()->mutable_sampling()->set_seed(kSeed);
    request.mutable_spec()->mutable_sampling()->set_n(n);
    if (best_of > 0) request.mutable_spec()->mutable_sampling()->set_best_of(best_of);
    return request;
  }
  // The same request alone, with the seed of the answer of that index.
  Answer Alone(int32_t index) {
    v1::GenerateRequest request = Request("hello", 9);
    request.mutable_spec()->mutable_sampling()->set_seed(SeedOfAnswer(kSeed, index));
    request.mutable_spec()->mutable_output()->set_logprobs(0);
    return Generate(request);
  }
  void ExpectEachAsAlone(const Answer& answer, int32_t n) {
    ASSERT_TRUE(answer.status.ok()) << answer.status;
    const auto answers = AnswersIn(answer);
    ASSERT_EQ(answers.size(), static_cast<size_t>(n));
    for (const auto& [index, one] : answers) {
      const Answer alone = Alone(index);
      EXPECT_EQ(one.ids, alone.ids) << index;
      EXPECT_EQ(one.text, alone.text) << index;
      ASSERT_TRUE(one.final.has_value()) << index;
      EXPECT_EQ(one.final->seed(), SeedOfAnswer(kSeed, index));
      EXPECT_FALSE(one.final->has_score());
    }
  }
  void ExpectNothingLeft() {
    EXPECT_TRUE(Eventually([&] {
      for (const auto& worker : decode_) {
        if (worker->open_streams() > 0) return false;
      }
      return router_->in_flight() == 0 && Metric("baton_requests_inflight") == 0;
    }));
  }

  static constexpr uint64_t kSeed = 42;
};

TEST_F(AnswersTest, EachAnswerIsThatOfItsSeedAlone) {
  Start(1, 1);
  const Answer answer = Generate(Several(3));
  ExpectEachAsAlone(answer, 3);
  EXPECT_EQ(answer.started.seed(), kSeed);
  const auto answers = AnswersIn(answer);
  EXPECT_NE(answers.at(0).ids, answers.at(1).ids);
  EXPECT_NE(answers.at(1).ids, answers.at(2).ids);
  ExpectNothingLeft();
}

TEST_F(AnswersTest, EachIsTheSameWithoutPrefillWorkers) {
  Start(1, 0);
  ExpectEachAsAlone(Generate(Several(4)), 4);
}

TEST_F(AnswersTest, OthersBeginWhereTheFirstOneRuns) {
  Start(3, 2);
  const Answer answer = Generate(Several(4));
  ASSERT_TRUE(answer.status.ok()) << answer.status;
  const auto answers = AnswersIn(answer);
  EXPECT_EQ(answers.at(0).final->prefill_worker(),
            prefill_[0]->prefill_streams() > 0 ? prefill_[0]->address() : prefill_[1]->address());
  for (int32_t index = 1; index < 4; ++index) {
    EXPECT_EQ(answers.at(index).final->decode_worker(), answers.at(0).final->decode_worker());
    EXPECT_EQ(answers.at(index).final->prefill_worker(), "");
  }
  EXPECT_EQ(prefill_[0]->prefill_streams() + prefill_[1]->prefill_streams(), 1);
}

TEST_F(AnswersTest, OthersGoElsewhereWhereThereIsNoRoom) {
  std::atomic<bool> full{false};
  FakeWorkerOptions more;
  more.script = [&](const FakeMoment& moment) {
    const bool second = moment.generation.sampling().seed() == SeedOfAnswer(kSeed, 1);
    if (!second || moment.point != FakePoint::kDecodeOpen || full.exchange(true)) {
      return FakeAction::Go();
    }
    return FakeAction::Fail(MakeError(absl::StatusCode::kResourceExhausted,
                                      {.reason = Reason::kFull}, "told to be full"));
  };
  Start(2, 1, more);
  const Answer answer = Generate(Several(2));
  EXPECT_TRUE(full);
  const auto answers = AnswersIn(answer);
  ASSERT_TRUE(answer.status.ok()) << answer.status;
  EXPECT_NE(answers.at(1).final->decode_worker(), answers.at(0).final->decode_worker());
  EXPECT_EQ(answers.at(1).final->prefill_worker(), prefill_[0]->address());
  ExpectEachAsAlone(answer, 2);
}

TEST_F(AnswersTest, AnAnswerOfOneTokenDoesNotKeepTheOthersFromBeginning) {
  Start(1, 1);
  v1::GenerateRequest request = Several(3);
  request.mutable_spec()->mutable_stop()->set_max_tokens(1);
  const Answer answer = Generate(request);
  ASSERT_TRUE(answer.status.ok()) << answer.status;
  for (const auto& [index, one] : AnswersIn(answer)) EXPECT_EQ(one.ids.size(), 1U) << index;
  EXPECT_EQ(AnswersIn(answer).size(), 3U);
}

TEST_F(AnswersTest, UsageAndMetricsCountThePromptOnce) {
  Start(1, 1);
  const Answer answer = Generate(Several(3));
  const auto answers = AnswersIn(answer);
  int32_t prompt = 0, completion = 0;
  for (const auto& [index, one] : answers) {
    prompt += one.final->usage().prompt_tokens();
    completion += one.final->usage().completion_tokens();
  }
  EXPECT_EQ(prompt, 6);
  EXPECT_EQ(completion, 27);
  int32_t totals = 0;
  for (const auto& [index, one] : answers) totals += one.final->has_total_usage() ? 1 : 0;
  EXPECT_EQ(totals, 1);
  ASSERT_TRUE(answer.final->has_total_usage()) << "the last message of the stream";
  EXPECT_EQ(answer.final->total_usage().prompt_tokens(), 6);
  EXPECT_EQ(answer.final->total_usage().completion_tokens(), 27);
  ExpectNothingLeft();
  EXPECT_EQ(Metric("baton_prompt_tokens_total"), 6);
  EXPECT_EQ(Metric("baton_generation_tokens_total"), 27);
  EXPECT_EQ(Metric("baton_time_to_first_token_seconds_count"), 1);
  EXPECT_EQ(Metric("baton_request_success_total"), 1);
}

TEST_F(AnswersTest, ADeadWorkerCostsAPauseAndNoToken) {
  std::atomic<int> tokens{0};
  FakeWorkerOptions more;
  more.script = [&](const FakeMoment& moment) {
    const bool strike = moment.point == FakePoint::kToken && ++tokens == 12;
    return strike ? FakeAction::Die() : FakeAction::Go();
  };
  Start(2, 1, more);
  const Answer answer = Generate(Several(3));
  EXPECT_GE(tokens, 12);
  int32_t attempts = 0;
  for (const auto& [index, one] : AnswersIn(answer)) attempts += one.final->attempts();
  EXPECT_GT(attempts, 3);
  ExpectEachAsAlone(answer, 3);
}

TEST_F(AnswersTest, AnErrorOfOneEndsAll) {
  FakeWorkerOptions more;
  more.script = [&](const FakeMoment& moment) {
    const bool second = moment.generation.sampling().seed() == SeedOfAnswer(kSeed, 1);
    if (moment.point != FakePoint::kToken) return FakeAction::Go();
    if (!second) return moment.index > 2 ? FakeAction::Hang() : FakeAction::Go();
    return FakeAction::Fail(MakeError(absl::StatusCode::kInvalidArgument,
                                      {.reason = Reason::kInvalidSampling}, "told to fail"));
  };
  Start(1, 1, more);
  const Answer answer = Generate(Several(3));
  EXPECT_EQ(answer.status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ReasonOf(answer.status), Reason::kInvalidSampling);
  EXPECT_FALSE(answer.final.has_value());
  ExpectNothingLeft();
  EXPECT_EQ(Metric("baton_request_success_total"), 0);
}

TEST_F(AnswersTest, CancellingEndsAll) {
  FakeWorkerOptions more;
  more.script = [](const FakeMoment& moment) {
    const bool late = moment.point == FakePoint::kToken && moment.index > 2;
    return late ? FakeAction::Hang() : FakeAction::Go();
  };
  Start(1, 1, more);
  grpc::ClientContext context;
  const auto reader = stub_->Generate(&context, Several(3));
  ASSERT_TRUE(Eventually([&] { return decode_[0]->open_streams() == 3; }));
  context.TryCancel();
  EXPECT_EQ(ReadAnswer(reader.get()).status.code(), absl::StatusCode::kCancelled);
  ExpectNothingLeft();
}

TEST_F(AnswersTest, BestOfGivesThoseOfTheHighestMeanLogprob) {
  Start(1, 1);
  std::vector<std::pair<double, int32_t>> scores;
  std::map<int32_t, Answer> alone;
  for (int32_t index = 0; index < 5; ++index) {
    alone[index] = Alone(index);
    double sum = 0;
    for (const v1::TokenLogprobs& logprobs : alone[index].logprobs) sum += logprobs.logprob();
    scores.emplace_back(-sum / static_cast<double>(alone[index].logprobs.size()), index);
  }
  std::sort(scores.begin(), scores.end());
  for (const bool logprobs : {false, true}) {
    v1::GenerateRequest request = Several(2, 5);
    if (logprobs) request.mutable_spec()->mutable_output()->set_logprobs(0);
    const Answer answer = Generate(request);
    ASSERT_TRUE(answer.status.ok()) << answer.status;
    const auto answers = AnswersIn(answer);
    ASSERT_EQ(answers.size(), 2U);
    for (int32_t rank = 0; rank < 2; ++rank) {
      const auto [score, index] = scores[static_cast<size_t>(rank)];
      EXPECT_EQ(answers.at(rank).ids, alone[index].ids);
      EXPECT_EQ(answers.at(rank).final->seed(), SeedOfAnswer(kSeed, index));
      EXPECT_DOUBLE_EQ(answers.at(rank).final->score(), -score);
      EXPECT_EQ(answers.at(rank).logprobs.size(), logprobs ? 9U : 0U);
    }
    EXPECT_EQ(answers.at(0).final->usage().prompt_tokens(), 6);
    EXPECT_EQ(answers.at(1).final->usage().prompt_tokens(), 0);
    EXPECT_EQ(answer.final->total_usage().completion_tokens(), 45) << "those left out included";
  }
}

TEST_F(AnswersTest, BestOfStreamsNothingBeforeTheEnd) {
  std::atomic<bool> held{true};
  FakeWorkerOptions more;
  more.token_delay = std::chrono::milliseconds(2);
  more.script = [&](const FakeMoment& moment) {
    const bool second = moment.generation.sampling().seed() == SeedOfAnswer(kSeed, 1);
    while (second && moment.point == FakePoint::kToken && moment.index == 5 && held) {
      std::this_thread::yield();
    }
    return FakeAction::Go();
  };
  Start(1, 1, more);
  grpc::ClientContext context;
  const auto reader = stub_->Generate(&context, Several(1, 3));
  v1::GenerateResponse message;
  ASSERT_TRUE(reader->Read(&message));
  EXPECT_TRUE(message.has_started());
  // Two of three have ended when only the held one's stream is left.
  EXPECT_TRUE(Eventually([&] { return decode_[0]->decode_streams() == 3; }));
  EXPECT_TRUE(Eventually([&] { return decode_[0]->open_streams() == 1; }));
  held = false;
  const Answer rest = ReadAnswer(reader.get());
  EXPECT_TRUE(rest.status.ok()) << rest.status;
  ASSERT_EQ(AnswersIn(rest).size(), 1U);
  EXPECT_EQ(AnswersIn(rest).at(0).ids.size(), 9U);
}

TEST_F(AnswersTest, WithoutASeedTheOneThatIsDrawnGivesThemAgain) {
  Start(1, 1);
  v1::GenerateRequest request = Several(2);
  request.mutable_spec()->mutable_sampling()->clear_seed();
  const Answer first = Generate(request);
  request.mutable_spec()->mutable_sampling()->set_seed(first.started.seed());
  const auto again = AnswersIn(Generate(request));
  for (const auto& [index, one] : AnswersIn(first)) EXPECT_EQ(one.ids, again.at(index).ids);
}

TEST_F(AnswersTest, TheUnaryCallHasAllAnswersInOneMessage) {
  Start(1, 1);
  v1::GenerateOnceRequest request;
  request.set_text("hello");
  *request.mutable_spec() = Several(3).spec();
  v1::GenerateOnceResponse response;
  grpc::ClientContext context;
  ASSERT_TRUE(stub_->GenerateOnce(&context, request, &response).ok());
  EXPECT_EQ(response.output().text(), Alone(0).text);
  ASSERT_EQ(response.further_size(), 2);
  for (int32_t index = 1; index < 3; ++index) {
    EXPECT_EQ(response.further(index - 1).output().text(), Alone(index).text);
    EXPECT_EQ(response.further(index - 1).final().index(), index);
  }
}

TEST_F(AnswersTest, TheyCountAsSoManyInTheQueue) {
  options_.max_num_queued_reqs = 4;
  AddDecode([](FakeWorkerOptions& worker) { worker.prefill_places_free = 0; });
  StartRouter();
  Answer waiting;
  std::thread client([&] { waiting = Generate(Several(3)); });
  EXPECT_TRUE(Eventually([&] { return Metric("baton_num_requests_in_stage{engine") == 1; }));
  EXPECT_EQ(ReasonOf(Generate(Several(2)).status), Reason::kQueueFull);
  EXPECT_EQ(ReasonOf(Generate(Several(5)).status), Reason::kLimitExceeded);
  decode_[0]->SetLoad([](worker::v1::WorkerLoad* load) { load->set_prefill_places_free(8); });
  client.join();
  EXPECT_TRUE(waiting.status.ok()) << waiting.status;
  EXPECT_EQ(AnswersIn(waiting).size(), 3U);
  ExpectNothingLeft();
}

}  // namespace
}  // namespace baton::testing
