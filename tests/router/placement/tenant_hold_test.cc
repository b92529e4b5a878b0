#include "router/placement/tenant_hold.h"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

namespace baton {
namespace {

class TenantHoldTest : public ::testing::Test {
 protected:
  std::vector<uint64_t> ids_;
  TokensServed last_;
  std::shared_ptr<TenantReturns> returns_ =
      std::make_shared<TenantReturns>([this](uint64_t id, const TokensServed& served) {
        ids_.push_back(id);
        last_ = served;
      });
};

TEST_F(TenantHoldTest, APlacementThatNoAttemptUsedIsInVain) {
  { const TenantHold hold(returns_, 7); }
  EXPECT_EQ(ids_, std::vector<uint64_t>{7});
  EXPECT_TRUE(last_.in_vain);
}

TEST_F(TenantHoldTest, AnAttemptTellsWhatItBrought) {
  {
    TenantHold hold(returns_, 7);
    hold.SetOpened();
    hold.SetOutput(5);
  }
  EXPECT_FALSE(last_.in_vain);
  EXPECT_EQ(last_.output_tokens, 5);
  {
    TenantHold hold(returns_, 8);
    hold.SetOpened();
    hold.SetOutput(3);
    hold.SetInVain();
  }
  EXPECT_TRUE(last_.in_vain);
  EXPECT_EQ(last_.output_tokens, 3);
}

TEST_F(TenantHoldTest, IsGivenBackOnceHoweverOftenItMoves) {
  std::optional<TenantHold> hold(TenantHold(returns_, 7));
  TenantHold other(returns_, 8);
  other = std::move(*hold);
  hold.reset();
  EXPECT_EQ(ids_, std::vector<uint64_t>{8});
  TenantHold last = std::move(other);
  last = TenantHold();
  EXPECT_EQ(ids_, (std::vector<uint64_t>{8, 7}));
}

TEST_F(TenantHoldTest, NothingIsGivenBackToAQueueThatIsGone) {
  TenantHold hold(returns_, 7);
  returns_->Close();
  hold = TenantHold();
  EXPECT_TRUE(ids_.empty());
}

}  // namespace
}  // namespace baton
