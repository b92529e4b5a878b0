#include "router/openai/http_caller.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace baton {

absl::StatusOr<Caller> CallerOf(const HttpRequest& request, const CallerRules& rules) {
  // As gRPC writes an address, so that a client counts as one over both.
  const std::string peer =
      absl::StrCat(request.peer.starts_with('[') ? "ipv6:" : "ipv4:",
                   absl::StrReplaceAll(request.peer, {{"[", "%5B"}, {"]", "%5D"}}));
  CallerEvidence evidence{.peer = peer, .names = {}, .requested = {}};
  if (rules.tls) {
    evidence.names = request.certificate_names;
    evidence.certificate = request.has_certificate;
  }
  if (rules.trust_header) evidence.requested = request.FindAll(kTenantHeader);
  if (rules.keys != nullptr) evidence.keys = request.FindAll(kKeyHeader);
  return JudgeCaller(evidence, rules);
}

}  // namespace baton
