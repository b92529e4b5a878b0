#include <gmock/gmock.h>

#include <future>

#include "tests/router/router_fixture.h"

namespace baton::testing {
namespace {

using ::testing::ElementsAreArray;
using GenerateTest = RouterTest;

TEST_F(GenerateTest, SplitAnswerHasEveryTokenOnceAndAFinal) {
  AddDecode();
  AddPrefill();
  StartRouter();
  const Answer answer = Generate(Request("hello", 10));
  ASSERT_TRUE(answer.status.ok()) << answer.status;
  EXPECT_THAT(answer.ids, ElementsAreArray(Expected("hello", 10)));
  EXPECT_EQ(answer.text, TextOf(Expected("hello", 10)));
  ASSERT_TRUE(answer.messages.front().has_started());
  EXPECT_EQ(answer.started.model(), "tiny");
  EXPECT_EQ(answer.started.prompt_tokens(), 6);
  EXPECT_FALSE(answer.started.request_id().empty());
  ASSERT_TRUE(answer.final.has_value());
  EXPECT_EQ(answer.final->finish_reason(), v1::FINISH_REASON_LENGTH);
  EXPECT_EQ(answer.final->stop_cause(), v1::STOP_CAUSE_NONE);
  EXPECT_EQ(answer.final->usage().prompt_tokens(), 6);
  EXPECT_EQ(answer.final->usage().completion_tokens(), 10);
  EXPECT_EQ(answer.final->usage().cached_tokens(), 3);
  EXPECT_EQ(answer.final->attempts(), 1);
  EXPECT_EQ(answer.final->prefill_worker(), prefill_[0]->address());
  EXPECT_EQ(answer.final->decode_worker(), decode_[0]->address());
  EXPECT_EQ(answer.final->timings().prefill_ms(), 2.5);
  EXPECT_GT(answer.final->timings().ttft_ms(), 0);
  EXPECT_GE(answer.final->timings().total_ms(), answer.final->timings().ttft_ms());
  EXPECT_EQ(Metric("baton_pd_decision_total{decision=\"split\""), 1);
}

TEST_F(GenerateTest, EndWaitsForTheFiguresOfThePrefillWorker) {
  // The decode worker's last word is written before the prefill worker's.
  std::promise<void> decoded;
  AddDecode([&](FakeWorkerOptions& worker) {
    worker.script = [&](const FakeMoment& moment) {
      if (moment.point == FakePoint::kFinal) decoded.set_value();
      return FakeAction::Go();
    };
  });
  AddPrefill([&](FakeWorkerOptions& worker) {
    worker.script = [end = decoded.get_future().share()](const FakeMoment& moment) {
      if (moment.point == FakePoint::kPrefillFinal) end.wait_for(std::chrono::seconds(10));
      return FakeAction::Go();
    };
  });
  StartRouter();
  const Answer answer = Generate(Request("hello", 2));
  ASSERT_TRUE(answer.status.ok()) << answer.status;
  EXPECT_THAT(answer.ids, ElementsAreArray(Expected("hello", 2)));
  EXPECT_EQ(answer.final->timings().prefill_ms(), 2.5);
  EXPECT_EQ(answer.final->timings().kv_transfer_ms(), 0.5);
}

TEST_F(GenerateTest, EndDoesNotWaitLongForThem) {
  AddDecode();
  AddPrefill([](FakeWorkerOptions& worker) {
    worker.script = [](const FakeMoment& moment) {
      return moment.point == FakePoint::kPrefillFinal ? FakeAction::Hang() : FakeAction::Go();
    };
  });
  StartRouter();
  const Answer answer = Generate(Request("hello", 2));
  ASSERT_TRUE(answer.status.ok()) << answer.status;
  EXPECT_THAT(answer.ids, ElementsAreArray(Expected("hello", 2)));
  EXPECT_EQ(answer.final->timings().kv_transfer_ms(), 0);
}

TEST_F(GenerateTest, WithoutPrefillWorkersTheDecodeWorkerPrefills) {
  AddDecode();
  StartRouter();
  const Answer answer = Generate(Request("hello", 10));
  ASSERT_TRUE(answer.status.ok()) << answer.status;
  EXPECT_THAT(answer.ids, ElementsAreArray(Expected("hello", 10)));
  EXPECT_EQ(answer.final->prefill_worker(), "");
  EXPECT_EQ(answer.final->timings().prefill_ms(), 1.5);
  EXPECT_EQ(Metric("baton_pd_decision_total{decision=\"local\""), 1);
}

TEST_F(GenerateTest, EndOfSequenceEndsTheAnswerAndItsTextIsNotSent) {
  const auto model = [](const std::vector<int32_t>& history) {
    return history.size() >= 8 ? kEos : FakeLetter(history);
  };
  AddDecode([&](FakeWorkerOptions& worker) { worker.model = model; });
  StartRouter();
  const Answer answer = Generate(Request("hello", 0));
  ASSERT_TRUE(answer.status.ok()) << answer.status;
  EXPECT_THAT(answer.ids, ElementsAreArray(Expected("hello", 3, model)));
  EXPECT_EQ(answer.text, TextOf(Expected("hello", 2, model)));
  EXPECT_EQ(answer.final->finish_reason(), v1::FINISH_REASON_STOP_EOS);
  EXPECT_EQ(answer.final->stop_cause(), v1::STOP_CAUSE_EOS);
  EXPECT_EQ(answer.final->stop_token_id(), kEos);
  EXPECT_EQ(answer.final->usage().completion_tokens(), 3);
}

TEST_F(GenerateTest, FirstTokenThatEndsTheRequestReleasesTheReservation) {
  const auto model = [](const std::vector<int32_t>&) { return kEos; };
  auto decode = WorkerOptions(worker::v1::WORKER_ROLE_DECODE);
  auto prefill = WorkerOptions(worker::v1::WORKER_ROLE_PREFILL);
  prefill.model = model;
  AddDecode(decode);
  AddPrefill(prefill);
  options_.deadlines.last_figures = std::chrono::seconds(30);
  StartRouter();
  const Answer answer = Generate(Request("hello", 5));
  ASSERT_TRUE(answer.status.ok()) << answer.status;
  EXPECT_THAT(answer.ids, ElementsAreArray({kEos}));
  EXPECT_EQ(answer.text, "");
  EXPECT_EQ(answer.final->finish_reason(), v1::FINISH_REASON_STOP_EOS);
  EXPECT_EQ(answer.final->timings().prefill_ms(), 2.5);
  ASSERT_TRUE(Eventually([&] { return cluster_.endings().size() == 1; }));
  EXPECT_EQ(cluster_.endings()[0].release, worker::v1::FINISH_CAUSE_STOP_EOS);
}

TEST_F(GenerateTest, GenerateOnceGivesTheSameInOneMessage) {
  AddDecode();
  AddPrefill();
  StartRouter();
  v1::GenerateOnceRequest request;
  request.set_text("hello");
  request.mutable_spec()->mutable_stop()->set_max_tokens(4);
  v1::GenerateOnceResponse response;
  grpc::ClientContext context;
  ASSERT_TRUE(stub_->GenerateOnce(&context, request, &response).ok());
  EXPECT_EQ(response.output().text(), TextOf(Expected("hello", 4)));
  EXPECT_EQ(response.output().token_ids_size(), 4);
  EXPECT_EQ(response.final().finish_reason(), v1::FINISH_REASON_LENGTH);
  EXPECT_EQ(response.started().prompt_tokens(), 6);
}

TEST_F(GenerateTest, ChatAppliesTheTemplateOnTheServer) {
  AddDecode();
  StartRouter();
  v1::ChatGenerateRequest request;
  v1::ChatMessage* message = request.add_messages();
  message->set_role("user");
  message->set_content("hi");
  request.mutable_spec()->mutable_stop()->set_max_tokens(3);
  grpc::ClientContext context;
  const auto reader = stub_->ChatGenerate(&context, request);
  v1::ChatGenerateResponse response;
  int tokens = 0;
  while (reader->Read(&response)) tokens += response.delta().token_ids_size();
  ASSERT_TRUE(reader->Finish().ok());
  EXPECT_EQ(tokens, 3);
  // <|bos|>[user] hi<|eot|>[assistant]␠
  const auto seen = decode_[0]->seen();
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].prompt_ids(0), kBos);
  EXPECT_EQ(seen[0].prompt_ids_size(), 1 + 9 + 1 + 12);
}

