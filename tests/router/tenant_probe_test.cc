#include "router/tenant_probe.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace baton {
namespace {

class TenantProbeTest : public ::testing::Test {
 protected:
  // The end of the series of `metric` for that tenant, with its value; "" when there is none.
  std::string SeriesOf(const std::string& metric, const std::string& tenant) {
    const std::string page = registry_.Expose();
    for (const std::string& line : std::vector<std::string>(absl::StrSplit(page, '\n'))) {
      const size_t at = line.find(absl::StrCat("tenant=\"", tenant, "\"} "));
      if (line.starts_with(metric + "{") && at != line.npos) return line.substr(at);
    }
    return "";
  }
  std::string Tokens(const std::string& tenant) {
    return SeriesOf("baton_tenant_generation_tokens_total", tenant);
  }

  MetricsRegistry registry_{{.role = MetricRole::kRouter, .model_name = "m"}};
  TenantProbe probe_{&registry_};
};

TEST_F(TenantProbeTest, TheFirstNamesAndThoseOfTheConfigurationHaveSeriesTheRestIsOther) {
  probe_.Watch({.others = {}, .named = {{"configured", {}}}}, [](const auto&) {});
  for (size_t i = 0; i < 100; ++i) probe_.RequestEnded(absl::StrCat("t", i), 1, 2);
  probe_.RequestEnded("configured", 1, 2);
  EXPECT_EQ(Tokens("configured"), "tenant=\"configured\"} 2");
  EXPECT_NE(Tokens(absl::StrCat("t", TenantProbe::kMaxNames - 2)), "");
  EXPECT_EQ(Tokens(absl::StrCat("t", TenantProbe::kMaxNames - 1)), "");
  const size_t left = 100 - (TenantProbe::kMaxNames - 1);
  EXPECT_EQ(Tokens("other"), absl::StrCat("tenant=\"other\"} ", 2 * left));
}

TEST_F(TenantProbeTest, WhoHasNothingAnyMoreIsShownWithNothing) {
  const std::string tenant = "a";
  int64_t waiting = 3;
  probe_.Watch({}, [&](const auto& see) {
    if (waiting > 0) see({.tenant = tenant, .waiting = waiting, .running = 1});
  });
  const std::string metric = "baton_tenant_requests_waiting";
  EXPECT_EQ(SeriesOf(metric, tenant), "tenant=\"a\"} 3");
  waiting = 0;
  EXPECT_EQ(SeriesOf(metric, tenant), "tenant=\"a\"} 0");
}

}  // namespace
}  // namespace baton
