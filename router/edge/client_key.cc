#include "router/edge/client_key.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <optional>

#include "absl/strings/str_replace.h"

namespace baton {
namespace {

// Of "ipv6:[2001:db8::1]" or the same with the brackets escaped; nullopt for anything else, as an
// address with a zone.
std::optional<in6_addr> Ipv6Of(const std::string& host) {
  const std::string plain = absl::StrReplaceAll(host, {{"%5B", "["}, {"%5D", "]"}});
  in6_addr address{};
  if (!plain.starts_with("ipv6:[") || !plain.ends_with(']')) return std::nullopt;
  const std::string inside = plain.substr(6, plain.size() - 7);
  if (inet_pton(AF_INET6, inside.c_str(), &address) != 1) return std::nullopt;
  return address;
}

std::string Text(int family, const void* address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  inet_ntop(family, address, text.data(), text.size());
  return text.data();
}

}  // namespace

std::string ClientKey(std::string_view peer) {
  const bool has_port = peer.starts_with("ipv4:") || peer.starts_with("ipv6:");
  if (!has_port) return std::string(peer);
  std::string host(peer.substr(0, peer.rfind(':')));
  std::optional<in6_addr> address = Ipv6Of(host);
  if (!address || IN6_IS_ADDR_LINKLOCAL(&*address)) return host;
  if (IN6_IS_ADDR_V4MAPPED(&*address)) return "ipv4:" + Text(AF_INET, &address->s6_addr[12]);
  std::fill(address->s6_addr + 8, address->s6_addr + 16, 0);
  return "ipv6:[" + Text(AF_INET6, &*address) + "/64]";
}

}  // namespace baton
