#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/rpc/tls.h"
#include "grpcpp/channel.h"

namespace baton {

struct ChannelOptions {
  TlsOptions tls;
  // With TLS: the role that the server's certificate must name ("decode"); it replaces the host
  // name check, because workers are dialled by address.
  std::string peer_role;
  int max_message_bytes = 16 << 20;  // received
};

// A channel with client-side keepalive, so that a lost network ends its streams within 15 s. Every
// call gives a channel with a connection of its own. Any thread may let go of it, those that run
// reactions too.
absl::StatusOr<std::shared_ptr<grpc::Channel>> MakeChannel(const std::string& address,
                                                           const ChannelOptions& options);

}  // namespace baton
