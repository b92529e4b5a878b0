#include "tools/client/client_flags.h"

#include <cstdlib>
#include <fstream>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/config/bind.h"
#include "common/config/flag_types.h"
#include "common/sample/request_limits.h"

namespace baton {

Flag TagFlag(std::string* target) {
  Flag flag = TextFlag("tag", target);
  flag.set = [target](const std::vector<std::string>& values) -> absl::Status {
    const std::string& tag = values.back();
    const int64_t most = RequestLimits()[static_cast<size_t>(RequestLimit::kTag)].most;
    if (std::ssize(tag) > most) {
      return absl::InvalidArgumentError(
          absl::StrCat("found ", tag.size(), " bytes, expected at most ", most));
    }
    *target = tag;
    return absl::OkStatus();
  };
  return flag;
}

void BindAsTenant(FlagSet* set, ClientFlags* flags) {
  set->Add(With(Valued(TextFlag("as-tenant", &flags->as_tenant), "NAME"), "Server",
                "tenant that the requests name, for a router with --trust-tenant-header"));
}

void BindApiKey(FlagSet* set, ClientFlags* flags, std::string_view variable) {
  set->Add(With(InputFlag("api-key-file", &flags->api_key_file), "Server",
                absl::StrCat("file with the key that requests show, for a router with --api-keys; "
                             "default: the environment variable ",
                             std::string(variable))));
  set->AddCheck([flags] {
    const char* const given = std::getenv("BATON_API_KEY");
    flags->api_key = given != nullptr ? given : "";
    if (flags->api_key_file.empty()) return absl::OkStatus();
    std::ifstream file(flags->api_key_file);
    flags->api_key.clear();
    file >> flags->api_key;
    if (!flags->api_key.empty()) return absl::OkStatus();
    return UsageError("--api-key-file " + flags->api_key_file + " holds no key",
                      "expected a file that can be read, with the key in its first line",
                      "the path of such a file");
  });
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
  BindApiKey(set, flags, "BATON_API_KEY");
  BindClientTls(set, &flags->tls);
}

std::string OpenAiKeyOf(const ClientFlags& flags) {
  return flags.api_key_file.empty() ? "" : flags.api_key;
}

ChannelOptions ChannelOptionsOf(const ClientFlags& flags) {
  ChannelOptions options;
  options.tls = {.cert_file = flags.tls.cert, .key_file = flags.tls.key, .ca_file = flags.tls.ca};
  options.peer_role = "router";
  options.api_key = flags.api_key;
  return options;
}

}  // namespace baton
