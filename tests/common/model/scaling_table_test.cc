#include "tests/common/model/scaling_table.h"

#include <vector>

#include "gtest/gtest.h"

namespace baton::test {
namespace {

nlohmann::json RunOf(int threads, double speed) {
  nlohmann::json run;
  run["threads"] = threads;
  run["limits"] = {{"copy_bytes_per_s", 20e9 * speed}, {"matmul_flops_per_s", 500e9 * speed}};
  run["prefill"].push_back({{"tokens", 512}, {"tokens_per_s", 1000 * speed}});
  run["decode"].push_back({{"batch", 1}, {"tokens_per_s", 10.0}});
  run["decode"].push_back({{"batch", 32}, {"tokens_per_s", 100 * speed}});
  return run;
}

TEST(ScalingTableTest, EachFigureStandsBesideItsRatioToTheFirstRun) {
  const std::vector<nlohmann::json> runs = {RunOf(1, 1), RunOf(4, 3.5)};
  EXPECT_EQ(ScalingTable(runs),
            "| threads | memory, GB/s | matmul, GFLOP/s | prefill, tokens/s | decode, batch 1, "
            "tokens/s | decode, batch 32, tokens/s |\n"
            "|---|---|---|---|---|---|\n"
            "| 1 | 20.0 (1.00) | 500.0 (1.00) | 1000.0 (1.00) | 10.0 (1.00) | 100.0 (1.00) |\n"
            "| 4 | 70.0 (3.50) | 1750.0 (3.50) | 3500.0 (3.50) | 10.0 (1.00) | 350.0 (3.50) |\n");
}

TEST(ScalingTableTest, NoRunsAreNoTable) { EXPECT_EQ(ScalingTable({}), ""); }

}  // namespace
}  // namespace baton::test
