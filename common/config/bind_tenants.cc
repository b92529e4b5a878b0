#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/status.h"
#include "common/config/bind.h"
#include "common/config/flag_types.h"
#include "common/config/numbers.h"
#include "common/config/tenant_name.h"

namespace baton {
namespace {

constexpr double kMaxWeight = 1000;
constexpr double kMinWeight = 0.001;

absl::Status WrongTenant(const std::string& found, const std::string& expected) {
  return absl::InvalidArgumentError(absl::StrCat("found '", found, "', expected ", expected));
}

absl::Status SetBound(const std::string& text, std::optional<int32_t>* bound) {
  const auto value = ParseNumber<int32_t>(text);
  if (!value || *value < 0) return WrongTenant(text, "an integer from 0, which is no bound");
  *bound = *value;
  return absl::OkStatus();
}

absl::Status SetWeight(const std::string& text, double* weight) {
  const auto value = ParseNumber<double>(text);  // NaN is in no range
  if (!value || !(*value >= kMinWeight && *value <= kMaxWeight)) {
    return WrongTenant(text, absl::StrCat("a weight from ", kMinWeight, " to ", kMaxWeight));
  }
  *weight = *value;
  return absl::OkStatus();
}

absl::Status SetOne(const std::string& setting, TenantFlags* tenant) {
  const std::pair<std::string, std::string> parts =
      absl::StrSplit(setting, absl::MaxSplits('=', 1));
  const auto& [key, value] = parts;
  if (key == "weight") return SetWeight(value, &tenant->weight);
  if (key == "max-running") return SetBound(value, &tenant->max_running);
  if (key == "max-queued") return SetBound(value, &tenant->max_queued);
  return WrongTenant(setting, "weight=N, max-running=N or max-queued=N");
}

// Reads "NAME:weight=2,max-running=8" into the tenant of that name.
absl::Status AddTenant(const std::string& text, std::map<std::string, TenantFlags>* tenants) {
  const std::pair<std::string, std::string> parts = absl::StrSplit(text, absl::MaxSplits(':', 1));
  const auto& [name, settings] = parts;
  if (!IsTenantName(name)) {
    return absl::InvalidArgumentError(
        absl::StrCat("found the name '", name, "', ", kTenantNameRule));
  }
  TenantFlags& tenant = (*tenants)[name];
  for (const std::string& setting : std::vector<std::string>(absl::StrSplit(settings, ','))) {
    BATON_RETURN_IF_ERROR(SetOne(setting, &tenant));
  }
  return absl::OkStatus();
}

std::string Written(const std::string& name, const TenantFlags& tenant) {
  std::string text = absl::StrCat(name, ":weight=", FormatDouble(tenant.weight));
  if (tenant.max_running) absl::StrAppend(&text, ",max-running=", *tenant.max_running);
  if (tenant.max_queued) absl::StrAppend(&text, ",max-queued=", *tenant.max_queued);
  return text;
}

Flag TenantFlag(std::map<std::string, TenantFlags>* tenants) {
  Flag flag;
  flag.name = "tenant";
  flag.value = "NAME:KEY=N,...";
  flag.repeatable = true;
  flag.set = [tenants](const std::vector<std::string>& values) -> absl::Status {
    tenants->clear();
    for (const std::string& value : values) BATON_RETURN_IF_ERROR(AddTenant(value, tenants));
    return absl::OkStatus();
  };
  flag.get = [tenants] {
    std::vector<std::string> values;
    for (const auto& [name, tenant] : *tenants) values.push_back(Written(name, tenant));
    return values;
  };
  return flag;
}

}  // namespace

void BindTenants(FlagSet* set, RouterFlags* flags) {
  const std::string group = "Tenants";
  set->Add(With(IntFlag("tenant-max-running", &flags->tenant_max_running, {.min = 0}), group,
                "requests of one tenant that this router has at workers at once; 0 = no bound"));
  set->Add(With(IntFlag("tenant-max-queued", &flags->tenant_max_queued, {.min = 0}), group,
                "requests of one tenant that may wait for a worker; 0 = only the bound of all"));
  set->Add(With(TenantFlag(&flags->tenants), group,
                "a tenant's own weight, max-running and max-queued; in the file also a section "
                "[tenant.NAME]"));
  set->Add(With(SwitchFlag("trust-tenant-header", &flags->trust_tenant_header), group,
                "believe the tenant that a request names in its metadata baton-tenant; for routers "
                "that only a gateway reaches"));
  set->Add(With(InputFlag("api-keys", &flags->api_keys), group,
                "lines NAME:KEY; callers must then send authorization: Bearer KEY, over gRPC and "
                "HTTP, and NAME is their tenant"));
  const Choices<bool> certificates = {{"required", false}, {"optional", true}};
  set->Add(With(ChoiceFlag("tls-client-certs", &flags->client_certs_optional, certificates), group,
                "with TLS, whether clients must show a certificate; requests of those that show "
                "none are the tenant default's"));
  set->AddCheck([flags] {
    if (!flags->client_certs_optional || !flags->server.tls.cert.empty()) return absl::OkStatus();
    return UsageError("--tls-client-certs optional is given without TLS",
                      "it is about clients of a port with TLS",
                      "--tls-cert FILE --tls-key FILE --tls-ca FILE");
  });
  set->Add(With(SwitchFlag("share-prefix-cache", &flags->share_prefix_cache), group,
                "tenants find each other's prefixes, and can tell by the time whether they are "
                "there"));
}

}  // namespace baton
