#include <string>

#include "tests/router/router_fixture.h"

// --local-prefill-below: short prompts, and long ones whose beginning the decode worker holds, are
// prefilled where they are decoded.
namespace baton::testing {
namespace {

class LocalPrefillTest : public RouterTest {};

TEST_F(LocalPrefillTest, ShortPromptsArePrefilledLocallyBelowTheLimit) {
  options_.local_prefill_below = 10;
  AddDecode();
  AddPrefill();
  StartRouter();
  EXPECT_EQ(Generate(Request("short", 3)).final->prefill_worker(), "");
  EXPECT_EQ(Generate(Request("long enough", 3)).final->prefill_worker(), prefill_[0]->address());
}

TEST_F(LocalPrefillTest, RepeatedLongPromptIsPrefilledWhereItsCacheIs) {
  options_.local_prefill_below = 20;
  FakeWorkerOptions worker = WorkerOptions(worker::v1::WORKER_ROLE_DECODE);
  worker.cached_tokens = 96;
  AddDecode(worker);
  AddPrefill();
  StartRouter();
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
  options_.local_prefill_below = 20;
  FakeWorkerOptions worker = WorkerOptions(worker::v1::WORKER_ROLE_DECODE);
  worker.cached_tokens = 112;
  AddDecode(worker);
  AddPrefill();
  StartRouter();
  const std::string first = "turn one";
  const Answer answer = Generate(Request(first, 120));
  ASSERT_EQ(answer.ids.size(), 120u);
  EXPECT_EQ(Generate(Request(first + answer.text, 3)).final->prefill_worker(), "");
}

TEST_F(LocalPrefillTest, WorkerWithoutTheBelievedCacheIsNotBelievedAgainSoon) {
  options_.local_prefill_below = 20;
  AddDecode();  // reports no cached token, ever
  AddPrefill();
  StartRouter();
  const std::string prompt(100, 'p');
  EXPECT_NE(Generate(Request(prompt, 3)).final->prefill_worker(), "");
  EXPECT_EQ(Generate(Request(prompt, 3)).final->prefill_worker(), "") << "believed once";
  EXPECT_NE(Generate(Request(prompt, 3)).final->prefill_worker(), "");
  EXPECT_NE(Generate(Request(prompt, 3)).final->prefill_worker(), "");
}

TEST_F(LocalPrefillTest, RestartedWorkerHoldsNothing) {
  options_.local_prefill_below = 20;
  AddDecode();
  AddPrefill();
  StartRouter();
  const std::string prompt(100, 'p');
  EXPECT_NE(Generate(Request(prompt, 3)).final->prefill_worker(), "");
  decode_[0]->Kill();
  ASSERT_TRUE(Eventually([&] { return !router_->ready().ok(); }));
  decode_[0]->Restart();
  EXPECT_NE(Generate(Request(prompt, 3)).final->prefill_worker(), "");
}

}  // namespace
}  // namespace baton::testing
