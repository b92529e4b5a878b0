#include "tools/sim/workload.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace baton::simulator {
namespace {

bench::PlanOptions PlanOf(const char* input_tokens, int64_t requests) {
  bench::PlanOptions plan;
  plan.rate = 1;
  plan.requests = requests;
  plan.input = *bench::LengthDistribution::Parse(input_tokens, bench::LengthSide::kInput);
  plan.output = *bench::LengthDistribution::Parse("5", bench::LengthSide::kOutput);
  plan.shared_prefix_tokens = 50;
  return plan;
}

TEST(Workload, PlannedPromptsThatASharedPrefixFillsAreCounted) {
  const auto load = PlannedWorkload(PlanOf("1:100", 200));
  ASSERT_TRUE(load.ok()) << load.status();
  const auto filled = [](const SimRequest& request) { return request.input_tokens <= 50; };
  EXPECT_GT(load->filled_by_prefix, 0);
  EXPECT_EQ(load->filled_by_prefix, std::ranges::count_if(load->requests, filled));
}

TEST(Workload, OfRecordedAnswersTheRecordedPromptsCount) {
  RecordedAnswers answers;
  for (const int32_t tokens : {20, 50, 51, 90}) {
    answers.requests.push_back(
        {.at = {}, .input_tokens = tokens, .output_tokens = 3, .hash_ids = {}, .recorded = {}});
  }
  const auto load = RecordedWorkload(PlanOf("1:100", 6), answers);
  ASSERT_TRUE(load.ok()) << load.status();
  EXPECT_EQ(load->filled_by_prefix, 4) << "two of four, and the first two once more";
}

}  // namespace
}  // namespace baton::simulator
