#include "router/page/recent_figures.h"

#include "gtest/gtest.h"

namespace baton {
namespace {

using std::chrono::milliseconds;

TEST(RecentFigures, TellsRatesPerSecondOfOneInterval) {
  RecentFigures figures;
  for (int i = 0; i < 6; ++i) figures.RequestReceived();
  figures.PromptTokens(40);
  figures.FirstToken(milliseconds(100));
  figures.NextToken(milliseconds(10));
  figures.Tick();
  figures.Tick();
  const auto points = figures.Points();
  ASSERT_EQ(points.size(), 2u);
  EXPECT_EQ(points[0].requests, 3);
  EXPECT_EQ(points[0].prompt_tokens, 20);
  EXPECT_EQ(points[0].output_tokens, 1);
  EXPECT_EQ(points[1].requests, 0);
  // Quantiles look back further than rates.
  EXPECT_NEAR(points[1].ttft_ms[0], 100, 8);
  EXPECT_NEAR(points[1].gap_ms[2], 10, 0.8);
}

TEST(RecentFigures, QuantilesAreTakenOverTheLastIntervalsOnly) {
  RecentFigures figures;
  for (int i = 0; i < 90; ++i) figures.NextToken(milliseconds(5));
  for (int i = 0; i < 10; ++i) figures.NextToken(milliseconds(500));
  figures.Tick();
  EXPECT_NEAR(figures.Points()[0].gap_ms[0], 5, 0.4);
  EXPECT_NEAR(figures.Points()[0].gap_ms[1], 500, 40);
  for (size_t i = 0; i < RecentFigures::kSmooth; ++i) figures.Tick();
  EXPECT_EQ(figures.Points().back().gap_ms[0], 0);
}

TEST(RecentFigures, KeepsFiveMinutesAndTakesAnyTime) {
  RecentFigures figures;
  for (size_t i = 0; i < RecentFigures::kPoints + 20; ++i) {
    figures.FirstToken(i % 2 == 0 ? milliseconds(-1) : std::chrono::hours(100));
    figures.Tick();
  }
  EXPECT_EQ(figures.Points().size(), RecentFigures::kPoints);
}

}  // namespace
}  // namespace baton
