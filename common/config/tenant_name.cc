#include "common/config/tenant_name.h"

#include <algorithm>

#include "absl/strings/ascii.h"

namespace baton {

bool IsRoleName(std::string_view name) {
  return name == "router" || name == "prefill" || name == "decode";
}

bool IsTenantName(std::string_view name) {
  const auto allowed = [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '_' || c == '-';
  };
  return !name.empty() && name.size() <= kMaxTenantBytes && std::ranges::all_of(name, allowed) &&
         !IsRoleName(name);
}

}  // namespace baton
