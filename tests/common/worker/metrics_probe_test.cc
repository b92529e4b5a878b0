#include "common/worker/metrics_probe.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

using ::testing::ContainsRegex;

TEST(MetricsProbe, CountsPushesFromOtherNumerics) {
  MetricsRegistry registry({.role = MetricRole::kDecode, .model_name = "m"});
  MetricsProbe probe(&registry, {});
  EXPECT_THAT(registry.Expose(),
              ContainsRegex("baton_kv_transfer_numerics_mismatch_total\\{[^}]*\\} 0\n"));
  probe.PushFromOtherNumerics();
  probe.PushFromOtherNumerics();
  EXPECT_THAT(registry.Expose(),
              ContainsRegex("baton_kv_transfer_numerics_mismatch_total\\{[^}]*\\} 2\n"));
}

}  // namespace
}  // namespace baton
