#include "common/config/http_url.h"

#include <algorithm>
#include <cstdint>
#include <optional>

#include "absl/strings/str_cat.h"
#include "common/config/numbers.h"

namespace baton {
namespace {

constexpr int32_t kLastPort = 65'535;

bool IsHostName(std::string_view host) {
  return !host.empty() && std::ranges::all_of(host, [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
           c == '.' || c == '_';
  });
}

// The colons and digits of an IPv6 address stand in brackets.
bool IsBracketed(std::string_view host) {
  return host.size() > 2 && host.front() == '[' && host.back() == ']' &&
         host.find_first_not_of("0123456789abcdefABCDEF:.", 1) == host.size() - 1;
}

struct Authority {
  std::string_view host;
  std::optional<std::string_view> port;
};

Authority Divided(std::string_view text) {
  const size_t bracket = text.rfind(']');
  const size_t colon = text.rfind(':');
  const bool has_port =
      colon != std::string_view::npos && (bracket == std::string_view::npos || colon > bracket);
  if (!has_port) return {.host = text, .port = {}};
  return {.host = text.substr(0, colon), .port = text.substr(colon + 1)};
}

bool IsAuthority(std::string_view text) {
  const Authority parts = Divided(text);
  if (!IsHostName(parts.host) && !IsBracketed(parts.host)) return false;
  if (!parts.port) return true;
  const auto port = ParseNumber<int32_t>(std::string(*parts.port));
  return port && *port >= 1 && *port <= kLastPort;
}

}  // namespace

absl::StatusOr<HttpUrl> ParseHttpUrl(std::string_view url) {
  const auto wrong = [url] {
    return absl::InvalidArgumentError(
        absl::StrCat("found '", std::string(url),
                     "', expected http:// or https://, a host, perhaps a port and a path"));
  };
  const size_t scheme = url.find("://");
  const bool http = scheme != std::string_view::npos &&
                    (url.substr(0, scheme) == "http" || url.substr(0, scheme) == "https");
  if (!http) return wrong();
  const size_t slash = std::min(url.find('/', scheme + 3), url.size());
  const std::string_view path = url.substr(slash);
  const bool plain =
      std::ranges::all_of(path, [](char c) { return c > ' ' && c <= '~' && c != '?' && c != '#'; });
  if (!plain || !IsAuthority(url.substr(scheme + 3, slash - scheme - 3))) return wrong();
  return HttpUrl{.origin = std::string(url.substr(0, slash)),
                 .path = path == "/" ? "" : std::string(path)};
}

HttpAddress AddressOf(std::string_view origin) {
  constexpr int kHttpPort = 80;
  constexpr int kHttpsPort = 443;
  const bool tls = origin.starts_with("https:");
  Authority parts = Divided(origin.substr(origin.find("://") + 3));
  if (IsBracketed(parts.host)) parts.host = parts.host.substr(1, parts.host.size() - 2);
  const auto port = parts.port ? ParseNumber<int>(std::string(*parts.port)) : std::nullopt;
  return {.tls = tls,
          .host = std::string(parts.host),
          .port = port.value_or(tls ? kHttpsPort : kHttpPort)};
}

}  // namespace baton
