// What the table of a simulation says where runs differ, and where nothing was measured.
#include "tools/sim/sim_figures.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace baton::simulator {
namespace {

SimFigures RunOf(std::vector<double> ttft_ms, double throughput = 0) {
  SimFigures run;
  run.ttft_ms = bench::Summarize(std::move(ttft_ms), 1);
  run.request_throughput = throughput;
  return run;
}

// What stands behind the name in its row, without blanks around it.
std::string CellOf(const std::vector<SimFigures>& runs, const std::string& name) {
  const std::string table = ResultTable({{.policy = "fcfs", .runs = runs}});
  const size_t row = table.find("\n" + name + " ");
  if (row == std::string::npos) return "no row " + name;
  const size_t from = table.find_first_not_of(' ', row + 1 + name.size());
  return table.substr(from, table.find('\n', from) - from);
}

TEST(SimFiguresTest, RunsHaveAMeanAndHalfOfAnInterval) {
  EXPECT_EQ(CellOf({RunOf({10, 20})}, "TTFT mean, ms"), "15");
  EXPECT_EQ(CellOf({RunOf({10}), RunOf({20})}, "TTFT mean, ms"), "15 ± 64");
  EXPECT_EQ(CellOf({RunOf({}, 4), RunOf({}, 6)}, "requests/s"), "5 ± 13");
}

TEST(SimFiguresTest, WhatNobodyMeasuredIsADash) {
  for (const char* name : {"TTFT mean, ms", "TTFT P50", "TTFT P99", "TPOT mean, ms", "TPOT P50",
                           "TPOT P99", "end to end mean, ms", "end to end P50", "end to end P99"}) {
    EXPECT_EQ(CellOf({RunOf({})}, name), "–");
    EXPECT_EQ(CellOf({RunOf({}), RunOf({})}, name), "–");
  }
  EXPECT_EQ(CellOf({RunOf({})}, "refused"), "0") << "which was counted";
}

TEST(SimFiguresTest, ARunWithoutSamplesIsNoPartOfAMean) {
  EXPECT_EQ(CellOf({RunOf({}), RunOf({10, 20})}, "TTFT mean, ms"), "15");
  EXPECT_EQ(CellOf({RunOf({10}), RunOf({}), RunOf({20})}, "TTFT mean, ms"), "15 ± 64");
}

}  // namespace
}  // namespace baton::simulator
