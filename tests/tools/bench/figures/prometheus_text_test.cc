#include "tools/bench/figures/prometheus_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace baton::bench {
namespace {

using ::testing::HasSubstr;

MetricSample One(std::string_view line) {
  const auto samples = ParsePrometheusText(line);
  EXPECT_TRUE(samples.ok()) << samples.status();
  EXPECT_EQ(samples.ok() ? samples->size() : 0, 1U);
  return samples.ok() && samples->size() == 1 ? samples->front() : MetricSample{};
}

TEST(PrometheusTextTest, ReadsAPage) {
  const auto samples = ParsePrometheusText(
      "# HELP a_total Things; with \"quotes\" {and} braces.\n"
      "# TYPE a_total counter\n"
      "a_total{x=\"1\",y=\"two\"} 3\n"
      "\n"
      "b 1.5e3 1700000000000\r\n"
      "  c:d{} -2\n"
      "h_bucket{le=\"+Inf\",} 7");
  ASSERT_TRUE(samples.ok()) << samples.status();
  ASSERT_EQ(samples->size(), 4U);
  EXPECT_EQ((*samples)[0].name, "a_total");
  EXPECT_EQ((*samples)[0].labels.at("x"), "1");
  EXPECT_EQ((*samples)[0].labels.at("y"), "two");
  EXPECT_EQ((*samples)[0].value, 3);
  EXPECT_EQ((*samples)[1].value, 1500);
  EXPECT_EQ((*samples)[2].name, "c:d");
  EXPECT_TRUE((*samples)[2].labels.empty());
  EXPECT_EQ((*samples)[2].value, -2);
  EXPECT_EQ((*samples)[3].labels.at("le"), "+Inf");
}

TEST(PrometheusTextTest, UnescapesLabels) {
  const MetricSample sample = One(R"(m{path="C:\\d, \"e\" = {f}",text="two\nlines",bare="\q"} 1)");
  EXPECT_EQ(sample.labels.at("path"), "C:\\d, \"e\" = {f}");
  EXPECT_EQ(sample.labels.at("text"), "two\nlines");
  EXPECT_EQ(sample.labels.at("bare"), "q");
}

TEST(PrometheusTextTest, ReadsWhatIsNotFinite) {
  EXPECT_TRUE(std::isnan(One("m NaN").value));
  EXPECT_EQ(One("m +Inf").value, std::numeric_limits<double>::infinity());
  EXPECT_EQ(One("m -Inf").value, -std::numeric_limits<double>::infinity());
  EXPECT_EQ(One("m +4").value, 4);
}

TEST(PrometheusTextTest, EmptyPagesHaveNoSamples) {
  EXPECT_TRUE(ParsePrometheusText("")->empty());
  EXPECT_TRUE(ParsePrometheusText("\n# only a comment\n \n")->empty());
}

TEST(PrometheusTextTest, NamesTheLineOfGarbage) {
  for (const char* line :
       {"<html>", "1abc 3", "m", "m ", "m{x} 1", "m{x=1} 1", "m{x=\"1\" 1", "m{x=\"1} 1",
        "m{x=\"1\"y=\"2\"} 1", "m{=\"1\"} 1", "m{x=\"1\"}1", "m one", "m 0x10", "m 1 2 3", "m 1 x",
        "m{x=\"1\\", "m infinity", "m{,} 1"}) {
    const auto samples = ParsePrometheusText("fine 1\n" + std::string(line) + "\nfine 2\n");
    ASSERT_FALSE(samples.ok()) << line;
    EXPECT_THAT(std::string(samples.status().message()), HasSubstr("metrics line 2: found '"));
    EXPECT_THAT(std::string(samples.status().message()), HasSubstr("expected"));
  }
}

TEST(PrometheusTextTest, WhatATerminalWouldObeyIsEscaped) {
  const auto samples = ParsePrometheusText("m\x1b[2J 1");
  ASSERT_FALSE(samples.ok());
  EXPECT_THAT(std::string(samples.status().message()), HasSubstr(R"('\x1b[2J 1' in 'm\x1b[2J 1')"));
}

}  // namespace
}  // namespace baton::bench
