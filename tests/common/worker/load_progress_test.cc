#include "common/worker/load_progress.h"

#include <atomic>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/eventually.h"

namespace baton {
namespace {

using ::testing::ElementsAre;

constexpr int64_t kMiB = 1 << 20;

class LoadProgressTest : public testing::Test {
 protected:
  // As if the load went on for so long, with a tick every half second.
  void Pass(std::chrono::milliseconds time) {
    for (; time.count() > 0; time -= std::chrono::milliseconds(500)) {
      clock_.Advance(std::chrono::milliseconds(500));
      log_.Tick();
    }
  }

  base::ManualClock clock_;
  std::vector<std::string> lines_;
  LoadProgressLog log_{&clock_, [this](const std::string& line) { lines_.push_back(line); }};
};

TEST_F(LoadProgressTest, AShortLoadHasOnlyTheLineThatTheWeightsAreThere) {
  log_.Begin("reading the tokenizer");
  Pass(std::chrono::milliseconds(1500));
  log_.Begin("loading weights");
  for (int64_t done = 1; done <= 10; ++done) {
    clock_.Advance(std::chrono::milliseconds(99));
    log_.Tick();
    log_.Note(done * kMiB, 10 * kMiB);
  }
  log_.Begin("filling the KV cache");
  Pass(std::chrono::milliseconds(1500));
  EXPECT_THAT(lines_, ElementsAre("weights loaded: 10.0 MiB in 0.99 s"));
}

TEST_F(LoadProgressTest, LongWeightsReportByTimeAndNotByTensor) {
  log_.Begin("loading weights");
  for (int64_t done = 1; done <= 80; ++done) {
    clock_.Advance(std::chrono::milliseconds(100));
    log_.Tick();
    log_.Note(done * kMiB, 80 * kMiB);
  }
  EXPECT_THAT(lines_, ElementsAre("loading weights: 23 % of 80.0 MiB, 2 s so far",
                                  "loading weights: 86 % of 80.0 MiB, 7 s so far",
                                  "weights loaded: 80.0 MiB in 8.00 s"));
}

TEST_F(LoadProgressTest, EachPhaseThatLastsIsNamedWithItsOwnTime) {
  log_.Begin("loading weights");
  log_.Note(0, 0);
  log_.Begin("filling the KV cache of 8.0 MiB");
  Pass(std::chrono::milliseconds(7500));
  log_.Begin("choosing kernels");
  Pass(std::chrono::milliseconds(1500));
  log_.Begin("measuring the machine");
  Pass(std::chrono::milliseconds(2500));
  log_.End();
  Pass(std::chrono::milliseconds(60'000));
  EXPECT_THAT(lines_, ElementsAre("weights loaded: 0.0 MiB in 0.00 s",
                                  "filling the KV cache of 8.0 MiB, 2 s so far",
                                  "filling the KV cache of 8.0 MiB, 7 s so far",
                                  "measuring the machine, 2 s so far"));
}

TEST_F(LoadProgressTest, SaysWhatGoesOn) {
  EXPECT_EQ(log_.Doing(), "");
  log_.Begin("loading weights");
  EXPECT_EQ(log_.Doing(), "loading weights");
  log_.Note(kMiB, 8 * kMiB);
  EXPECT_EQ(log_.Doing(), "loading weights: 12 % of 8.0 MiB");
  log_.Begin("choosing kernels");
  EXPECT_EQ(log_.Doing(), "choosing kernels");
  log_.End();
  EXPECT_EQ(log_.Doing(), "");
}

TEST_F(LoadProgressTest, ThatTheWeightsAreThereIsSaidOnceAndAlsoForNothing) {
  log_.Begin("loading weights");
  log_.Note(0, 0);
  log_.Note(0, 0);
  EXPECT_THAT(lines_, ElementsAre("weights loaded: 0.0 MiB in 0.00 s"));
}

TEST(LoadProgressTicksTest, APhaseThatSaysNothingIsNamedAllTheSame) {
  base::ManualClock clock;
  std::atomic<int> lines{0};
  LoadProgressLog log(&clock, [&](const std::string&) { ++lines; });
  log.Begin("filling the KV cache");
  clock.Advance(std::chrono::seconds(2));
  const base::SteadyClock real;
  const LoadProgressTicks ticks(&log, &real);
  EXPECT_TRUE(Eventually([&] { return lines == 1; }));
}

}  // namespace
}  // namespace baton
