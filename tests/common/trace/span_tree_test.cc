#include "common/trace/span_tree.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

using std::chrono::milliseconds;

const TraceContext kCaller = {.trace_high = 1, .trace_low = 2, .span = 3, .sampled = true};

class SpanTreeTest : public ::testing::Test {
 protected:
  base::Instant At(int64_t ms) const { return begin_ + milliseconds(ms); }

  base::ManualClock clock_;
  const base::Instant begin_ = clock_.Now();
  SpanTree tree_{kCaller, "root", SpanKind::kServer, begin_, clock_};
};

TEST_F(SpanTreeTest, TheRootIsUnderTheCallerAndStagesUnderTheRoot) {
  const SpanTree::Ref stage = tree_.Open(SpanTree::kRoot, "stage", At(1));
  const SpanTree::Ref remote = tree_.OpenUnder(77, "receive", At(2), SpanKind::kServer);
  EXPECT_EQ(tree_.spans()[SpanTree::kRoot].parent, 3u);
  EXPECT_EQ(tree_.spans()[stage].parent, tree_.spans()[SpanTree::kRoot].id);
  EXPECT_EQ(tree_.spans()[remote].parent, 77u);
  EXPECT_NE(tree_.spans()[stage].id, tree_.spans()[remote].id);
}

TEST_F(SpanTreeTest, TheContextOfASpanIsWhatItsCallsCarry) {
  const SpanTree::Ref stage = tree_.Open(SpanTree::kRoot, "stage", At(1));
  const TraceContext context = tree_.ContextOf(stage);
  EXPECT_EQ(context.trace_high, 1u);
  EXPECT_EQ(context.trace_low, 2u);
  EXPECT_EQ(context.span, tree_.spans()[stage].id);
  EXPECT_TRUE(context.sampled);
}

TEST_F(SpanTreeTest, TheFirstEndCountsAndNoSpanEndsBeforeItBegan) {
  const SpanTree::Ref stage = tree_.Open(SpanTree::kRoot, "stage", At(5));
  tree_.Close(stage, At(4));
  tree_.Close(stage, At(9));
  tree_.CloseAll(At(10));
  EXPECT_EQ(tree_.spans()[stage].end, At(5));
  EXPECT_EQ(tree_.spans()[SpanTree::kRoot].end, At(10));
}

TEST_F(SpanTreeTest, TheFirstErrorCounts) {
  EXPECT_FALSE(tree_.spans()[SpanTree::kRoot].failed);
  tree_.Fail(SpanTree::kRoot, "the cause");
  tree_.Fail(SpanTree::kRoot, "what followed");
  EXPECT_TRUE(tree_.spans()[SpanTree::kRoot].failed);
  EXPECT_EQ(tree_.spans()[SpanTree::kRoot].error, "the cause");
}

TEST_F(SpanTreeTest, TimesOfTheCalendarKeepTheirDistances) {
  EXPECT_EQ(tree_.UnixNanos(At(7)) - tree_.UnixNanos(At(2)), 5'000'000);
  EXPECT_NEAR(static_cast<double>(tree_.UnixNanos(begin_)), clock_.UnixNow() * 1e9, 1e3);
}

TEST_F(SpanTreeTest, ASpanTooManyIsCountedAndLeftOut) {
  for (size_t i = 1; i < SpanTree::kMaxSpans; ++i) {
    ASSERT_NE(tree_.Open(SpanTree::kRoot, "stage", At(1)), SpanTree::kNone);
  }
  const SpanTree::Ref none = tree_.Open(SpanTree::kRoot, "one more", At(1));
  EXPECT_EQ(none, SpanTree::kNone);
  EXPECT_EQ(tree_.Open(none, "under it", At(1)), SpanTree::kNone);
  tree_.Set(none, "key", int64_t{1});
  tree_.AddEvent(none, "event", At(1));
  tree_.Close(none, At(2));
  tree_.CloseAll(At(3));
  EXPECT_EQ(tree_.spans().size(), SpanTree::kMaxSpans);
  const SpanAttribute& said = tree_.spans()[SpanTree::kRoot].attributes.back();
  EXPECT_EQ(said.key, "baton.spans_left_out");
  EXPECT_EQ(std::get<int64_t>(said.value), 1);
}

TEST_F(SpanTreeTest, AnAttributeThatIsSetAgainIsReplaced) {
  tree_.Set(SpanTree::kRoot, "key", int64_t{1});
  tree_.Set(SpanTree::kRoot, "key", int64_t{2});
  ASSERT_EQ(tree_.spans()[SpanTree::kRoot].attributes.size(), 1u);
  EXPECT_EQ(std::get<int64_t>(tree_.spans()[SpanTree::kRoot].attributes[0].value), 2);
}

TEST_F(SpanTreeTest, EventsOfASpanAreBounded) {
  for (size_t i = 0; i < 2 * SpanTree::kMaxEvents; ++i) {
    tree_.AddEvent(SpanTree::kRoot, "event", At(1));
  }
  EXPECT_EQ(tree_.spans()[SpanTree::kRoot].events.size(), SpanTree::kMaxEvents);
}

}  // namespace
}  // namespace baton
