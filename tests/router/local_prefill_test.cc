#include <optional>
#include <string>

#include "tests/router/router_fixture.h"

// --local-prefill-below: short prompts, and long ones whose beginning the decode worker holds, are
// prefilled where they are decoded.
namespace baton::testing {
namespace {

class LocalPrefillTest : public RouterTest {
 protected:
  // One prefill worker, and a decode worker that reports `cached_tokens` of every prompt as cached.
  void Start(std::optional<int> local_prefill_below, int cached_tokens) {
    options_.local_prefill_below = local_prefill_below;
    AddDecode([&](FakeWorkerOptions& worker) { worker.cached_tokens = cached_tokens; });
    AddPrefill();
    StartRouter();
  }
};

TEST_F(LocalPrefillTest, ShortPromptsArePrefilledLocallyBelowTheLimit) {
  Start(10, 0);
  EXPECT_EQ(Generate(Request("short", 3)).final->prefill_worker(), "");
  EXPECT_EQ(Generate(Request("long enough", 3)).final->prefill_worker(), prefill_[0]->address());
}

TEST_F(LocalPrefillTest, RepeatedLongPromptIsPrefilledWhereItsCacheIs) {
  Start(20, 96);
  const std::string prompt(100, 'p');  // and BOS: six blocks of 16 and five tokens
  EXPECT_EQ(Generate(Request(prompt, 3)).final->prefill_worker(), prefill_[0]->address());
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(Generate(Request(prompt, 3)).final->prefill_worker(), "");
  }
  EXPECT_NE(Generate(Request(prompt + std::string(40, 'x'), 3)).final->prefill_worker(), "");
  v1::GenerateRequest salted = Request(prompt, 3);
  salted.mutable_spec()->set_cache_salt("tenant");
  EXPECT_NE(Generate(salted).final->prefill_worker(), "") << "another tenant's cache";
}

TEST_F(LocalPrefillTest, APromptThatIsScoredIsNoShorterWhereItsCacheIs) {
  Start(20, 96);
  v1::GenerateRequest scored = Request(std::string(100, 'p'), 3);
  EXPECT_NE(Generate(scored).final->prefill_worker(), "");
  EXPECT_EQ(Generate(scored).final->prefill_worker(), "");
  scored.mutable_spec()->mutable_output()->set_prompt_logprobs(true);
  for (int i = 0; i < 3; ++i) EXPECT_NE(Generate(scored).final->prefill_worker(), "") << i;
}

TEST_F(LocalPrefillTest, AnswerBelongsToThePrefixOfTheNextTurn) {
  Start(20, 112);
  const std::string first = "turn one";
  const Answer answer = Generate(Request(first, 120));
  ASSERT_EQ(answer.ids.size(), 120u);
  EXPECT_EQ(Generate(Request(first + answer.text, 3)).final->prefill_worker(), "");
}

TEST_F(LocalPrefillTest, WorkerWithoutTheBelievedCacheIsNotBelievedAgainSoon) {
  Start(20, 0);
  const std::string prompt(100, 'p');
  EXPECT_NE(Generate(Request(prompt, 3)).final->prefill_worker(), "");
  EXPECT_EQ(Generate(Request(prompt, 3)).final->prefill_worker(), "") << "believed once";
  EXPECT_NE(Generate(Request(prompt, 3)).final->prefill_worker(), "");
  EXPECT_NE(Generate(Request(prompt, 3)).final->prefill_worker(), "");
}

TEST_F(LocalPrefillTest, RestartedWorkerHoldsNothing) {
  Start(20, 0);
  const std::string prompt(100, 'p');
  EXPECT_NE(Generate(Request(prompt, 3)).final->prefill_worker(), "");
  decode_[0]->Kill();
  ASSERT_TRUE(Eventually([&] { return !router_->ready().ok(); }));
  decode_[0]->Restart();
  EXPECT_NE(Generate(Request(prompt, 3)).final->prefill_worker(), "");
}

// --local-prefill-below auto. Both workers say that a step takes a millisecond and each token of a
// prompt as long again.
class LocalPrefillByCostTest : public LocalPrefillTest {
 protected:
  void StartByCost() {
    Start(std::nullopt, 0);
    for (FakeWorker* const worker : {decode_[0].get(), prefill_[0].get()}) {
      worker->SetLoad([](worker::v1::WorkerLoad* load) {
        load->set_step_seconds(0.001);
        load->set_prompt_token_seconds(0.001);
        load->set_step_prompt_tokens(512);
      });
    }
  }
  bool SplitsNow() {
    return !Generate(Request("as long as this", 3)).final->prefill_worker().empty();
  }
  double Decided(const std::string& decision, const std::string& reason) {
    return Metric("baton_pd_reason_total{decision=\"" + decision + "\",reason=\"" + reason + "\"");
  }
};

TEST_F(LocalPrefillByCostTest, SplitsUntilHandoffsWereSeen) {
  StartByCost();
  for (int i = 0; i < 8; ++i) EXPECT_TRUE(SplitsNow()) << i;
  EXPECT_EQ(Decided("split", "unknown"), 8);
  // Now it is known that a hand-off takes some time, and nobody is at the decode worker.
  EXPECT_TRUE(Eventually([&] { return !SplitsNow(); }));
  EXPECT_GE(Metric("baton_pd_reason_total{decision=\"local\""), 1);
  EXPECT_EQ(Decided("local", "length") + Decided("local", "no_prefill"), 0);
}

TEST_F(LocalPrefillByCostTest, BusyPrefillWorkerMakesPromptsGoLocalAndAnIdleOneSplitsThem) {
  StartByCost();
  for (int i = 0; i < 8; ++i) EXPECT_TRUE(SplitsNow()) << i;
  decode_[0]->SetLoad([](worker::v1::WorkerLoad* load) { load->set_running(500); });
  EXPECT_TRUE(Eventually([&] { return SplitsNow(); }));
  EXPECT_GE(Decided("split", "others"), 1);
  prefill_[0]->SetLoad(
      [](worker::v1::WorkerLoad* load) { load->set_queued_prompt_tokens(100'000); });
  EXPECT_TRUE(Eventually([&] { return !SplitsNow(); }));
  EXPECT_GE(Decided("local", "wait"), 1);
  prefill_[0]->SetLoad([](worker::v1::WorkerLoad* load) { load->set_queued_prompt_tokens(0); });
  EXPECT_TRUE(Eventually([&] { return SplitsNow(); }));
}

TEST_F(LocalPrefillByCostTest, WorkersThatTellNoTimesAreSplitBetween) {
  Start(std::nullopt, 0);
  for (int i = 0; i < 12; ++i) EXPECT_TRUE(SplitsNow()) << i;
  EXPECT_EQ(Decided("split", "unknown"), 12);
}

}  // namespace
}  // namespace baton::testing
