#include "common/config/http_url.h"

#include <algorithm>
#include <cstdint>

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

bool IsAuthority(std::string_view text) {
  const size_t bracket = text.rfind(']');
  const size_t colon = text.rfind(':');
  const bool has_port =
      colon != std::string_view::npos && (bracket == std::string_view::npos || colon > bracket);
  const std::string_view host = text.substr(0, has_port ? colon : text.size());
  if (!IsHostName(host) && !IsBracketed(host)) return false;
  if (!has_port) return true;
  const auto port = ParseNumber<int32_t>(std::string(text.substr(colon + 1)));
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

}  // namespace baton
