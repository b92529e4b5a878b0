#include "router/edge/tenant_lines.h"

#include <gmock/gmock.h>

#include <vector>

#include "common/base/status.h"

namespace baton {
namespace {

TEST(TenantLines, RefuseBeyondATenantsBoundWithBothNumbersAndRetryInfo) {
  TenantLines lines({.others = {.max_queued = 3}, .named = {}});
  const auto first = lines.Take("a", 2);
  ASSERT_TRUE(first.ok());
  const absl::Status full = lines.Take("a", 2).status();
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ReasonOf(full), Reason::kQueueFull);
  EXPECT_THAT(DetailOf(full).values,
              ::testing::ElementsAre(std::pair("tenant", "a"), std::pair("have", "2"),
                                     std::pair("limit", "3")));
  EXPECT_TRUE(DetailOf(full).retry_after.has_value());
  EXPECT_TRUE(lines.Take("a", 1).ok());
  EXPECT_TRUE(lines.Take("b", 3).ok()) << "a's bound is no other's";
}

TEST(TenantLines, SharesAreGivenBackOnceWhereverTheyWereMoved) {
  TenantLines lines({.others = {.max_queued = 2}, .named = {}});
  TenantLines::Share share = *lines.Take("a", 1);
  TenantLines::Share moved = std::move(share);
  share = *lines.Take("a", 1);
  EXPECT_FALSE(lines.Take("a", 1).ok());
  moved = TenantLines::Share();
  EXPECT_TRUE(lines.Take("a", 1).ok());
  share = TenantLines::Share();
  EXPECT_TRUE(lines.Take("a", 2).ok());
}

TEST(TenantLines, ShareThatJoinsAnotherIsGivenBackWithIt) {
  TenantLines lines({.others = {.max_queued = 4}, .named = {}});
  TenantLines::Share share;
  share.Join(*lines.Take("a", 1));
  share.Join(*lines.Take("a", 3));
  EXPECT_EQ(share.requests(), 4);
  EXPECT_FALSE(lines.Take("a", 1).ok());
  share = TenantLines::Share();
  EXPECT_TRUE(lines.Take("a", 4).ok());
}

TEST(TenantLines, TenantsWithoutABoundAreNotCounted) {
  TenantLines lines({.others = {.max_queued = 1}, .named = {{"free", {.max_queued = 0}}}});
  std::vector<TenantLines::Share> shares;
  for (int i = 0; i < 100; ++i) shares.push_back(*lines.Take("free", 64));
}

}  // namespace
}  // namespace baton
