#include "tools/client/client_flags.h"

#include "common/config/bind.h"
#include "common/config/flag_types.h"

namespace baton {

void BindAsTenant(FlagSet* set, ClientFlags* flags) {
  set->Add(With(Valued(TextFlag("as-tenant", &flags->as_tenant), "NAME"), "Server",
                "tenant that the requests name, for a router with --trust-tenant-header"));
}

void NameTenant(const std::string& as_tenant, grpc::ClientContext* context) {
  if (!as_tenant.empty()) context->AddMetadata("baton-tenant", as_tenant);
}

void BindClient(FlagSet* set, ClientFlags* flags) {
  const std::string group = "Server";
  set->Add(Common(With(AddressFlag("server", &flags->server), group, "address of the router")));
  set->Add(With(DurationFlag("timeout", &flags->timeout, std::chrono::seconds(1)), group,
                "how long a request may take"));
  BindAsTenant(set, flags);
  BindClientTls(set, &flags->tls);
}

ChannelOptions ChannelOptionsOf(const ClientFlags& flags) {
  ChannelOptions options;
  options.tls = {.cert_file = flags.tls.cert, .key_file = flags.tls.key, .ca_file = flags.tls.ca};
  options.peer_role = "router";
  return options;
}

}  // namespace baton
