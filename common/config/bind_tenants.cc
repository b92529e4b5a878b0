#include "common/config/bind.h"
#include "common/config/flag_types.h"

namespace baton {

void BindTenants(FlagSet* set, RouterFlags* flags) {
  const std::string group = "Tenants";
  set->Add(With(SwitchFlag("trust-tenant-header", &flags->trust_tenant_header), group,
                "believe the tenant that a request names in its metadata baton-tenant; for routers "
                "that only a gateway reaches"));
  set->Add(With(SwitchFlag("share-prefix-cache", &flags->share_prefix_cache), group,
                "tenants find each other's prefixes, and can tell by the time whether they are "
                "there"));
}

}  // namespace baton
