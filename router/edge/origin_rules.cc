#include "router/edge/origin_rules.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace baton {
namespace {

bool Same(std::string_view one, std::string_view other) {
  return absl::EqualsIgnoreCase({one.data(), one.size()}, {other.data(), other.size()});
}

// "[::1]:80" is "[::1]", and "localhost:80" is "localhost".
std::string_view WithoutPort(std::string_view host) {
  const size_t colon = host.rfind(':');
  const size_t bracket = host.rfind(']');
  if (colon == std::string_view::npos) return host;
  return bracket != std::string_view::npos && bracket > colon ? host : host.substr(0, colon);
}

}  // namespace

bool OriginRules::Allows(std::string_view origin, std::string_view host) const {
  const bool listed = std::ranges::any_of(
      listed_, [origin](const std::string& one) { return one == "*" || Same(one, origin); });
  if (listed) return true;
  const int port = page_port_;
  // The admin port has no TLS, and port 80 is not written.
  constexpr std::string_view kScheme = "http://";
  if (port == 0 || !origin.starts_with(kScheme)) return false;
  const std::string_view name = WithoutPort(host);
  const std::string_view page = origin.substr(kScheme.size());
  if (port == 80 && Same(page, name)) return true;
  return Same(page, absl::StrCat(std::string(name), ":", port));
}

}  // namespace baton
