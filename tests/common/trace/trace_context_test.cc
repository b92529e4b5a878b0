#include "common/trace/trace_context.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

constexpr char kGood[] = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

TEST(Traceparent, IsReadAndWrittenAlike) {
  const auto context = ParseTraceparent(kGood);
  ASSERT_TRUE(context);
  EXPECT_EQ(context->trace_high, 0x4bf92f3577b34da6u);
  EXPECT_EQ(context->trace_low, 0xa3ce929d0e0e4736u);
  EXPECT_EQ(context->span, 0x00f067aa0ba902b7u);
  EXPECT_TRUE(context->sampled);
  EXPECT_EQ(FormatTraceparent(*context), kGood);
  EXPECT_EQ(TraceIdHex(*context), "4bf92f3577b34da6a3ce929d0e0e4736");
  EXPECT_EQ(SpanIdHex(context->span), "00f067aa0ba902b7");
}

TEST(Traceparent, OfTheFlagsOnlySampledCounts) {
  const std::string prefix(kGood, sizeof(kGood) - 3);
  EXPECT_FALSE(ParseTraceparent(prefix + "00")->sampled);
  EXPECT_FALSE(ParseTraceparent(prefix + "fe")->sampled);
  EXPECT_TRUE(ParseTraceparent(prefix + "ff")->sampled);
}

TEST(Traceparent, ALaterVersionMayGoOnBehindADash) {
  const std::string later = "cc" + std::string(kGood + 2);
  EXPECT_TRUE(ParseTraceparent(later));
  EXPECT_TRUE(ParseTraceparent(later + "-what-the-future-will-be-like"));
  EXPECT_FALSE(ParseTraceparent(later + ".what-the-future-will-be-like"));
}

TEST(Traceparent, AMalformedOneIsNone) {
  for (const char* wrong : {
           "",
           "00",
           "4bf92f3577b34da6a3ce929d0e0e4736",
           "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
           "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0",
           "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-extra",
           "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01 ",
           "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
           "0x-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
           "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
           "00-4bf92f3577b34da6a3ce929d0e0e473g-00f067aa0ba902b7-01",
           "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
           "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
           "00_4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
           "00-4bf92f3577b34da6a3ce929d0e0e4736_00f067aa0ba902b7-01",
           "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7_01",
           "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0z",
       }) {
    EXPECT_FALSE(ParseTraceparent(wrong)) << wrong;
  }
}

TEST(ContextOfHeaders, JoinsTheStatesInTheirOrder) {
  const auto context =
      ContextOfHeaders({kGood}, {"rojo=00f067aa0ba902b7", "", "congo=t61rcWkgMzE"});
  ASSERT_TRUE(context);
  EXPECT_EQ(context->state, "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE");
}

TEST(ContextOfHeaders, IsEmptyUnlessThereIsOneTraceparent) {
  EXPECT_FALSE(ContextOfHeaders({}, {"rojo=1"}));
  EXPECT_FALSE(ContextOfHeaders({kGood, kGood}, {}));
  EXPECT_FALSE(ContextOfHeaders({"nonsense"}, {"rojo=1"}));
}

TEST(ContextOfHeaders, LeavesAStateBehindThatNoHeaderCouldCarry) {
  for (const std::string& state :
       {std::string("a=\n"), std::string("a=\xc3\xa4"), "a=" + std::string(511, 'x')}) {
    const auto context = ContextOfHeaders({kGood}, {state});
    ASSERT_TRUE(context);
    EXPECT_EQ(context->state, "");
  }
  EXPECT_EQ(ContextOfHeaders({kGood}, {"a=" + std::string(510, 'x')})->state.size(), 512u);
}

TEST(SampledByRatio, DependsOnTheIdAloneAndTakesTheShare) {
  EXPECT_TRUE(SampledByRatio({.trace_low = ~uint64_t{0}}, 1));
  EXPECT_FALSE(SampledByRatio({.trace_low = 0}, 0));
  EXPECT_TRUE(SampledByRatio({.trace_low = 0}, 1e-9));
  // The upper 63 bits of the id's second half are compared with the share of 2^63.
  constexpr uint64_t kHalf = uint64_t{1} << 63;
  EXPECT_TRUE(SampledByRatio({.trace_high = 7, .trace_low = kHalf - 1}, 0.5));
  EXPECT_FALSE(SampledByRatio({.trace_high = 7, .trace_low = kHalf}, 0.5));
  int sampled = 0;
  for (uint64_t i = 0; i < 10'000; ++i) {
    sampled += SampledByRatio({.trace_low = i * 0x9e3779b97f4a7c15u}, 0.25) ? 1 : 0;
  }
  EXPECT_NEAR(sampled, 2500, 100);
}

}  // namespace
}  // namespace baton
