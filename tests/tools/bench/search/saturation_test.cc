#include "tools/bench/search/saturation.h"

#include <gtest/gtest.h>

#include "tests/tools/bench/figures/records.h"
#include "tests/tools/bench/search/mmc_server.h"

namespace baton::bench {
namespace {

Saturation Of(const LoadResult& load) {
  return FindSaturation(load.records, MeasuredWindow(load, {}));
}

TEST(Saturation, IsFoundWhereArrivalsExceedWhatIsServed) {
  const MmcServer server{.servers = 8, .service_rate = 1};
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const Saturation found = Of(server.Serve(9, 2000, seed));
    EXPECT_TRUE(found.saturated) << "seed " << seed;
    EXPECT_GT(found.ttft_slope_ms_per_s, 0);
    EXPECT_GT(found.concurrency_slope_per_s, 0);
  }
}

TEST(Saturation, IsHardlyEverSeenInASteadyQueue) {
  const MmcServer server{.servers = 8, .service_rate = 1};
  int false_alarms = 0;
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    false_alarms += Of(server.Serve(6.4, 4000, seed)).saturated ? 1 : 0;
  }
  EXPECT_LE(false_alarms, 3) << "of 100 seeds from 1 on";
}

TEST(Saturation, NeedsBothSlopes) {
  // TTFT rises, but requests are answered so fast that no more are under way.
  std::vector<RequestRecord> records;
  for (int i = 0; i < 600; ++i) {
    const double at = 0.1 * i;
    records.push_back(RecordOf(i, at, {at + 1e-4 * i, at + 1}));
  }
  const Saturation found = Of(LoadOf(records));
  EXPECT_LT(found.ttft_p, 0.01);
  EXPECT_FALSE(found.saturated);
}

TEST(Saturation, ClaimsNothingOfTooLittle) {
  const Saturation found = Of(LoadOf({RecordOf(0, 0, {1, 2}), RecordOf(1, 1, {3, 4})}));
  EXPECT_FALSE(found.enough_data);
  EXPECT_FALSE(found.saturated);
  EXPECT_FALSE(Of(LoadOf({})).saturated);
}

}  // namespace
}  // namespace baton::bench
