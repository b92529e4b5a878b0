#include "common/metrics/process.h"

#include <unistd.h>

#include <ctime>

#include "gtest/gtest.h"

namespace baton {
namespace {

TEST(ReadProcessFigures, AreThoseOfThisProcess) {
  const ProcessFigures figures = ReadProcessFigures();
  EXPECT_GE(figures.cpu_seconds, 0);
  EXPECT_GT(figures.resident_bytes, 1 << 20);
  EXPECT_GE(figures.virtual_bytes, figures.resident_bytes);
  EXPECT_GE(figures.open_fds, 3);
  EXPECT_GT(figures.max_fds, figures.open_fds);
  const auto now = static_cast<double>(std::time(nullptr));
  EXPECT_LE(figures.start_unix_seconds, now + 2);
  EXPECT_GE(figures.start_unix_seconds, now - 600);
}

TEST(ReadProcessFigures, CountsOpenDescriptors) {
  const double before = ReadProcessFigures().open_fds;
  const int descriptor = dup(0);
  ASSERT_GE(descriptor, 0);
  EXPECT_EQ(ReadProcessFigures().open_fds, before + 1);
  close(descriptor);
}

}  // namespace
}  // namespace baton
