#pragma once

#include <chrono>
#include <string>

#include "common/base/clock.h"
#include "common/config/flag_set.h"
#include "common/config/options.h"
#include "common/rpc/channel.h"

namespace baton {

// The server and how to reach it: what every command that sends requests takes.
struct ClientFlags {
  std::string server = "127.0.0.1:50051";
  base::Duration timeout = std::chrono::seconds(600);  // of one request
  TlsFlags tls;
};

void BindClient(FlagSet* set, ClientFlags* flags);

// The same settings in the form in which a gRPC channel takes them.
ChannelOptions ChannelOptionsOf(const ClientFlags& flags);

}  // namespace baton
