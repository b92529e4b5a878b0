#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "grpcpp/server_context.h"

namespace baton {

// Who sends a call of the public API.
struct Caller {
  std::string tenant;  // whose queue, bounds and cache its requests use
  std::string client;  // who takes turns with others where texts are worked on
};

class ApiKeyFile;

// What the router believes about its callers.
struct CallerRules {
  bool tls = false;           // connections may show certificates
  bool certificates = true;   // with TLS, they must
  bool trust_header = false;  // --trust-tenant-header
  // Whose keys callers must show; null: none. Outlives whoever has these rules.
  const ApiKeyFile* keys = nullptr;
};

// The tenant of everybody of whom nothing is known.
constexpr std::string_view kDefaultTenant = "default";
// The key of the metadata that may name a tenant.
constexpr std::string_view kTenantHeader = "baton-tenant";
// That of the metadata, and of the header over HTTP, that holds a key: "Bearer KEY".
constexpr std::string_view kKeyHeader = "authorization";

// What a call shows of its caller.
struct CallerEvidence {
  std::string_view peer;               // as gRPC names the other end of a connection
  std::vector<std::string> names;      // in its certificate
  std::vector<std::string> requested;  // values of kTenantHeader
  bool certificate = false;            // it showed one
  std::vector<std::string> keys;       // values of kKeyHeader
};

// The tenant is the name of the key where keys are needed, else the one that a trusted header
// names, else the certificate's first name, else "default", also where a certificate need not be
// shown and none was. UNAUTHENTICATED without a key that is known. PERMISSION_DENIED for a
// certificate of a role (router, prefill, decode), which never is a client's, and for one whose
// name no tenant can have; INVALID_ARGUMENT, INVALID_TEXT for such a header.
absl::StatusOr<Caller> JudgeCaller(const CallerEvidence& evidence, const CallerRules& rules);
absl::StatusOr<Caller> CallerOf(const grpc::CallbackServerContext& context,
                                const CallerRules& rules);

// The salt under which workers keep the prefixes of a tenant's requests that give `salt`. Without a
// tenant it is that of all who share their prefixes. It has 64 bytes, whatever `salt` has, and two
// of them are equal only if both parts are.
std::string CacheSaltOf(std::optional<std::string_view> tenant, std::string_view salt);

}  // namespace baton
