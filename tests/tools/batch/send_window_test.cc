#include "tools/batch/send_window.h"

#include "gtest/gtest.h"

namespace baton::batch {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr base::Instant kStart{std::chrono::hours(1)};

TEST(SendWindow, TakesAsManyAsItMay) {
  const SendWindow window(3, seconds(60));
  EXPECT_TRUE(window.May(2, kStart));
  EXPECT_FALSE(window.May(3, kStart));
}

TEST(SendWindow, OfWhatIsRefusedTheRestIsWhatFits) {
  SendWindow window(8, seconds(60));
  for (const size_t under_way : {7u, 6u, 5u}) window.OnRefused(kStart, under_way, std::nullopt);
  EXPECT_EQ(window.size(), 5u);
  EXPECT_FALSE(window.May(4, kStart));
  EXPECT_TRUE(window.May(4, window.not_before()));
  EXPECT_FALSE(window.May(5, window.not_before()));
  window.OnAnswer();
  EXPECT_EQ(window.size(), 6u);
  for (int i = 0; i < 9; ++i) window.OnAnswer();
  EXPECT_EQ(window.size(), 8u);
}

TEST(SendWindow, WaitsAsLongAsTheServiceWants) {
  SendWindow window(8, seconds(60));
  window.OnRefused(kStart, 7, seconds(3));
  EXPECT_FALSE(window.May(0, kStart + milliseconds(2999)));
  EXPECT_TRUE(window.May(0, kStart + seconds(3)));
  window.OnRefused(kStart + seconds(4), 7, milliseconds(10));
  EXPECT_TRUE(window.May(0, kStart + milliseconds(4010)));
}

TEST(SendWindow, WhereNobodyIsOneGoesAheadAfterEverLongerPauses) {
  SendWindow window(8, seconds(60));
  // All that was under way fails at once.
  for (int i = 0; i < 8; ++i) window.OnAway(kStart);
  EXPECT_EQ(window.size(), 1u);
  const base::Duration first = window.not_before() - kStart;
  const base::Instant again = window.not_before();
  window.OnAway(again);
  EXPECT_EQ(window.not_before() - again, 2 * first);
  for (int i = 0; i < 20; ++i) window.OnAway(window.not_before());
  const base::Instant late = window.not_before();
  window.OnAway(late);
  EXPECT_EQ(window.not_before() - late, seconds(15));
  window.OnAnswer();
  window.OnAway(window.not_before());
  EXPECT_EQ(window.not_before() - (late + seconds(15)), first);
}

TEST(SendWindow, PatienceEndsWithoutAnAnswerOnly) {
  SendWindow window(8, seconds(60));
  EXPECT_FALSE(window.LostPatience(kStart + seconds(600), 0));  // slow is not away
  window.OnAway(kStart);
  EXPECT_FALSE(window.LostPatience(kStart + seconds(60), 0));
  EXPECT_TRUE(window.LostPatience(kStart + seconds(61), 0));
  window.OnAnswer();
  EXPECT_FALSE(window.LostPatience(kStart + seconds(61), 0));
}

TEST(SendWindow, WhatIsUnderWayIsWaitedFor) {
  SendWindow window(8, seconds(60));
  window.OnRefused(kStart, 3, std::nullopt);
  EXPECT_FALSE(window.LostPatience(kStart + seconds(600), 1));
  // It was computed until now, in vain.
  window.OnEnded(kStart + seconds(600), kStart);
  EXPECT_FALSE(window.LostPatience(kStart + seconds(660), 0));
  EXPECT_TRUE(window.LostPatience(kStart + seconds(661), 0));
}

TEST(SendWindow, AttemptsThatFailSoonDoNotProlongThePatience) {
  SendWindow window(8, seconds(60));
  for (base::Instant now = kStart; now <= kStart + seconds(60); now += seconds(10)) {
    window.OnEnded(now, now - seconds(9));
    window.OnAway(now);
  }
  EXPECT_TRUE(window.LostPatience(kStart + seconds(61), 0));
}

TEST(SendWindow, WhatTakesTooLongHalvesIt) {
  SendWindow window(8, seconds(60));
  window.OnTooSlow(kStart, kStart - seconds(9));
  EXPECT_EQ(window.size(), 4u);
  for (int i = 0; i < 5; ++i) {
    const base::Instant sent = kStart + seconds(10 * i + 1);
    window.OnTooSlow(sent + seconds(9), sent);
  }
  EXPECT_EQ(window.size(), 1u);
}

TEST(SendWindow, WhatWasUnderWayTogetherIsTooMuchOnce) {
  SendWindow window(32, seconds(60));
  // They end one after the other, and the last of them were sent shortly before the first ended.
  for (int i = 0; i < 32; ++i) window.OnTooSlow(kStart + milliseconds(i), kStart - milliseconds(i));
  EXPECT_EQ(window.size(), 16u);
  window.OnTooSlow(kStart + seconds(10), kStart + milliseconds(1));
  EXPECT_EQ(window.size(), 8u);
}

}  // namespace
}  // namespace baton::batch
