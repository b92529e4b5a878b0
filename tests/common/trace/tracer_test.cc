#include "common/trace/tracer.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

const TraceContext kSampled = {
    .trace_high = 1, .trace_low = 2, .span = 3, .sampled = true, .state = "rojo=1"};

class TracerTest : public ::testing::Test {
 protected:
  std::unique_ptr<SpanTree> Begin(double ratio, const std::optional<TraceContext>& caller) {
    Tracer tracer(ratio, {"http://127.0.0.1:9", "/v1/traces"}, {}, &clock_);
    return tracer.Begin(caller, "request", SpanKind::kServer, clock_.Now());
  }

  const base::ManualClock clock_;
};

TEST_F(TracerTest, TheCallersFlagIsFollowedWhateverTheShare) {
  const auto tree = Begin(0, kSampled);
  ASSERT_NE(tree, nullptr);
  EXPECT_EQ(tree->context().trace_high, 1u);
  EXPECT_EQ(tree->context().trace_low, 2u);
  EXPECT_EQ(tree->context().state, "rojo=1");
  EXPECT_EQ(tree->spans()[0].parent, 3u);
  TraceContext unwanted = kSampled;
  unwanted.sampled = false;
  EXPECT_EQ(Begin(1, unwanted), nullptr);
}

TEST_F(TracerTest, WithoutACallersTraceTheShareDecidesAndATraceBegins) {
  EXPECT_EQ(Begin(0, std::nullopt), nullptr);
  const auto one = Begin(1, std::nullopt);
  const auto other = Begin(1, std::nullopt);
  ASSERT_NE(one, nullptr);
  EXPECT_EQ(one->spans()[0].parent, 0u);
  EXPECT_TRUE(one->context().sampled);
  EXPECT_NE(TraceIdHex(one->context()), TraceIdHex(other->context()));
}

TEST_F(TracerTest, WhatIsSampledIsAShareOfThem) {
  Tracer tracer(0.5, {"http://127.0.0.1:9", "/v1/traces"}, {}, &clock_);
  int sampled = 0;
  for (int i = 0; i < 400; ++i) {
    const auto tree = tracer.Begin(std::nullopt, "request", SpanKind::kServer, clock_.Now());
    if (tree == nullptr) continue;
    ++sampled;
    EXPECT_TRUE(SampledByRatio(tree->context(), 0.5));
  }
  EXPECT_GT(sampled, 100);
  EXPECT_LT(sampled, 300);
}

TEST_F(TracerTest, WithoutAnEndpointThereIsNone) {
  MetricsRegistry registry({.role = MetricRole::kRouter, .model_name = "m"});
  EXPECT_EQ(MakeTracer({}, "baton-router", 1, &clock_, &registry), nullptr);
  EXPECT_THAT(registry.Expose(), ::testing::HasSubstr("baton_trace_spans_exported_total"));
}

TEST_F(TracerTest, LostSpansAreCountedAmongTheMetrics) {
  MetricsRegistry registry({.role = MetricRole::kRouter, .model_name = "m"});
  ServerFlags flags;
  flags.otlp_endpoint = "http://127.0.0.1:9";
  const auto tracer = MakeTracer(flags, "baton-router", 1, &clock_, &registry);
  ASSERT_NE(tracer, nullptr);
  tracer->Stop(base::Duration::zero());
  tracer->Export(tracer->Begin(kSampled, "request", SpanKind::kServer, clock_.Now()));
  EXPECT_THAT(
      registry.Expose(),
      ::testing::ContainsRegex("baton_trace_spans_dropped_total\\{[^}]*reason=\"shutdown\"[^}]*"
                               "\\} 1"));
}

}  // namespace
}  // namespace baton
