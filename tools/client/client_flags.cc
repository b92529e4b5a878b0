#include "tools/client/client_flags.h"

#include "common/config/bind.h"
#include "common/config/flag_types.h"

namespace baton {

void BindClient(FlagSet* set, ClientFlags* flags) {
  const std::string group = "Server";
  set->Add(Common(With(AddressFlag("server", &flags->server), group, "address of the router")));
  set->Add(With(DurationFlag("timeout", &flags->timeout, std::chrono::seconds(1)), group,
                "how long a request may take"));
  BindTls(set, &flags->tls);
}

ChannelOptions ChannelOptionsOf(const ClientFlags& flags) {
  ChannelOptions options;
  options.tls = {.cert_file = flags.tls.cert, .key_file = flags.tls.key, .ca_file = flags.tls.ca};
  options.peer_role = "router";
  return options;
}

}  // namespace baton
