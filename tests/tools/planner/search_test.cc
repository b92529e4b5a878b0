#include "tools/planner/search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/tools/planner/planner_model.h"

namespace baton::planner {
namespace {

using ::testing::HasSubstr;

// Whether any cluster of so many unified workers keeps the SLO, by trying all batches.
bool AnyUnified(const Question& question, int32_t workers) {
  for (int32_t batch = 1; batch <= kMostSequences; batch *= 2) {
    const auto trial = Try(
        question,
        {.build = &question.builds[0], .prefill = 0, .decode = workers, .max_num_seqs = batch}, 1);
    EXPECT_TRUE(trial.ok()) << trial.status();
    if (trial->keeps) return true;
  }
  return false;
}

TEST(SearchTest, FindsTheFewestWorkersThatDo) {
  Question question = QuestionOn(BuildOf(kCost), EvenLoad(800, 300, 100, 51), 100, 5);
  question.roles = RolesAllowed::kUnified;
  const auto plan = Search(question);
  ASSERT_TRUE(plan.ok()) << plan.status();
  ASSERT_TRUE(plan->best);
  const int32_t workers = plan->best->candidate.decode;
  EXPECT_GT(workers, 1);
  EXPECT_TRUE(AnyUnified(question, workers));
  for (int32_t fewer = 1; fewer < workers; ++fewer) EXPECT_FALSE(AnyUnified(question, fewer));
  EXPECT_TRUE(plan->best->keeps);
  EXPECT_LE(plan->best->tightest().used(), 1);
  EXPECT_GE(plan->best->good_share, 0.99);
}

TEST(SearchTest, RolesArePartedWherePromptsHoldUpAnswers) {
  // A prompt takes 20 ms and comes every 25, an answer takes 44. Among two workers that do both,
  // each answer meets a prompt, which makes its tokens .5 ms longer; among three none does.
  Question question = QuestionOn(BuildOf(kCost), EvenLoad(600, 40, 2000, 41), 100, 1.5);
  const auto any = Search(question);
  ASSERT_TRUE(any.ok() && any->best) << any.status();
  EXPECT_EQ(any->best->candidate.prefill, 1);
  EXPECT_EQ(any->best->candidate.decode, 1);
  question.roles = RolesAllowed::kUnified;
  const auto unified = Search(question);
  ASSERT_TRUE(unified.ok());
  ASSERT_TRUE(unified->best);
  EXPECT_EQ(unified->best->candidate.decode, 3);
}

TEST(SearchTest, CheaperBuildsWinWhereBothDo) {
  Question question = QuestionOn(BuildOf(kCost), EvenLoad(500, 20, 100, 51), 100, 5);
  WorkerBuild twice = BuildOf({.step = 500, .row = 50, .prompt_token = 5});
  twice.ranks = twice.devices = 2;
  question.builds = {twice, question.builds[0]};
  const auto plan = Search(question);
  ASSERT_TRUE(plan.ok() && plan->best) << plan.status();
  EXPECT_EQ(plan->best->candidate.devices(), 1);
  // Only the faster one writes a token in .7 ms.
  question.slo.limits[1].limit_ms = 0.7;
  const auto fast = Search(question);
  ASSERT_TRUE(fast.ok() && fast->best) << fast.status();
  EXPECT_EQ(fast->best->candidate.devices(), 2);
  EXPECT_EQ(fast->best->candidate.build->ranks, 2);
}

TEST(SearchTest, SaysWhatFailsWhereNothingDoes) {
  Question question = QuestionOn(BuildOf(kCost), EvenLoad(800, 1000, 100, 51), 100, 5);
  question.max_devices = 2;
  const auto few = Search(question);
  ASSERT_TRUE(few.ok());
  EXPECT_FALSE(few->best);
  EXPECT_GT(few->devices_needed, 2);
  // The most that there may be is simulated all the same, and what it could bear is told.
  ASSERT_TRUE(few->nearest);
  EXPECT_EQ(few->nearest->candidate.devices(), 2);
  EXPECT_LT(few->nearest->good_share, 0.99);
  ASSERT_TRUE(few->bearable);
  EXPECT_GT(*few->bearable, 0.1);
  EXPECT_LT(*few->bearable, 2.0 / few->devices_needed + 0.1);
  question.slo.limits[1].limit_ms = 1;
  const auto none = Search(question);
  ASSERT_TRUE(none.ok());
  EXPECT_FALSE(none->best || none->nearest);
  EXPECT_THAT(none->builds[0].bounds.impossible, HasSubstr("tpot=1.1ms"));
}

TEST(SearchTest, WorkersThatWereMeasuredTogetherStayTogether) {
  Question question = QuestionOn(BuildOf(kCost), EvenLoad(400, 50, 100, 51), 100, 5);
  WorkerBuild one = BuildOf(kCost), four = BuildOf({.step = 2000, .row = 300, .prompt_token = 40});
  one.devices = four.devices = 0;
  one.threads = 4;
  four.threads = 1;
  one.only_workers = 1;
  four.only_workers = 4;
  question.builds = {one, four};
  const auto plan = Search(question);
  ASSERT_TRUE(plan.ok() && plan->best) << plan.status();
  EXPECT_EQ(plan->best->candidate.workers(), *plan->best->candidate.build->only_workers);
}

TEST(SearchTest, EqualQuestionsHaveEqualAnswers) {
  const Question question = QuestionOn(BuildOf(kCost), EvenLoad(400, 300, 100, 51), 50, 4);
  const auto first = Search(question), second = Search(question);
  ASSERT_TRUE(first.ok() && first->best && second.ok() && second->best);
  EXPECT_EQ(first->best->candidate.decode, second->best->candidate.decode);
  EXPECT_EQ(first->best->candidate.prefill, second->best->candidate.prefill);
  EXPECT_EQ(first->best->tightest().at_percentile_ms, second->best->tightest().at_percentile_ms);
  EXPECT_EQ(first->simulated, second->simulated);
}

}  // namespace
}  // namespace baton::planner
