#include "router/edge/origin_rules.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/http/local_host.h"

namespace baton {
namespace {

constexpr std::string_view kBehindScheme = "://";

bool Same(std::string_view one, std::string_view other) {
  return absl::EqualsIgnoreCase({one.data(), one.size()}, {other.data(), other.size()});
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
  const std::string_view name = HostWithoutPort(host);
  const std::string_view page = origin.substr(kScheme.size());
  if (port == 80 && Same(page, name)) return true;
  return Same(page, absl::StrCat(std::string(name), ":", port));
}

bool OriginRules::Lists(std::string_view host) const {
  return std::ranges::any_of(listed_, [host](std::string_view one) {
    const size_t scheme = one.find(kBehindScheme);
    if (scheme == std::string_view::npos) return one == "*";
    return Same(HostWithoutPort(one.substr(scheme + kBehindScheme.size())), HostWithoutPort(host));
  });
}

}  // namespace baton
