#include "tools/planner/bounds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/tools/planner/planner_model.h"

namespace baton::planner {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(BoundsTest, CountsWhatTheLoadTakesOfAWorker) {
  // Reading takes 1 ms; writing 50 rows of .1 ms, and the steps that they share.
  const Question question = QuestionOn(BuildOf(kCost), EvenLoad(500, 400, 100, 51), 100, 4);
  const Bounds bounds = BoundsOf(question, question.builds[0]);
  EXPECT_EQ(bounds.impossible, "");
  EXPECT_NEAR(bounds.ttft_ms, 2, 1e-9);
  EXPECT_NEAR(bounds.tpot_ms, 1.1, 1e-9);
  // Steps of 4 ms hold 30 rows.
  EXPECT_EQ(bounds.batch, 30);
  EXPECT_NEAR(bounds.prefill_share, 0.4, 0.01);
  EXPECT_NEAR(bounds.decode_share, 400 * 50 * (1000 / 30.0 + 100) / 1e6, 0.01);
  EXPECT_EQ(bounds.unified, 4);
  EXPECT_EQ(bounds.prefill, 1);
  EXPECT_EQ(bounds.decode, 3);
}

TEST(BoundsTest, RowsThatCostMoreBeyondABendMakeBatchesSmaller) {
  simulator::StepCost cost = kCost;
  cost.row_bends[0] = {.beyond = 10, .more = 400};
  const Question question = QuestionOn(BuildOf(cost), EvenLoad(500, 400, 100, 51), 100, 4);
  const Bounds bounds = BoundsOf(question, question.builds[0]);
  // Steps of 4 ms: 1 ms, ten rows of .1 ms and four of .5 ms.
  EXPECT_EQ(bounds.batch, 14);
  // Ten rows take .2 ms each, and the more there are beyond, the more they take.
  EXPECT_NEAR(bounds.decode_share, 400 * 50 * 200 / 1e6, 0.01);
}

TEST(BoundsTest, ACacheBoundsTheBatchAndTheWorkers) {
  WorkerBuild build = BuildOf(kCost);
  build.kv_bytes_most = 256 * 1000;  // eight of 125 tokens
  const Question question = QuestionOn(build, EvenLoad(500, 400, 100, 51), 100, 4);
  const Bounds bounds = BoundsOf(question, question.builds[0]);
  EXPECT_EQ(bounds.batch, 7);
  // 400 a second for at least 55 ms each are 22 at a time.
  EXPECT_GE(bounds.decode, 3);
}

TEST(BoundsTest, SaysWhatNoNumberOfWorkersKeeps) {
  const Question slow = QuestionOn(BuildOf(kCost), EvenLoad(500, 4, 100, 51), 100, 1);
  EXPECT_THAT(BoundsOf(slow, slow.builds[0]).impossible,
              AllOf(HasSubstr("0 % of the cases"), HasSubstr("ttft=100ms,tpot=1.1ms")));
  WorkerBuild build = BuildOf(kCost);
  build.kv_bytes_most = 256 * 100;
  const Question large = QuestionOn(build, EvenLoad(500, 4, 100, 51), 100, 4);
  EXPECT_THAT(BoundsOf(large, large.builds[0]).impossible,
              AllOf(HasSubstr("the longest request has 151"), HasSubstr("KV cache 100")));
}

TEST(BoundsTest, PromptsThatACacheKnowsAreNotCounted) {
  simulator::Workload load = EvenLoad(100, 10, 64, 2);
  for (simulator::SimRequest& request : load.requests) request.hash_ids = {1, 2};
  const LoadFacts facts = FactsOf(load.requests, 0, 32, 0);
  EXPECT_EQ(facts.input_tokens, 64);
  // All of the first one, and the last token of the others.
  EXPECT_NEAR(facts.prompt_tokens, (64 + 99) / 100.0, 1e-9);
}

}  // namespace
}  // namespace baton::planner
