#include "router/page/eos_trace.h"

#include <cmath>

#include "gtest/gtest.h"

namespace baton {
namespace {

TEST(EosTrace, HasACellPerStepWhileTheyFit) {
  EosTrace trace;
  for (const float value : {0.1f, std::nanf(""), 0.3f}) trace.Add(value);
  EXPECT_EQ(trace.steps(), 3);
  EXPECT_EQ(trace.steps_per_cell(), 1);
  EXPECT_EQ(trace.cells(), (std::vector<float>{0.1f, 0, 0.3f}));
}

TEST(EosTrace, KeepsThePeaksOfAnAnswerThatGrows) {
  for (int32_t steps = 1; steps <= 1000; ++steps) {
    EosTrace trace;
    for (int32_t step = 1; step <= steps; ++step) trace.Add(static_cast<float>(step));
    const auto per_cell = static_cast<size_t>(trace.steps_per_cell());
    ASSERT_LE(trace.cells().size(), EosTrace::kCells);
    ASSERT_EQ(trace.cells().size(), (static_cast<size_t>(steps) + per_cell - 1) / per_cell);
    for (size_t i = 0; i < trace.cells().size(); ++i) {
      const auto last = std::min((i + 1) * per_cell, static_cast<size_t>(steps));
      ASSERT_EQ(trace.cells()[i], static_cast<float>(last)) << steps << " steps, cell " << i;
    }
  }
}

}  // namespace
}  // namespace baton