TEST_F(GenerateTest, TokenIdsAreUsedVerbatim) {
  AddDecode();
  StartRouter();
  v1::GenerateRequest request;
  for (const int32_t id : {7, 300, 9}) request.mutable_token_ids()->add_ids(id);
  request.mutable_spec()->mutable_stop()->set_max_tokens(2);
  const Answer answer = Generate(request);
  ASSERT_TRUE(answer.status.ok()) << answer.status;
  EXPECT_THAT(decode_[0]->seen()[0].prompt_ids(), ElementsAreArray({7, 300, 9}));
}

TEST_F(GenerateTest, TheSeedOfTheRequestOrADrawnOneIsReported) {
  AddDecode();
  StartRouter();
  v1::GenerateRequest request = Request("a", 1);
  request.mutable_spec()->mutable_sampling()->set_seed(77);
  EXPECT_EQ(Generate(request).started.seed(), 77u);
  request.mutable_spec()->mutable_sampling()->clear_seed();
  const Answer drawn = Generate(request);
  EXPECT_EQ(decode_[0]->seen().back().sampling().seed(), drawn.started.seed());
  EXPECT_NE(Generate(request).started.seed(), drawn.started.seed());
}

TEST_F(GenerateTest, EosStepsAndLogprobsComeOnlyWhenAskedFor) {
  AddDecode();
  StartRouter();
  v1::GenerateRequest request = Request("abc", 3);
  EXPECT_TRUE(Generate(request).eos_steps.empty());
  EXPECT_TRUE(decode_[0]->seen().back().eos_signals());  // the page has them
  request.mutable_spec()->mutable_eos()->set_steps(true);
  request.mutable_spec()->mutable_output()->set_logprobs(0);
  const Answer answer = Generate(request);
  ASSERT_EQ(answer.eos_steps.size(), 3u);
  EXPECT_EQ(answer.eos_steps[2].step(), 3);
  EXPECT_NEAR(answer.eos_steps[1].eos_prob(), std::exp(answer.eos_steps[1].eos_logprob()), 1e-9);
  ASSERT_EQ(answer.logprobs.size(), 3u);
  EXPECT_EQ(answer.logprobs[0].logprob(), -0.25F);
  EXPECT_TRUE(answer.logprobs[0].top().empty());
}

