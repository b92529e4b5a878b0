#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "common/base/clock.h"
#include "common/config/flag_set.h"
#include "common/config/options.h"
#include "common/rpc/channel.h"
#include "grpcpp/client_context.h"

namespace baton {

// The server and how to reach it: what every command that sends requests takes.
struct ClientFlags {
  std::string server = "127.0.0.1:50051";
  base::Duration timeout = std::chrono::seconds(600);  // of one request
  std::string as_tenant;  // that the metadata baton-tenant names; "" = none
  std::string api_key_file;
  // What is in that file, else in the environment variable BATON_API_KEY; set when the flags are
  // read. "" = none.
  std::string api_key;
  TlsFlags tls;
};

// --tag, a word for the EOS log that the server would take.
Flag TagFlag(std::string* target);
// --as-tenant, which BindClient adds too.
void BindAsTenant(FlagSet* set, ClientFlags* flags);
// --api-key-file, which BindClient adds too. `variable` is what its help names for the key where
// there is no file: where OpenAiKeyOf is used, another than ClientFlags has.
void BindApiKey(FlagSet* set, ClientFlags* flags, std::string_view variable);
void BindClient(FlagSet* set, ClientFlags* flags);

// Lets `context` name that tenant.
void NameTenant(const std::string& as_tenant, grpc::ClientContext* context);

// The key for a server of the OpenAI protocol, which may be anybody's: only one that was named, not
// that of Baton's environment.
std::string OpenAiKeyOf(const ClientFlags& flags);

// The same settings in the form in which a gRPC channel takes them.
ChannelOptions ChannelOptionsOf(const ClientFlags& flags);

}  // namespace baton
