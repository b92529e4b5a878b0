#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/config/options.h"

namespace baton {

// The serving status of gRPC's health protocol, grpc.health.v1.HealthCheckResponse.ServingStatus.
enum class Health { kUnknown = 0, kServing = 1, kNotServing = 2, kServiceUnknown = 3 };
std::string_view HealthName(Health health);  // "SERVING"

struct HealthPeer {
  TlsFlags tls;
  std::string role;  // that the server's certificate names, with TLS
};

// Calls grpc.health.v1.Health/Check once. An empty `service` asks for the server as a whole.
absl::StatusOr<Health> CheckHealth(const std::string& address, const std::string& service,
                                   base::Duration timeout, const HealthPeer& peer);

}  // namespace baton
