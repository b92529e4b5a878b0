#include "tools/client/health_client.h"

#include <chrono>

#include "common/base/status.h"
#include "common/rpc/channel.h"
#include "common/rpc/status_map.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "grpcpp/grpcpp.h"

namespace baton {

std::string_view HealthName(Health health) {
  switch (health) {
    case Health::kServing:
      return "SERVING";
    case Health::kNotServing:
      return "NOT_SERVING";
    case Health::kServiceUnknown:
      return "SERVICE_UNKNOWN";
    case Health::kUnknown:
      break;
  }
  return "UNKNOWN";
}

absl::StatusOr<Health> CheckHealth(const std::string& address, const std::string& service,
                                   base::Duration timeout, const HealthPeer& peer) {
  ChannelOptions options;
  options.tls = {.cert_file = peer.tls.cert, .key_file = peer.tls.key, .ca_file = peer.tls.ca};
  options.peer_role = peer.role;
  BATON_ASSIGN_OR_RETURN(const auto channel, MakeChannel(address, options));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::duration_cast<std::chrono::system_clock::duration>(timeout));
  grpc::health::v1::HealthCheckRequest request;
  request.set_service(service);
  grpc::health::v1::HealthCheckResponse response;
  const auto stub = grpc::health::v1::Health::NewStub(channel);
  BATON_RETURN_IF_ERROR(FromGrpcStatus(stub->Check(&context, request, &response)));
  return static_cast<Health>(response.status());
}

}  // namespace baton
