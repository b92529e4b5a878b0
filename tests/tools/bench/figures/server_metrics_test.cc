#include "tools/bench/figures/server_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>

#include "absl/strings/str_cat.h"
#include "common/admin/admin_server.h"
#include "tests/fakes/eventually.h"
#include "tools/bench/figures/metrics_reading.h"

namespace baton::bench {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

base::Instant At(int second) { return base::Instant(std::chrono::hours(1)) + seconds(second); }

void Enter(std::string_view page, int second, TargetMetrics* target) {
  const auto samples = ParsePrometheusText(page);
  ASSERT_TRUE(samples.ok()) << samples.status();
  EnterPage(*samples, At(second), target);
}

std::string DecodePage(double usage, int preemptions) {
  return absl::StrCat("baton_kv_cache_usage_perc{role=\"decode\"} ", usage,
                      "\nbaton_num_preemptions_total{role=\"decode\"} ", preemptions,
                      "\nbaton_iteration_duration_seconds_sum{phase=\"decode\"} ", 2 * preemptions,
                      "\nbaton_num_requests_in_stage{stage=\"queued\"} 4",
                      "\nbaton_num_requests_in_stage{stage=\"decoding\"} 9\n");
}

TEST(MetricsReadingTest, KeepsSeriesPeaksAndIncreases) {
  TargetMetrics target;
  Enter(DecodePage(0.25, 3), 0, &target);
  Enter(DecodePage(0.75, 5), 1, &target);
  Enter(DecodePage(0.5, 9), 2, &target);
  EXPECT_EQ(target.role, "decode");
  EXPECT_EQ(target.scrapes, 3);
  EXPECT_THAT(target.gauges["kv_usage"],
              ::testing::ElementsAre(Pair(At(0), 0.25), Pair(At(1), 0.75), Pair(At(2), 0.5)));
  EXPECT_EQ(target.peaks["kv_usage"], 0.75);
  EXPECT_EQ(target.peaks["queued"], 4);
  EXPECT_EQ(target.start["preemptions"], 3);
  EXPECT_EQ(target.end["preemptions"], 9);
  EXPECT_EQ(target.increase["preemptions"], 6);
  EXPECT_EQ(target.increase["step_s.decode"], 12);
}

TEST(MetricsReadingTest, CountsOverARestart) {
  TargetMetrics target;
  Enter(DecodePage(0, 100), 0, &target);
  Enter(DecodePage(0, 110), 1, &target);
  Enter(DecodePage(0, 4), 2, &target);
  Enter(DecodePage(0, 6), 3, &target);
  EXPECT_EQ(target.increase["preemptions"], 16);
}

TEST(MetricsReadingTest, CountersThatAppearLaterBeganAtZero) {
  TargetMetrics target;
  Enter("baton_attempts_total{outcome=\"finished\"} 7\n", 0, &target);
  Enter("baton_attempts_total{outcome=\"finished\"} 9\nbaton_attempts_total{outcome=\"full\"} 2\n",
        1, &target);
  EXPECT_EQ(target.increase["attempts.finished"], 2);
  EXPECT_EQ(target.increase["attempts.full"], 2);
}

TEST(MetricsReadingTest, AddsUpLabelsAndSkipsWhatIsNotFinite) {
  TargetMetrics target;
  Enter(
      "baton_request_errors_total{code=\"INTERNAL\",reason=\"NO_WORKER\"} 1\n"
      "baton_request_errors_total{code=\"UNAVAILABLE\",reason=\"NO_WORKER\"} 2\n"
      "baton_kv_cache_usage_perc NaN\n",
      0, &target);
  EXPECT_EQ(target.end["errors.NO_WORKER"], 3);
  EXPECT_FALSE(target.gauges.contains("kv_usage"));
}

TEST(MetricsReadingTest, ReadsOtherServersNames) {
  TargetMetrics target;
  Enter("vllm:kv_cache_usage_perc{model_name=\"m\"} 0.4\nvllm:num_preemptions_total 1\n", 0,
        &target);
  EXPECT_EQ(target.peaks["kv_usage"], 0.4);
  EXPECT_EQ(target.end["preemptions"], 1);
  EXPECT_EQ(target.role, "");
}

TEST(ServerMetricsTest, SumsTargetsAndTakesKvFromDecodeWorkers) {
  ServerMetrics metrics;
  metrics.targets.resize(2);
  Enter("baton_kv_cache_usage_perc{role=\"prefill\"} 0.9\nbaton_num_preemptions_total 0\n", 0,
        &metrics.targets[0]);
  EXPECT_EQ(metrics.PeakKvUsage(), 0.9);
  Enter(DecodePage(0.3, 1), 0, &metrics.targets[1]);
  Enter(DecodePage(0.6, 4), 1, &metrics.targets[1]);
  EXPECT_EQ(metrics.PeakKvUsage(), 0.6);
  EXPECT_EQ(metrics.Increase("preemptions"), 3);
  EXPECT_EQ(metrics.Increase("generation_tokens"), std::nullopt);
  EXPECT_EQ(ServerMetrics().PeakKvUsage(), std::nullopt);
}

TEST(ServerMetricsTest, JsonHasFiguresAndSeriesFromTheStart) {
  ServerMetrics metrics;
  metrics.targets.resize(1);
  metrics.targets[0].address = "h:1";
  const auto page = [](int tokens, double busy) {
    return absl::StrCat("baton_prompt_tokens_by_source_total{source=\"local_compute\"} ", tokens,
                        "\nbaton_prompt_tokens_by_source_total{source=\"local_cache_hit\"} 5",
                        "\nbaton_iteration_duration_seconds_sum{phase=\"prefill\"} ", busy,
                        "\nbaton_kv_cache_usage_perc{role=\"prefill\"} 0.5",
                        "\nprocess_resident_memory_bytes 1000\n");
  };
  Enter(page(100, 1), 0, &metrics.targets[0]);
  Enter(page(700, 3), 2, &metrics.targets[0]);
  const auto json = MetricsAsJson(metrics, At(1));
  EXPECT_EQ(json["peak_kv_usage"], 0.5);
  EXPECT_TRUE(json["preemptions"].is_null());
  EXPECT_EQ(json["prefill_tokens_per_busy_s"], 300);
  EXPECT_TRUE(json["decode_tokens_per_busy_s"].is_null());
  EXPECT_EQ(json["prompt_tokens_by_source"]["local_compute"], 600);
  EXPECT_EQ(json["prompt_tokens_by_source"]["local_cache_hit"], 0);
  EXPECT_EQ(json["peak_resident_bytes"]["h:1"], 1000);
  EXPECT_EQ(json["targets"][0]["series"]["kv_usage"].dump(), "[[-1.0,0.5],[1.0,0.5]]");
  EXPECT_TRUE(json["targets"][0]["last_error"].is_null());
}

TEST(ServerMetricsTest, FirstTokensAreNotOfDecoding) {
  ServerMetrics metrics;
  metrics.targets.resize(1);
  const auto page = [](int generated, int first, double busy) {
    return absl::StrCat("baton_generation_tokens_total ", generated,
                        "\nbaton_time_to_first_token_seconds_count ", first,
                        "\nbaton_iteration_duration_seconds_sum{phase=\"decode\"} ", busy, "\n");
  };
  Enter(page(10, 2, 1), 0, &metrics.targets[0]);
  Enter(page(90, 12, 3), 1, &metrics.targets[0]);
  EXPECT_EQ(MetricsAsJson(metrics, At(0))["decode_tokens_per_busy_s"], (80 - 10) / 2.0);
}

TEST(ServerMetricsTest, LongSeriesAreThinned) {
  ServerMetrics metrics;
  metrics.targets.resize(1);
  for (int i = 0; i < 4001; ++i) Enter(DecodePage(0.001 * i, 0), i, &metrics.targets[0]);
  const auto json = MetricsAsJson(metrics, At(0));
  EXPECT_LE(json["targets"][0]["series"]["kv_usage"].size(), 2000U);
  EXPECT_EQ(json["peak_kv_usage"], 4.0);
}

// A server whose page the test changes.
class ScraperTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto server = AdminServer::Start({
        .metrics =
            [this] {
              ++read_;
              return garbage_ ? std::string("<html>\n") : DecodePage(0.5, read_);
            },
        .ready = [] { return absl::OkStatus(); },
    });
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }

  std::unique_ptr<MetricsScraper> Start(std::vector<std::string> targets,
                                        base::Duration interval = seconds(3600)) {
    auto scraper = MetricsScraper::Start(
        {.targets = std::move(targets), .interval = interval, .timeout = seconds(5)});
    EXPECT_TRUE(scraper.ok()) << scraper.status();
    return *std::move(scraper);
  }

  // Waits until the page was read `times` times.
  bool ReadBy(int times) const {
    return Eventually([&] { return read_ >= times; });
  }

  std::atomic<int> read_ = 0;
  std::atomic<bool> garbage_ = false;
  std::unique_ptr<AdminServer> server_;
};

