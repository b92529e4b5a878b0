#include <atomic>
#include <string>

#include "gmock/gmock.h"
#include "tests/router/router_fixture.h"

// OutputOptions.echo and prompt_logprobs: the prompt goes to the client before the answer, with
// what the model thinks of its tokens.
namespace baton::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int kTokens = 6;  // BOS and the bytes of "hello"

class PromptTest : public RouterTest {
 protected:
  static v1::GenerateRequest Scored(int max_tokens) {
    v1::GenerateRequest request = Request("hello", max_tokens);
    request.mutable_spec()->mutable_output()->set_prompt_logprobs(true);
    return request;
  }

  // Every token has its score once, and all of them stand before the answer.
  static void ExpectScores(const Answer& answer) {
    ASSERT_TRUE(answer.status.ok()) << answer.status;
    ASSERT_EQ(answer.prompt.logprobs_size(), kTokens);
    EXPECT_FALSE(answer.prompt.logprobs(0).has_logprob());
    for (int i = 1; i < kTokens; ++i) {
      EXPECT_EQ(answer.prompt.logprobs(i).logprob(), -static_cast<float>(i) / 8) << i;
      EXPECT_EQ(answer.prompt.logprobs(i).text(), std::string(1, "hello"[i - 1]));
    }
    bool answered = false;
    for (const v1::GenerateResponse& message : answer.messages) {
      EXPECT_FALSE(message.has_prompt() && answered);
      answered |= message.has_delta();
    }
  }
};

TEST_F(PromptTest, LogprobsComeFromTheWorkerThatComputesThePrompt) {
  AddDecode();
  StartRouter();
  const Answer local = Generate(Scored(3));
  ExpectScores(local);
  EXPECT_EQ(local.ids.size(), 3u);
  EXPECT_TRUE(local.prompt.text().empty());
  EXPECT_EQ(local.prompt.logprobs(2).top_size(), 0);
}

TEST_F(PromptTest, SplitTheyComeFromThePrefillWorker) {
  AddDecode();
  AddPrefill();
  StartRouter();
  v1::GenerateRequest request = Scored(3);
  request.mutable_spec()->mutable_output()->set_logprobs(2);
  const Answer answer = Generate(request);
  ExpectScores(answer);
  EXPECT_EQ(answer.final->prefill_worker(), prefill_[0]->address());
  EXPECT_EQ(answer.prompt.logprobs(0).top_size(), 0);
  ASSERT_EQ(answer.prompt.logprobs(3).top_size(), 2);
  EXPECT_EQ(answer.prompt.logprobs(3).top(1).text(), "b");
  EXPECT_EQ(answer.ids, Generate(Request("hello", 3)).ids);
}

// Started may be read before the prefill worker's stream is; here its first token never comes.
TEST_F(PromptTest, TheDecodeWorkerWaitsForScoresThatItOvertook) {
  AddDecode();
  AddPrefill([](FakeWorkerOptions& worker) {
    worker.script = [](const FakeMoment& moment) {
      return moment.point == FakePoint::kFirstToken ? FakeAction::Skip() : FakeAction::Go();
    };
  });
  StartRouter();
  const Answer answer = Generate(Scored(3));
  ExpectScores(answer);
  EXPECT_EQ(answer.ids, Generate(Request("hello", 3)).ids);
  EXPECT_EQ(answer.final->attempts(), 1);
}

TEST_F(PromptTest, AReplayAsksOnlyForWhatIsMissing) {
  std::atomic<int> messages = 0;
  AddDecode([&](FakeWorkerOptions& worker) {
    worker.script = [&](const FakeMoment& moment) {
      const bool second = moment.point == FakePoint::kScores && ++messages == 2;
      return second ? FakeAction::Fail(absl::UnavailableError("gone")) : FakeAction::Go();
    };
  });
  StartRouter();
  const Answer answer = Generate(Scored(3));
  ExpectScores(answer);
  EXPECT_EQ(answer.final->attempts(), 2);
  ASSERT_EQ(decode_[0]->seen().size(), 2u);
  EXPECT_EQ(decode_[0]->seen()[0].score_from(), 1);
  EXPECT_EQ(decode_[0]->seen()[1].score_from(), 3);
}

TEST_F(PromptTest, ATokenBeforeTheScoresIsAFault) {
  std::atomic<bool> skipped = false;
  AddDecode([&](FakeWorkerOptions& worker) {
    worker.script = [&](const FakeMoment& moment) {
      const bool first = moment.point == FakePoint::kScores && !skipped.exchange(true);
      return first ? FakeAction::Skip() : FakeAction::Go();
    };
  });
  StartRouter();
  const Answer answer = Generate(Scored(3));
  ExpectScores(answer);
  EXPECT_EQ(answer.final->attempts(), 2);
}

TEST_F(PromptTest, AnEchoIsThePromptAsItWasRead) {
  AddDecode();
  StartRouter();
  v1::GenerateRequest request = Request("hello", 2);
  request.mutable_spec()->mutable_output()->set_echo(true);
  const Answer answer = Generate(request);
  EXPECT_EQ(answer.prompt.text(), "hello");
  EXPECT_EQ(answer.prompt.token_ids_size(), kTokens);
  EXPECT_EQ(answer.prompt.logprobs_size(), 0);
  EXPECT_EQ(answer.ids.size(), 2u);
  EXPECT_FALSE(decode_[0]->seen()[0].has_score_from());
}

TEST_F(PromptTest, WithoutTokensOnlyThePromptComes) {
  AddDecode();
  AddPrefill();
  options_.local_prefill_below = 8;
  StartRouter();
  for (const std::string text : {"hello", "hello and more of it"}) {
    v1::GenerateRequest request = Scored(1);
    request.mutable_spec()->mutable_stop()->set_max_tokens(0);
    request.set_text(text);
    const Answer answer = Generate(request);
    ASSERT_TRUE(answer.status.ok()) << answer.status;
    EXPECT_EQ(answer.prompt.logprobs_size(), static_cast<int>(text.size()) + 1);
    EXPECT_TRUE(answer.ids.empty() && answer.text.empty());
    EXPECT_EQ(answer.final->finish_reason(), v1::FINISH_REASON_LENGTH);
    EXPECT_EQ(answer.final->usage().completion_tokens(), 0);
    EXPECT_EQ(decode_[0]->seen().back().stopping().max_tokens(), 1);
  }
  EXPECT_EQ(prefill_[0]->prefill_streams(), 1);
  EXPECT_EQ(Metric("baton_request_params_max_tokens_sum{engine"), 0);
  EXPECT_EQ(Metric("baton_request_params_max_tokens_count{engine"), 2);
  v1::GenerateRequest nothing = Request("hello", 1);
  nothing.mutable_spec()->mutable_stop()->set_max_tokens(0);
  EXPECT_EQ(Generate(nothing).status.code(), absl::StatusCode::kInvalidArgument);
  v1::GenerateRequest torn = Scored(1);
  torn.mutable_spec()->mutable_stop()->set_max_tokens(0);
  torn.mutable_spec()->mutable_stop()->set_min_tokens(5);
  const Answer refused = Generate(torn);
  EXPECT_EQ(refused.status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.status.message()), HasSubstr("min_tokens is 5"));
}

}  // namespace
}  // namespace baton::testing
