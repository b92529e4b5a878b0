#include "router/edge/caller.h"

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/base/sha256.h"
#include "common/base/status.h"
#include "common/config/tenant_name.h"
#include "common/rpc/credentials.h"
#include "router/edge/api_keys.h"
#include "router/edge/client_key.h"

namespace baton {
namespace {

// A name as messages show it; trailers have little room.
std::string Shown(std::string_view name) {
  if (name.size() > kMaxTenantBytes) return absl::StrCat("a name of ", name.size(), " bytes");
  return absl::StrCat("'", absl::CHexEscape({name.data(), name.size()}), "'");
}

absl::Status NotAClient(const std::string& what) {
  return MakeError(absl::StatusCode::kPermissionDenied, {},
                   absl::StrCat("the caller's certificate ", what));
}

absl::Status BadHeader(const std::string& found) {
  return MakeError(absl::StatusCode::kInvalidArgument,
                   {.reason = Reason::kInvalidText, .field = std::string(kTenantHeader)},
                   absl::StrCat("the metadata baton-tenant is ", found, "; ", kTenantNameRule));
}

absl::StatusOr<std::string> TenantOfHeader(const std::vector<std::string>& values) {
  if (values.size() > 1) return BadHeader(absl::StrCat("there ", values.size(), " times"));
  if (!IsTenantName(values.front())) return BadHeader(Shown(values.front()));
  return values.front();
}

absl::StatusOr<std::string> TenantOfCertificate(const std::vector<std::string>& names) {
  if (names.empty()) return NotAClient("names nobody; issue one that names its tenant");
  if (!IsTenantName(names.front())) {
    return NotAClient(absl::StrCat("names ", Shown(names.front()), ", which no tenant can have; ",
                                   kTenantNameRule, " as its first alternative name"));
  }
  return names.front();
}

Caller KnownCaller(std::string tenant) {
  // No address begins so.
  std::string client = absl::StrCat("tenant:", tenant);
  return {.tenant = std::move(tenant), .client = std::move(client)};
}

}  // namespace

absl::StatusOr<Caller> JudgeCaller(const CallerEvidence& evidence, const CallerRules& rules) {
  if (const auto role = std::ranges::find_if(evidence.names, IsRoleName);
      rules.tls && role != evidence.names.end()) {
    return NotAClient(absl::StrCat("is that of the role '", *role,
                                   "', which sends no requests of its own; use a client's"));
  }
  if (rules.keys != nullptr) {
    absl::StatusOr<std::string> name = rules.keys->NameOf(evidence.keys);
    if (!name.ok()) return name.status();
    return KnownCaller(*std::move(name));
  }
  const bool certified = rules.tls && (rules.certificates || evidence.certificate);
  if (rules.trust_header && !evidence.requested.empty() && rules.tls && !certified) {
    return MakeError(absl::StatusCode::kPermissionDenied, {},
                     "a call without a certificate may not name a tenant; leave out the metadata "
                     "baton-tenant, or show a client's certificate");
  }
  absl::StatusOr<std::string> tenant = std::string(kDefaultTenant);
  if (rules.trust_header && !evidence.requested.empty()) {
    tenant = TenantOfHeader(evidence.requested);
  } else if (certified) {
    tenant = TenantOfCertificate(evidence.names);
  } else {
    return Caller{.tenant = *std::move(tenant), .client = ClientKey(evidence.peer)};
  }
  if (!tenant.ok()) return tenant.status();
  return KnownCaller(*std::move(tenant));
}

absl::StatusOr<Caller> CallerOf(const grpc::CallbackServerContext& context,
                                const CallerRules& rules) {
  const std::string peer = context.peer();
  CallerEvidence evidence{.peer = peer, .names = {}, .requested = {}};
  if (rules.tls) {
    const auto shown = context.auth_context();
    evidence.names = PeerNames(shown.get());
    evidence.certificate = HasCertificate(shown.get());
  }
  const auto values = [&context](std::string_view name) {
    std::vector<std::string> found;
    const auto [begin, end] = context.client_metadata().equal_range({name.data(), name.size()});
    for (auto it = begin; it != end; ++it) {
      found.emplace_back(it->second.data(), it->second.size());
    }
    return found;
  };
  if (rules.trust_header) evidence.requested = values(kTenantHeader);
  if (rules.keys != nullptr) evidence.keys = values(kKeyHeader);
  return JudgeCaller(evidence, rules);
}

std::string CacheSaltOf(std::optional<std::string_view> tenant, std::string_view salt) {
  // A tenant's name has a length of its own and is never empty, so no two pairs are written alike.
  const std::string_view owner = tenant.value_or("");
  return Sha256Hex(absl::StrCat(owner.size(), ":", std::string(owner), std::string(salt)));
}

}  // namespace baton
