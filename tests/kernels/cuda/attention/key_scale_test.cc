#include "kernels/cuda/attention/key_scale.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace baton::kernels::cuda {
namespace {

TEST(SplitKeyScaleTest, QueriesTakeThePowerOfTwoOfAScaleBelowOne) {
  EXPECT_EQ(SplitKeyScale(0.5F).query, 0.5F);
  EXPECT_EQ(SplitKeyScale(0.5F).score, 1);
  EXPECT_EQ(SplitKeyScale(0.75F).query, 0.5F);
  EXPECT_EQ(SplitKeyScale(0.75F).score, 1.5F);
  EXPECT_EQ(SplitKeyScale(0.005F).query, 0x1p-8F);
  EXPECT_EQ(SplitKeyScale(0.005F).score, 0.005F * 256);
}

TEST(SplitKeyScaleTest, QueriesStayAsTheyAreFromOneOn) {
  for (const float k_scale : {1.0F, 1.5F, 2.0F, 300.0F}) {
    EXPECT_EQ(SplitKeyScale(k_scale).query, 1);
    EXPECT_EQ(SplitKeyScale(k_scale).score, k_scale);
  }
}

// With a score of at least 1 the lowest score that FlashInfer tells from a masked one is -5e4 /
// √head_dim or below.
TEST(SplitKeyScaleTest, NoScaleLeavesScoresLessRoomThanOneDoes) {
  const float smallest = std::numeric_limits<float>::denorm_min();
  for (float k_scale = smallest; k_scale < 1e9F; k_scale *= 1.75F) {
    const KeyScale split = SplitKeyScale(k_scale);
    SCOPED_TRACE(testing::Message() << k_scale << ": " << split.query << " and " << split.score);
    EXPECT_GE(split.score, 1);
    EXPECT_EQ(split.query * split.score, k_scale) << "exact: nothing is rounded";
    int exponent = 0;
    EXPECT_EQ(std::frexp(split.query, &exponent), 0.5F) << "a power of two";
    EXPECT_LE(split.query, 1);
    EXPECT_LT(split.score, std::max(2.0F, 2 * k_scale));
  }
}

}  // namespace
}  // namespace baton::kernels::cuda
