#include "common/worker/load_progress.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

using ::testing::ElementsAre;

constexpr int64_t kMiB = 1 << 20;

class LoadProgressTest : public testing::Test {
 protected:
  base::ManualClock clock_;
  std::vector<std::string> lines_;
  LoadProgressLog log_{&clock_, [this](const std::string& line) { lines_.push_back(line); }};
};

TEST_F(LoadProgressTest, AShortLoadHasOnlyItsClosingLine) {
  for (int64_t done = 1; done <= 10; ++done) {
    clock_.Advance(std::chrono::milliseconds(99));
    log_.Note(done * kMiB, 10 * kMiB);
  }
  EXPECT_THAT(lines_, ElementsAre("weights loaded: 10.0 MiB in 0.99 s"));
}

TEST_F(LoadProgressTest, ALongLoadReportsByTimeAndNotByTensor) {
  for (int64_t done = 1; done <= 80; ++done) {
    clock_.Advance(std::chrono::milliseconds(100));
    log_.Note(done * kMiB, 80 * kMiB);
  }
  EXPECT_THAT(lines_, ElementsAre("loading weights: 12 % of 80.0 MiB after 1 s",
                                  "loading weights: 75 % of 80.0 MiB after 6 s",
                                  "weights loaded: 80.0 MiB in 8.00 s"));
}

TEST_F(LoadProgressTest, TheClosingLineComesOnceAndAlsoForNothing) {
  log_.Note(0, 0);
  log_.Note(0, 0);
  EXPECT_THAT(lines_, ElementsAre("weights loaded: 0.0 MiB in 0.00 s"));
}

}  // namespace
}  // namespace baton
