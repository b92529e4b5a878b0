// Which of the workers' estimates of the end a client is told, and when.
#include <gmock/gmock.h>

#include "tests/router/router_fixture.h"

namespace baton::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::IsEmpty;

constexpr auto kForesees = [](FakeWorkerOptions& worker) { worker.foresees = true; };

class PredictTest : public RouterTest {
 protected:
  static v1::GenerateRequest Asking(int max_tokens, int every = 0) {
    v1::GenerateRequest request = Request("hello", max_tokens);
    request.mutable_spec()->mutable_eos()->set_predict(true);
    request.mutable_spec()->mutable_eos()->set_predict_every(every);
    return request;
  }
  // The steps of all predictions. Each stands behind its token.
  static std::vector<int32_t> Steps(const Answer& answer) {
    std::vector<int32_t> steps;
    int32_t tokens = 0;
    for (const v1::GenerateResponse& message : answer.messages) {
      tokens += message.delta().token_ids_size();
      if (!message.has_prediction()) continue;
      steps.push_back(message.prediction().at_step());
      EXPECT_GE(tokens, steps.back());
      EXPECT_EQ(message.prediction().expected_remaining(), 99 + steps.back());
    }
    return steps;
  }
};

TEST_F(PredictTest, EveryStepButThatOfTheEndHasOneAndTokensAreTheSame) {
  AddDecode(kForesees);
  StartRouter();
  const Answer answer = Generate(Asking(6));
  ASSERT_TRUE(answer.status.ok()) << answer.status;
  EXPECT_THAT(Steps(answer), ElementsAre(1, 2, 3, 4, 5));
  EXPECT_THAT(answer.ids, ElementsAreArray(Expected("hello", 6)));
  const Answer other = Generate(Request("hello", 6));
  EXPECT_THAT(Steps(other), IsEmpty());
  EXPECT_EQ(other.ids, answer.ids);
}

TEST_F(PredictTest, PredictEveryTakesTheStepsThatItDivides) {
  AddDecode(kForesees);
  AddPrefill(kForesees);
  StartRouter();
  EXPECT_THAT(Steps(Generate(Asking(10, 3))), ElementsAre(3, 6, 9));
  EXPECT_THAT(Steps(Generate(Asking(10, 1))), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9));
  EXPECT_THAT(Steps(Generate(Asking(10, 100))), IsEmpty());
}

TEST_F(PredictTest, TheFirstTokenThatBothWorkersTellIsForeseenOnce) {
  AddDecode(kForesees);
  AddPrefill(kForesees);
  StartRouter();
  EXPECT_THAT(Steps(Generate(Asking(4))), ElementsAre(1, 2, 3));
  EXPECT_EQ(prefill_[0]->prefill_streams(), 1);
}

// A prefill worker that knows nothing of lengths is the rule.
TEST_F(PredictTest, TheFirstTokensEstimateMayComeWithItsSecondTelling) {
  AddDecode(kForesees);
  AddPrefill();
  StartRouter();
  const Answer answer = Generate(Asking(4));
  EXPECT_THAT(Steps(answer), ElementsAre(1, 2, 3));
  EXPECT_THAT(answer.ids, ElementsAreArray(Expected("hello", 4)));
}

TEST_F(PredictTest, NothingIsToldWhereNothingIsKnown) {
  AddDecode();
  AddPrefill();
  StartRouter();
  const Answer answer = Generate(Asking(4));
  EXPECT_THAT(Steps(answer), IsEmpty());
  EXPECT_THAT(answer.ids, ElementsAreArray(Expected("hello", 4)));
}

}  // namespace
}  // namespace baton::testing
