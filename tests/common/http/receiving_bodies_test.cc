#include "common/http/receiving_bodies.h"

#include <memory>
#include <string>

#include "gtest/gtest.h"

namespace baton {
namespace {

constexpr size_t kMost = 1000;

class ReceivingBodiesTest : public testing::Test {
 protected:
  std::unique_ptr<ReceivingBody> Of(const std::string& client) {
    return std::make_unique<ReceivingBody>(&all_, client, [this] { ++told_; });
  }

  ReceivingBodies all_;
  int told_ = 0;
};

TEST_F(ReceivingBodiesTest, AClientAloneHasAllAndIsRefusedBeyond) {
  auto first = Of("a");
  const auto second = Of("a");
  EXPECT_TRUE(first->GrowTo(600, kMost));
  EXPECT_TRUE(second->GrowTo(400, kMost));
  EXPECT_FALSE(second->GrowTo(401, kMost));
  EXPECT_EQ(told_, 0);
  first.reset();
  EXPECT_TRUE(second->GrowTo(1000, kMost));
}

TEST_F(ReceivingBodiesTest, WhoHasMostGivesWayWithItsLargest) {
  const auto small = Of("greedy");
  const auto large = Of("greedy");
  EXPECT_TRUE(small->GrowTo(400, kMost));
  EXPECT_TRUE(large->GrowTo(600, kMost));
  const auto other = Of("other");
  EXPECT_TRUE(other->GrowTo(1, kMost));
  EXPECT_EQ(told_, 1);
  EXPECT_TRUE(large->gave_way());
  EXPECT_FALSE(small->gave_way());
  EXPECT_FALSE(large->GrowTo(601, kMost)) << "it has no place any more";
  // Its bytes have been given back.
  EXPECT_TRUE(other->GrowTo(600, kMost));
  EXPECT_FALSE(other->GrowTo(601, kMost)) << "it has most by now";
  EXPECT_EQ(told_, 1);
}

TEST_F(ReceivingBodiesTest, AsManyGiveWayAsThereHaveToBe) {
  const auto first = Of("a");
  const auto second = Of("a");
  const auto third = Of("b");
  EXPECT_TRUE(first->GrowTo(310, kMost));
  EXPECT_TRUE(second->GrowTo(290, kMost));
  EXPECT_TRUE(third->GrowTo(400, kMost));
  const auto next = Of("c");
  EXPECT_TRUE(next->GrowTo(350, kMost));
  EXPECT_TRUE(first->gave_way());
  EXPECT_FALSE(second->gave_way());
  EXPECT_TRUE(third->gave_way());
}

TEST_F(ReceivingBodiesTest, BodiesThatHaveEndedLeaveNothingBehind) {
  for (int i = 0; i < 3; ++i) {
    const auto greedy = Of("greedy");
    EXPECT_TRUE(greedy->GrowTo(kMost, kMost));
    EXPECT_TRUE(Of("other")->GrowTo(1, kMost));
    EXPECT_EQ(told_, i + 1);
  }
  EXPECT_TRUE(Of("other")->GrowTo(kMost, kMost));
}

}  // namespace
}  // namespace baton
