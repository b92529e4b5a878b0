#include "kernels/cuda/device/architectures.h"

#include <gtest/gtest.h>

namespace baton::kernels::cuda {
namespace {

TEST(RunsOnTest, MachineCodeOfOneGpuRunsThereOnly) {
  EXPECT_TRUE(RunsOn("90a-real", 9, 0));
  EXPECT_FALSE(RunsOn("90a-real", 10, 0));
  EXPECT_FALSE(RunsOn("90a-real", 8, 9));
  EXPECT_FALSE(RunsOn("90a", 9, 1));
}

TEST(RunsOnTest, MachineCodeRunsOnLaterGpusOfItsGeneration) {
  EXPECT_TRUE(RunsOn("80-real", 8, 0));
  EXPECT_TRUE(RunsOn("80-real", 8, 9));
  EXPECT_FALSE(RunsOn("86-real", 8, 0));
  EXPECT_FALSE(RunsOn("80-real", 9, 0));
  EXPECT_TRUE(RunsOn("100f-real", 10, 3));
  EXPECT_FALSE(RunsOn("100f-real", 12, 0));
}

TEST(RunsOnTest, CodeForTheDriverToCompileRunsOnAllLaterGpus) {
  EXPECT_TRUE(RunsOn("80", 10, 0));
  EXPECT_TRUE(RunsOn("80-virtual", 9, 0));
  EXPECT_FALSE(RunsOn("90-virtual", 8, 9));
}

TEST(RunsOnTest, AnyEntryWillDo) {
  EXPECT_TRUE(RunsOn("80-real,90a-real", 9, 0));
  EXPECT_TRUE(RunsOn("80-real,90a-real", 8, 6));
  EXPECT_FALSE(RunsOn("80-real,90a-real", 10, 0));
  EXPECT_FALSE(RunsOn("", 9, 0));
  EXPECT_TRUE(RunsOn("native", 7, 5));
}

}  // namespace
}  // namespace baton::kernels::cuda
