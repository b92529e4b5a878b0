#include <string>

#include "tests/router/router_fixture.h"

// --local-prefill-below: short prompts, and long ones whose beginning the decode worker holds, are
// prefilled where they are decoded.
namespace baton::testing {
namespace {

class LocalPrefillTest : public RouterTest {
 protected:
  // One prefill worker, and a decode worker that reports `cached_tokens` of every prompt as cached.
  void Start(int local_prefill_below, int cached_tokens) {
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

}  // namespace
}  // namespace baton::testing
