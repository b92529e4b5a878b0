#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/rpc/tls.h"
#include "grpcpp/channel.h"

namespace baton {

// How to dial a server.
struct ChannelOptions {
  TlsOptions tls;
  // The role that the server's certificate must name with TLS, such as "decode". It replaces the
  // check of the host name, because workers are dialled by address.
  std::string peer_role;
  int max_message_bytes = 16 << 20;  // of a message that is received
  std::string api_key;               // that every call shows, as authorization: Bearer; "" = none
};

// A channel with client-side keepalive, so that a lost network ends its streams within 15 s. Every
// call gives a channel with a connection of its own. Any thread may let go of it, those that run
// reactions too.
absl::StatusOr<std::shared_ptr<grpc::Channel>> MakeChannel(const std::string& address,
                                                           const ChannelOptions& options);

}  // namespace baton