TEST_F(GenerateTest, ProductsOfAProbeComeWithTheStepsWhenAskedFor) {
  AddDecode([](FakeWorkerOptions& worker) { worker.probe_dims = 2; });
  StartRouter();
  v1::GenerateRequest request = Request("abc", 3);
  request.mutable_spec()->mutable_eos()->set_steps(true);
  EXPECT_EQ(Generate(request).eos_steps.at(1).probe_size(), 0);
  EXPECT_FALSE(decode_[0]->seen().back().probe());
  // Asking for the products asks for the steps.
  request.mutable_spec()->mutable_eos()->set_steps(false);
  request.mutable_spec()->mutable_eos()->set_probe(true);
  const Answer answer = Generate(request);
  ASSERT_EQ(answer.eos_steps.size(), 3u);
  for (int step = 0; step < 3; ++step) {
    const v1::EosStep& row = answer.eos_steps[static_cast<size_t>(step)];
    EXPECT_EQ(row.step(), step + 1);
    ASSERT_EQ(row.probe_size(), 2);
    EXPECT_EQ(row.probe(0), static_cast<float>(step) + 0.25F);
    EXPECT_EQ(row.probe(1), static_cast<float>(step) + 1.25F);
  }
}

// Workers may differ: a prefill worker without a probe gives the first step without products.
TEST_F(GenerateTest, StepsOfWorkersWithoutAProbeHaveNoProducts) {
  AddDecode([](FakeWorkerOptions& worker) { worker.probe_dims = 1; });
  AddPrefill();
  StartRouter();
  v1::GenerateRequest request = Request("abc", 3);
  request.mutable_spec()->mutable_eos()->set_probe(true);
  const Answer answer = Generate(request);
  ASSERT_EQ(answer.eos_steps.size(), 3u);
  EXPECT_EQ(answer.eos_steps[0].probe_size(), 0);
  EXPECT_EQ(answer.eos_steps[1].probe_size(), 1);
  EXPECT_EQ(answer.eos_steps[2].probe_size(), 1);
}

TEST_F(GenerateTest, LogprobsHaveTheTextOfEachTokenOrItsBytes) {
  // The two bytes of "é" are two tokens, as with any byte-level tokenizer.
  AddDecode([](FakeWorkerOptions& worker) {
    worker.model = [](const std::vector<int32_t>& history) {
      return history.back() == 0xC3 ? 0xA9 : history.back() == 0xA9 ? 'z' : 0xC3;
    };
  });
  StartRouter();
  v1::GenerateRequest request = Request("abc", 3);
  request.mutable_spec()->mutable_output()->set_logprobs(2);
  const Answer answer = Generate(request);
  EXPECT_EQ(answer.text, "\xC3\xA9z");
  ASSERT_EQ(answer.logprobs.size(), 3u);
  EXPECT_EQ(answer.logprobs[0].text(), "\uFFFD");
  EXPECT_EQ(answer.logprobs[0].raw_bytes(), "\xC3");
  EXPECT_EQ(answer.logprobs[1].raw_bytes(), "\xA9");
  EXPECT_EQ(answer.logprobs[2].text(), "z");
  EXPECT_EQ(answer.logprobs[2].raw_bytes(), "");
  ASSERT_EQ(answer.logprobs[2].top_size(), 2);
  EXPECT_EQ(answer.logprobs[2].top(0).text(), "z");
  EXPECT_EQ(answer.logprobs[2].top(1).text(), "{");
}

}  // namespace
}  // namespace baton::testing
