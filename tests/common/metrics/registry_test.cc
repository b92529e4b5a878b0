#include "common/metrics/registry.h"

#include <algorithm>
#include <cstdlib>

#include "common/metrics/process.h"
#include "gtest/gtest.h"
#include "tests/fakes/scratch_folder.h"

namespace baton {
namespace {

// Not a matcher: a page is too long to print.
bool Has(const std::string& page, std::string_view part) {
  return page.find(part) != std::string::npos;
}

MetricsOptions Router() {
  return {.role = MetricRole::kRouter, .model_name = "demo", .max_model_len = 100};
}
MetricsOptions Decode() { return {.role = MetricRole::kDecode, .model_name = "demo"}; }

size_t SeriesIn(const std::string& page) {
  size_t series = 0;
  for (size_t begin = 0; begin < page.size();) {
    const size_t end = std::min(page.find('\n', begin), page.size());
    if (end > begin && page[begin] != '#') ++series;
    begin = end + 1;
  }
  return series;
}

TEST(MetricsRegistry, ClosedSeriesExistFromTheStart) {
  MetricsRegistry registry(Router());
  AddProcessMetrics(&registry);
  const std::string page = registry.Expose();
  EXPECT_TRUE(Has(page,
                  "baton_request_success_total{engine=\"0\",model_name=\"demo\",role=\"router\","
                  "finished_reason=\"stop\",stop_cause=\"eos\"} 0"));
  EXPECT_TRUE(Has(page, "reason=\"REQUEST_KILLED_WORKERS\""));
  EXPECT_TRUE(Has(page, "baton_build_info{"));
}

TEST(MetricsRegistry, HoldsItsRolesMetricsOnly) {
  EXPECT_FALSE(Has(MetricsRegistry(Router()).Expose(), "baton_num_preemptions_total"));
  EXPECT_FALSE(Has(MetricsRegistry(Decode()).Expose(), "baton_request_success_total"));
  EXPECT_TRUE(Has(MetricsRegistry(Decode()).Expose(), "role=\"decode\""));
}

TEST(MetricsRegistry, CountsSetsAndObserves) {
  MetricsRegistry registry(Router());
  registry.counter(Metric::kRequestSuccess, {"length", "none"}).Increment(3);
  registry.gauge(Metric::kRequestsInflight).Set(7);
  registry.histogram(Metric::kTimeToFirstToken).Observe(0.5);
  const std::string page = registry.Expose();
  EXPECT_TRUE(Has(page, "finished_reason=\"length\",stop_cause=\"none\"} 3\n"));
  EXPECT_TRUE(Has(page,
                  "baton_requests_inflight{engine=\"0\",model_name=\"demo\","
                  "role=\"router\"} 7\n"));
  EXPECT_TRUE(Has(page,
                  "baton_time_to_first_token_seconds_sum{engine=\"0\","
                  "model_name=\"demo\",role=\"router\"} 0.5\n"));
}

TEST(MetricsRegistry, TheSameLabelsAreTheSameSeries) {
  MetricsRegistry registry(Router());
  EXPECT_EQ(&registry.counter(Metric::kPdDecision, {"split"}),
            &registry.counter(Metric::kPdDecision, {"split"}));
  EXPECT_NE(&registry.counter(Metric::kPdDecision, {"split"}),
            &registry.counter(Metric::kPdDecision, {"local"}));
}

TEST(MetricsRegistry, LengthBucketsEndAtTheContext) {
  MetricsRegistry registry(Router());
  const auto histogram = registry.histogram(Metric::kRequestPromptTokens).Collect().histogram;
  ASSERT_GE(histogram.bucket.size(), 2u);
  EXPECT_EQ(histogram.bucket[histogram.bucket.size() - 2].upper_bound, 100);
}

TEST(MetricsRegistry, ScrapeCallbacksRunBeforeThePage) {
  MetricsRegistry registry(Decode());
  double steps = 4;
  registry.OnScrape(
      [&] { MetricsRegistry::AdvanceTo(&registry.counter(Metric::kNumPreemptions), steps); });
  EXPECT_TRUE(Has(registry.Expose(), "role=\"decode\"} 4\n"));
  steps = 3;  // a count never falls
  registry.Expose();
  EXPECT_EQ(registry.counter(Metric::kNumPreemptions).Value(), 4);
  steps = 9;
  registry.Expose();
  EXPECT_EQ(registry.counter(Metric::kNumPreemptions).Value(), 9);
}

TEST(MetricsRegistry, ValuesOutsideASetWithOtherBecomeOther) {
  MetricsRegistry registry(Router());
  EXPECT_EQ(&registry.counter(Metric::kAttempts, {"eaten by a dog"}),
            &registry.counter(Metric::kAttempts, {"other"}));
}

TEST(MetricsRegistry, OpenLabelsAreCapped) {
  MetricsRegistry registry(Router());
  for (int i = 0; i < 1000; ++i) {
    registry.gauge(Metric::kTenantRequestsWaiting, {"t" + std::to_string(i)}).Set(1);
  }
  const std::string page = registry.Expose();
  EXPECT_TRUE(Has(page, "tenant=\"t1\""));
  EXPECT_TRUE(Has(page, "tenant=\"other\""));
  EXPECT_FALSE(Has(page, "tenant=\"t999\""));
}

TEST(MetricsRegistry, EveryListedWorkerHasASeries) {
  MetricsRegistry registry(Router());
  for (int i = 0; i < 1000; ++i) {
    registry.gauge(Metric::kRouterWorkerUp, {"w" + std::to_string(i), "decode"}).Set(1);
  }
  EXPECT_TRUE(Has(registry.Expose(), "worker=\"w999\""));
  for (int i = 0; i < 1000; ++i) {
    registry.Remove(Metric::kRouterWorkerUp, {"w" + std::to_string(i), "decode"});
  }
  EXPECT_FALSE(Has(registry.Expose(), "worker="));
}

TEST(MetricsRegistry, RemovedSeriesLeaveThePage) {
  MetricsRegistry registry(Router());
  registry.gauge(Metric::kRouterWorkerUp, {"a:1", "prefill"}).Set(1);
  registry.Remove(Metric::kRouterWorkerUp, {"a:1", "prefill"});
  registry.Remove(Metric::kRouterWorkerUp, {"never:1", "prefill"});
  EXPECT_FALSE(Has(registry.Expose(), "a:1"));
  registry.gauge(Metric::kRouterWorkerUp, {"a:1", "prefill"}).Set(1);
  EXPECT_TRUE(Has(registry.Expose(), "a:1"));
}

TEST(MetricsRegistry, OneServerStateIsOne) {
  MetricsRegistry registry(Router());
  registry.SetServerState("starting");
  registry.SetServerState("ready");
  EXPECT_EQ(registry.gauge(Metric::kServerState, {"starting"}).Value(), 0);
  EXPECT_EQ(registry.gauge(Metric::kServerState, {"ready"}).Value(), 1);
}

TEST(MetricsRegistryDeathTest, MisuseIsABug) {
  MetricsRegistry registry(Router());
  EXPECT_DEATH(registry.counter(Metric::kNumPreemptions), "is not the router's");
  EXPECT_DEATH(registry.counter(Metric::kRequestsInflight), "is no counter");
  EXPECT_DEATH(registry.counter(Metric::kPdDecision), "has 1 labels, not 0");
  EXPECT_DEATH(registry.counter(Metric::kPdDecision, {"both"}), "is not in the table");
}

TEST(MetricsRegistry, KeepsTheSeriesBudget) {
  for (const MetricRole role : {MetricRole::kRouter, MetricRole::kPrefill, MetricRole::kDecode}) {
    MetricsRegistry registry({.role = role, .model_name = "m"});
    if (role == MetricRole::kRouter) {
      for (int i = 0; i < 100; ++i) {
        registry.gauge(Metric::kRouterWorkerUp, {std::to_string(i), "decode"}).Set(1);
      }
    }
    EXPECT_LT(SeriesIn(registry.Expose()), 3000u) << MetricRoleName(role);
  }
}

TEST(MetricsRegistry, PassesPromtool) {
  ASSERT_EQ(std::system("command -v promtool >/dev/null"), 0)
      << "promtool is in the Debian package prometheus";
  for (const MetricRole role : {MetricRole::kRouter, MetricRole::kPrefill, MetricRole::kDecode}) {
    MetricsRegistry registry({.role = role, .model_name = "a \"quoted\" name"});
    AddProcessMetrics(&registry);
    const ScratchFolder folder;
    const std::string path = folder.Write("page", registry.Expose());
    EXPECT_EQ(std::system(("promtool check metrics < " + path).c_str()), 0);
  }
}

}  // namespace
}  // namespace baton
