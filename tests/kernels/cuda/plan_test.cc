// What the host decides for the GPU: row ladders, the division of attention, the arrays of a step.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <set>
#include <vector>

#include "kernels/cuda/attention/attention_plan.h"
#include "kernels/cuda/gemm/matmul.h"
#include "kernels/cuda/graph/graph.h"
#include "kernels/cuda/graph/row_buckets.h"
#include "kernels/cuda/graph/step_inputs.h"

namespace baton::kernels::cuda {
namespace {

using testing::Each;
using testing::ElementsAre;

TEST(RowBucketTest, IsTheNextRungAndItsOwnBucket) {
  int64_t last = 0;
  for (int64_t rows = 1; rows <= 20000; ++rows) {
    const int64_t bucket = RowBucket(rows);
    ASSERT_GE(bucket, rows);
    ASSERT_GE(bucket, last) << rows;
    ASSERT_EQ(RowBucket(bucket), bucket) << rows;
    last = bucket;
  }
}

TEST(RowBucketTest, WastesLittle) {
  for (int64_t rows = 9; rows <= 20000; ++rows) {
    const int64_t waste = RowBucket(rows) - rows;
    ASSERT_LE(waste, std::max<int64_t>(7, rows / 2)) << rows;
  }
}

TEST(RowBucketTest, LadderHoldsEveryBucketOnce) {
  const std::vector<int64_t> ladder = RowBuckets(300);
  std::set<int64_t> expected;
  for (int64_t rows = 1; rows <= 300; ++rows) expected.insert(RowBucket(rows));
  EXPECT_EQ(std::vector<int64_t>(expected.begin(), expected.end()), ladder);
  EXPECT_THAT(RowBuckets(1), ElementsAre(1));
}

TEST(CaptureRowsTest, NoNumberOfRowsUpToTheLargestIsLeftOut) {
  for (int64_t most = 1; most <= 600; ++most) {
    int64_t last = 0;
    for (int64_t rows = 1; rows <= most; ++rows) {
      const int64_t captured = CaptureRows(rows, most);
      ASSERT_GE(captured, rows) << "of " << most;
      ASSERT_LE(captured, most) << rows;
      ASSERT_GE(captured, last) << rows << " of " << most;
      last = captured;
    }
    EXPECT_EQ(CaptureRows(most + 1, most), 0);
  }
}

TEST(GridBucketTest, IsThePowerOfTwoAbove) {
  EXPECT_EQ(GridBucket(0), 1);
  EXPECT_EQ(GridBucket(1), 1);
  EXPECT_EQ(GridBucket(5), 8);
  EXPECT_EQ(GridBucket(64), 64);
}

constexpr AttentionShape kShape = {.q_heads = 32, .kv_heads = 8, .head_dim = 128, .scale = 1};

// Sequences of (tokens, context), with block tables.
struct Batch {
  explicit Batch(std::vector<std::pair<int, int>> lengths) {
    tables.resize(lengths.size());
    int row = 0;
    int block = 100;
    for (size_t i = 0; i < lengths.size(); ++i) {
      const auto [count, context] = lengths[i];
      for (int at = 0; at < context; at += 16) tables[i].push_back(block++);
      sequences.push_back({row, count, context, tables[i]});
      for (int t = 0; t < count; ++t) {
        tokens.push_back(row + t + 7);
        positions.push_back(context - count + t);
      }
      row += count;
    }
  }
  StepLayout layout() const {
    return {.tokens = tokens,
            .positions = positions,
            .sequences = sequences,
            .sample_rows = sample_rows};
  }
  std::vector<std::vector<int32_t>> tables;
  std::vector<StepLayout::Sequence> sequences;
  std::vector<int32_t> tokens, positions, sample_rows;
};

TEST(AttentionPlanTest, DecodeSequencesAreSplitAtFixedLengths) {
  const Batch batch({{1, 1}, {1, 256}, {1, 257}, {1, 1000}});
  AttentionPlan plan;
  PlanAttention(batch.sequences, kShape, 4, 1000, plan);
  EXPECT_THAT(plan.narrow_sequence, ElementsAre(0, 1, 2, 2, 3, 3, 3, 3));
  EXPECT_THAT(plan.narrow_split, ElementsAre(0, 0, 0, 1, 0, 1, 2, 3));
  EXPECT_THAT(plan.partial_indptr, ElementsAre(0, 1, 2, 4, 8));
  EXPECT_THAT(plan.merge_indptr, ElementsAre(0, 1, 2, 4, 8));
  EXPECT_TRUE(plan.wide_sequence.empty());
  EXPECT_EQ(plan.split_tokens, 256);
}

TEST(AttentionPlanTest, ASequencesPartsDoNotDependOnTheOthers) {
  AttentionPlan alone;
  const Batch one({{1, 3000}});
  PlanAttention(one.sequences, kShape, 1, 100000, alone);
  AttentionPlan together;
  const Batch many({{300, 300}, {1, 3000}, {64, 5000}, {1, 9}});
  PlanAttention(many.sequences, kShape, 366, 100000, together);
  std::vector<int32_t> parts;
  for (size_t i = 0; i < together.narrow_sequence.size(); ++i) {
    if (together.narrow_sequence[i] == 1) parts.push_back(together.narrow_split[i]);
  }
  EXPECT_EQ(parts, alone.narrow_split);
  EXPECT_EQ(together.split_tokens, alone.split_tokens);
}

TEST(AttentionPlanTest, LongChunksAreTiledAndMergeNothing) {
  // 40 tokens of 4 packed heads are 160 rows: two tiles of 128.
  const Batch batch({{40, 40}, {1, 10}});
  AttentionPlan plan;
  PlanAttention(batch.sequences, kShape, 41, 1000, plan);
  EXPECT_THAT(plan.wide_sequence, ElementsAre(0, 0));
  EXPECT_THAT(plan.wide_tile, ElementsAre(1, 0));
  EXPECT_THAT(plan.narrow_sequence, ElementsAre(1));
  EXPECT_EQ(plan.merge_indptr[40], 0) << "rows of the chunk have no parts";
  EXPECT_EQ(plan.merge_indptr[41], 1);
}

TEST(AttentionPlanTest, AWindowLimitsTheParts) {
  AttentionShape shape = kShape;
  shape.sliding_window = 512;
  const Batch batch({{1, 10000}});
  AttentionPlan plan;
  PlanAttention(batch.sequences, shape, 1, 1000, plan);
  // 511 tokens before the query and a tile of 16 rows, as the kernel counts.
  EXPECT_EQ(plan.partials(), 3);
}

TEST(AttentionPlanTest, PartsGrowUntilTheyFitTheWorkspace) {
  const Batch batch({{1, 4096}, {1, 4096}});
  AttentionPlan plan;
  PlanAttention(batch.sequences, kShape, 2, 8, plan);
  EXPECT_EQ(plan.split_tokens, 1024);
  EXPECT_EQ(plan.partials(), 8);
}

TEST(AttentionPlanTest, PaddingRowsHaveNoParts) {
  const Batch batch({{1, 100}});
  AttentionPlan plan;
  PlanAttention(batch.sequences, kShape, 4, 1000, plan);
  EXPECT_THAT(plan.merge_indptr, ElementsAre(0, 1, 1, 1, 1));
}

TEST(StepArraysTest, PaddingTouchesNoKv) {
  Batch batch({{1, 17}, {1, 5}});
  batch.sample_rows = {0, 1};
  AttentionPlan plan;
  PlanAttention(batch.sequences, kShape, 4, 1000, plan);
  const StepSizes sizes = {.rows = 4, .samples = 4, .sequences = 4, .grids = {{8, 0}}};
  StepArrays arrays;
  std::vector<std::byte> memory(4096);
  ASSERT_LT(PlaceArrays(sizes, memory.data(), arrays), memory.size());
  const AttentionPlan* const plans[] = {&plan};
  FillArrays(batch.layout(), {.block_size = 16}, sizes, plans, arrays);
  const auto rows = [](const auto* data, int count) {
    return std::vector<int64_t>(data, data + count);
  };
  EXPECT_THAT(rows(arrays.cache_index, 4), ElementsAre(101 * 16 + 0, 102 * 16 + 4, -1, -1));
  EXPECT_THAT(rows(arrays.tokens, 4), ElementsAre(7, 8, 0, 0));
  EXPECT_THAT(rows(arrays.row_sequences, 4), ElementsAre(0, 1, -1, -1));
  EXPECT_THAT(rows(arrays.sample_rows, 4), ElementsAre(0, 1, 0, 0));
  EXPECT_THAT(rows(arrays.row_indptr, 5), ElementsAre(0, 1, 2, 2, 2));
  EXPECT_THAT(rows(arrays.block_indptr, 5), ElementsAre(0, 2, 3, 3, 3));
  EXPECT_THAT(rows(arrays.last_block_tokens, 2), ElementsAre(1, 5));
  EXPECT_THAT(rows(arrays.blocks, 3), ElementsAre(100, 101, 102));
  const PlanInputs& inputs = arrays.plans[0];
  EXPECT_THAT(rows(inputs.narrow_valid, 8), ElementsAre(1, 1, 0, 0, 0, 0, 0, 0));
  EXPECT_THAT(rows(inputs.merge_indptr, 5), ElementsAre(0, 1, 2, 2, 2));
  EXPECT_EQ(*inputs.split_tokens, 256);
}

TEST(StepArraysTest, AddressesFollowFromTheSizesAlone) {
  const StepSizes sizes = {.rows = 8, .samples = 8, .sequences = 8, .grids = {{16, 0}, {8, 0}}};
  StepArrays first;
  StepArrays second;
  std::vector<std::byte> memory(8192);
  EXPECT_EQ(PlaceArrays(sizes, memory.data(), first), PlaceArrays(sizes, memory.data(), second));
  EXPECT_EQ(first.blocks, second.blocks);
  EXPECT_EQ(first.plans[1].merge_indptr, second.plans[1].merge_indptr);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(first.plans[0].narrow_tile) % 16, 0U);
}

TEST(MatMulKeyTest, WhateverChangesTheAlgorithmIsAnotherKey) {
  const MatMulKey key = {.rows = 8, .out = 64, .in = 32, .out_dtype = DType::kBF16};
  std::set<MatMulKey> keys = {key};
  for (const auto& change : std::vector<void (*)(MatMulKey&)>{
           [](MatMulKey& k) { k.rows = 16; }, [](MatMulKey& k) { k.out = 128; },
           [](MatMulKey& k) { k.in = 64; }, [](MatMulKey& k) { k.out_dtype = DType::kF32; },
           [](MatMulKey& k) { k.bias = true; }, [](MatMulKey& k) { k.accumulate = true; }}) {
    MatMulKey other = key;
    change(other);
    EXPECT_TRUE(keys.insert(other).second);
  }
  EXPECT_FALSE(keys.insert(key).second);
}

TEST(GraphKeyTest, StepsOfAnotherShapeProgramOrArenaAreOthers) {
  const GraphKey key = {.program = 1, .rows = 8, .samples = 8, .grids = {{16, 0}}};
  std::set<GraphKey> keys = {key};
  int arena = 0;
  for (GraphKey other :
       {GraphKey{2, 8, 8, {{16, 0}}, nullptr}, GraphKey{1, 16, 8, {{16, 0}}, nullptr},
        GraphKey{1, 8, 4, {{16, 0}}, nullptr}, GraphKey{1, 8, 8, {{32, 0}}, nullptr},
        GraphKey{1, 8, 8, {{16, 0}}, &arena}}) {
    EXPECT_TRUE(keys.insert(other).second);
  }
  EXPECT_FALSE(keys.insert(key).second);
}

}  // namespace
}  // namespace baton::kernels::cuda
