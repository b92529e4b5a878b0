// How the attention of a step is divided over threads.
#include "kernels/cpu/attention/attention_tasks.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <tuple>

#include "tests/kernels/paged_fixture.h"

namespace baton::kernels::cpu {
namespace {

// Splits of 256 tokens by the first row, position and KV head of the queries that see them.
using Cover = std::map<std::tuple<int64_t, int32_t, int32_t>, std::multiset<int32_t>>;

Cover CoverOf(std::span<const AttentionTask> tasks, const AttentionShape& shape) {
  Cover cover;
  for (const AttentionTask& task : tasks) {
    const SplitRange splits = task.shared != nullptr ? task.splits : SplitsSeen(task, shape);
    for (int32_t query = 0; query < task.queries; ++query) {
      for (int32_t head = task.kv_head; head < task.kv_head + task.kv_heads; ++head) {
        auto& seen = cover[{task.first_row + query, task.first_position + query, head}];
        for (int32_t split = splits.begin; split < splits.end; ++split) seen.insert(split);
      }
    }
  }
  return cover;
}

TEST(AttentionTasksTest, OneLongContextIsWorkForEveryThread) {
  const AttentionShape shape = ShapeOf(8, 2, 64);
  const std::vector<int32_t> blocks(1024, 0);
  const StepLayout::Sequence sequence{0, 1, 16384, blocks};  // 64 splits
  for (const int threads : {2, 5, 16}) {
    AttentionTasks planned;
    const auto tasks = planned.For({&sequence, 1}, shape, threads);
    EXPECT_GE(tasks.size(), static_cast<size_t>(threads)) << threads;
    int32_t longest = 0;
    for (const AttentionTask& task : tasks) {
      longest = std::max(longest, task.shared != nullptr ? task.splits.count() : 64);
    }
    EXPECT_LE(longest, 2 * 64 / threads) << threads;
  }
}

TEST(AttentionTasksTest, OneThreadDividesNothing) {
  const AttentionShape shape = ShapeOf(8, 2, 64);
  const std::vector<int32_t> blocks(1024, 0);
  const StepLayout::Sequence sequence{0, 1, 16384, blocks};
  AttentionTasks planned;
  for (const AttentionTask& task : planned.For({&sequence, 1}, shape, 1)) {
    EXPECT_EQ(task.shared, nullptr);
  }
}

TEST(AttentionTasksTest, EverySplitIsComputedOnceHoweverManyThreads) {
  const std::vector<int32_t> blocks(1024, 0);
  for (const int window : {0, 300}) {
    const AttentionShape shape = ShapeOf(8, 2, 64, window);
    const std::vector<StepLayout::Sequence> sequences = {
        {0, 1, 9000, blocks}, {1, 1, 40, blocks}, {2, 70, 2000, blocks}, {72, 1, 700, blocks}};
    AttentionTasks alone;
    const Cover expected = CoverOf(alone.For(sequences, shape, 1), shape);
    EXPECT_EQ(expected.size(), 73U * 2);
    for (const int threads : {2, 3, 16, 64}) {
      AttentionTasks planned;
      const auto tasks = planned.For(sequences, shape, threads);
      Cover cover;
      std::map<SharedSplits*, int> sharers;
      for (const AttentionTask& task : tasks) {
        if (task.shared != nullptr) ++sharers[task.shared];
      }
      for (const auto& [shared, count] : sharers) EXPECT_EQ(shared->tasks, count);
      // Queries that stand in one task see the splits of all of them.
      for (const auto& [query, splits] : CoverOf(tasks, shape)) {
        EXPECT_EQ(std::set<int32_t>(splits.begin(), splits.end()).size(), splits.size());
        ASSERT_TRUE(expected.contains(query));
        const int32_t position = std::get<1>(query);
        const int32_t first = window > 0 ? std::max(0, position - window + 1) / 256 : 0;
        for (int32_t split = first; split <= position / 256; ++split) {
          EXPECT_EQ(splits.count(split), 1U) << threads << " threads, position " << position;
        }
      }
    }
  }
}

TEST(AttentionTasksTest, LayersOfAnotherWindowHaveTheirOwn) {
  const std::vector<int32_t> blocks(1024, 0);
  const StepLayout::Sequence sequence{0, 1, 16384, blocks};
  AttentionTasks planned;
  const auto splits = [&](int window) {
    std::set<int32_t> seen;
    const AttentionShape shape = ShapeOf(8, 2, 64, window);
    for (const auto& [query, some] : CoverOf(planned.For({&sequence, 1}, shape, 4), shape)) {
      seen.insert(some.begin(), some.end());
    }
    return seen.size();
  };
  EXPECT_EQ(splits(0), 64U);
  EXPECT_EQ(splits(1024), 4U);
  EXPECT_EQ(splits(0), 64U);
}

}  // namespace
}  // namespace baton::kernels::cpu
