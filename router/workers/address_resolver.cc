#include "router/workers/address_resolver.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <memory>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"

namespace baton {
namespace {

constexpr std::string_view kDnsScheme = "dns:///";

// Splits "host:port" or "[v6]:port" into host and port. The host is empty for any other form.
std::pair<std::string, std::string> SplitHostPort(std::string_view target) {
  const size_t colon = target.rfind(':');
  if (colon == std::string_view::npos || colon + 1 == target.size()) return {};
  std::string_view host = target.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  return {std::string(host), std::string(target.substr(colon + 1))};
}

std::string Numeric(const addrinfo& info, const std::string& port) {
  char host[NI_MAXHOST];
  if (getnameinfo(info.ai_addr, info.ai_addrlen, host, sizeof(host), nullptr, 0, NI_NUMERICHOST) !=
      0) {
    return "";
  }
  return info.ai_family == AF_INET6 ? absl::StrCat("[", host, "]:", port)
                                    : absl::StrCat(host, ":", port);
}

// Empty if `flags` do not allow what `target` needs.
std::optional<absl::StatusOr<std::vector<std::string>>> Resolve(const std::string& target,
                                                                int flags) {
  std::string_view name = target;
  if (name.substr(0, kDnsScheme.size()) == kDnsScheme) name.remove_prefix(kDnsScheme.size());
  const auto [host, port] = SplitHostPort(name);
  if (host.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("worker address '", target, "'; expected host:port or dns:///name:port"));
  }
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  addrinfo* found = nullptr;
  const int rc = getaddrinfo(host.c_str(), port.c_str(), &hints, &found);
  if (rc == EAI_NONAME && (flags & AI_NUMERICHOST) != 0) return std::nullopt;
  if (rc != 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot resolve '", target, "': ", gai_strerror(rc)));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, freeaddrinfo);
  std::vector<std::string> addresses;
  for (const addrinfo* info = found; info != nullptr; info = info->ai_next) {
    std::string address = Numeric(*info, port);
    if (!address.empty()) addresses.push_back(std::move(address));
  }
  std::sort(addresses.begin(), addresses.end());
  addresses.erase(std::unique(addresses.begin(), addresses.end()), addresses.end());
  return addresses;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ResolveTarget(const std::string& target) {
  // Without addresses of a family that this host has none of: nobody could be reached there.
  return *Resolve(target, AI_ADDRCONFIG);
}

std::optional<absl::StatusOr<std::vector<std::string>>> ResolveLiteral(const std::string& target) {
  return Resolve(target, AI_NUMERICHOST);
}

}  // namespace baton
