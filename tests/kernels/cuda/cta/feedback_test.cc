#include "kernels/cuda/cta/feedback.h"

#include <gtest/gtest.h>

#include "kernels/backend.h"

namespace baton::kernels::cuda {
namespace {

TEST(TokenOfTest, AnIdIsItselfAndASlotWhatItDrewLast) {
  const int32_t drawn[] = {70, 0, 12};
  const LastTokens last = {.ids = drawn, .slots = 3};
  EXPECT_EQ(TokenOf(0, last), 0);
  EXPECT_EQ(TokenOf(31, last), 31);
  EXPECT_EQ(TokenOf(LastTokenOf(0), last), 70);
  EXPECT_EQ(TokenOf(LastTokenOf(1), last), 0);
  EXPECT_EQ(TokenOf(LastTokenOf(2), last), 12);
}

TEST(TokenOfTest, ASlotThatDoesNotExistIsNoId) {
  const int32_t drawn[] = {70};
  EXPECT_EQ(TokenOf(LastTokenOf(1), {.ids = drawn, .slots = 1}), -1);
  EXPECT_EQ(TokenOf(LastTokenOf(0), {}), -1);
}

}  // namespace
}  // namespace baton::kernels::cuda