TEST_F(ScraperTest, ReadsAtTheStartAndAtTheEnd) {
  const auto scraper = Start({server_->address()});
  EXPECT_EQ(read_, 1);
  const ServerMetrics metrics = scraper->Stop();
  EXPECT_EQ(read_, 2);
  ASSERT_EQ(metrics.targets.size(), 1U);
  EXPECT_EQ(metrics.targets[0].scrapes, 2);
  EXPECT_TRUE(metrics.targets[0].answering);
  EXPECT_EQ(metrics.Increase("preemptions"), 1);
}

TEST_F(ScraperTest, ReadsAtTheInterval) {
  const auto scraper = Start({"http://" + server_->address()}, milliseconds(1));
  EXPECT_TRUE(ReadBy(5));
  const ServerMetrics metrics = scraper->Stop();
  EXPECT_GE(metrics.targets[0].gauges.at("kv_usage").size(), 5U);
}

TEST_F(ScraperTest, ATargetThatStopsAnsweringIsMarkedAndTheOthersGoOn) {
  auto other = AdminServer::Start(
      {.metrics = [] { return DecodePage(0.2, 1); }, .ready = [] { return absl::OkStatus(); }});
  ASSERT_TRUE(other.ok());
  const auto scraper = Start({server_->address(), (*other)->address()});
  server_.reset();
  const ServerMetrics metrics = scraper->Stop();
  EXPECT_FALSE(metrics.targets[0].answering);
  EXPECT_EQ(metrics.targets[0].failed_scrapes, 1);
  EXPECT_FALSE(metrics.targets[0].last_error.empty());
  EXPECT_EQ(metrics.targets[0].peaks.at("kv_usage"), 0.5);
  EXPECT_TRUE(metrics.targets[1].answering);
  EXPECT_EQ(metrics.targets[1].failed_scrapes, 0);
}

TEST_F(ScraperTest, NonsenseIsMarked) {
  garbage_ = true;
  const ServerMetrics metrics = Start({server_->address()})->Stop();
  EXPECT_FALSE(metrics.targets[0].answering);
  EXPECT_THAT(metrics.targets[0].last_error, HasSubstr("<html>"));
  EXPECT_EQ(metrics.PeakKvUsage(), std::nullopt);
}

TEST_F(ScraperTest, DestructionEndsTheThreads) { Start({server_->address()}).reset(); }

TEST(ScraperAddressTest, RefusesWhatIsNoAddress) {
  for (const char* target : {"", "localhost", "localhost:", ":80", "localhost:x", "localhost:70000",
                             "http://a/b:80", "localhost:0"}) {
    const auto scraper = MetricsScraper::Start({.targets = {target}});
    ASSERT_FALSE(scraper.ok()) << target;
    EXPECT_THAT(std::string(scraper.status().message()), HasSubstr("HOST:PORT"));
  }
}

}  // namespace
}  // namespace baton::bench
