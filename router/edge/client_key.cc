#include "router/edge/client_key.h"

namespace baton {

std::string ClientKey(std::string_view peer) {
  const bool has_port = peer.starts_with("ipv4:") || peer.starts_with("ipv6:");
  return std::string(has_port ? peer.substr(0, peer.rfind(':')) : peer);
}

}  // namespace baton
