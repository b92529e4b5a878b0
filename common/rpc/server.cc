#include "common/rpc/server.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

#include "boost/asio/ip/address.hpp"
#include "common/base/status.h"
#include "common/rpc/compression.h"
#include "common/rpc/credentials.h"
#include "common/rpc/grpc_port.h"
#include "common/rpc/keepalive.h"
#include "google/protobuf/message.h"
#include "grpc/grpc.h"
#include "grpc/health/v1/health.pb.h"
#include "grpcpp/ext/proto_server_reflection_plugin.h"
#include "grpcpp/health_check_service_interface.h"
#include "grpcpp/resource_quota.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"

namespace baton {
namespace {

// What runs may take as long as it likes until Shutdown.
constexpr std::chrono::hours kNoHurry{24 * 365};
// Between two cancellations of what does not end.
constexpr std::chrono::milliseconds kCancelEvery{100};

// gRPC counts milliseconds in an int, the largest of which is forever.
int ArgumentMs(base::Duration time) {
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(time).count();
  return static_cast<int>(std::min<int64_t>(ms, std::numeric_limits<int>::max()));
}

void LimitAge(const RpcServerOptions& options, grpc::ServerBuilder* builder) {
  if (options.max_connection_age <= base::Duration::zero()) return;
  builder->AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_MS,
                              ArgumentMs(options.max_connection_age));
  if (options.max_connection_age_grace <= base::Duration::zero()) return;
  builder->AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_GRACE_MS,
                              ArgumentMs(options.max_connection_age_grace));
}

void Configure(const RpcServerOptions& options, grpc::ServerBuilder* builder) {
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveTimeMs);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder->AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  builder->AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                              kServerMinPingIntervalMs);
  builder->AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, options.max_concurrent_streams);
  builder->SetMaxReceiveMessageSize(options.max_message_bytes);
  builder->AddChannelArgument(GRPC_COMPRESSION_CHANNEL_ENABLED_ALGORITHMS_BITSET, kUncompressed);
  builder->AddChannelArgument(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, kUnpackNothing);
  grpc::ResourceQuota quota("server");
  quota.Resize(static_cast<size_t>(options.receive_bytes));
  builder->SetResourceQuota(quota);
}

}  // namespace

bool IsLoopback(std::string_view host) {
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  boost::system::error_code error;
  const auto address = boost::asio::ip::make_address(std::string(host), error);
  // A name that begins as such an address does can stand for any other.
  return host == "localhost" || (!error && address.is_loopback());
}

std::string JoinHostPort(std::string_view host, int port) {
  const bool bare_ipv6 = host.find(':') != std::string_view::npos && host.front() != '[';
  const std::string name = bare_ipv6 ? "[" + std::string(host) + "]" : std::string(host);
  return name + ":" + std::to_string(port);
}

RpcServer::RpcServer(std::string host, std::unique_ptr<GrpcPort> port,
                     std::unique_ptr<grpc::Server> server)
    : host_(std::move(host)), port_(std::move(port)), server_(std::move(server)) {}

RpcServer::~RpcServer() { Shutdown(std::chrono::milliseconds(0)); }

absl::StatusOr<std::unique_ptr<RpcServer>> RpcServer::Start(
    const RpcServerOptions& options, const std::vector<grpc::Service*>& services) {
  if (!options.tls.enabled() && !options.insecure && !IsLoopback(options.host)) {
    return absl::InvalidArgumentError(
        "--host " + options.host +
        " can be reached from other machines and there is no TLS; give --tls-cert, --tls-key and "
        "--tls-ca, or --insecure if the network is trusted");
  }
  auto credentials = MakeServerCredentials(options.tls, options.client_certificates);
  if (!credentials.ok()) return credentials.status();
  // gRPC's own health service brings no schema; reflection describes it by ours, once it is linked.
  google::protobuf::LinkMessageReflection<grpc::health::v1::HealthCheckRequest>();
  // Process-wide switches of gRPC; setting them again changes nothing.
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();

  BATON_ASSIGN_OR_RETURN(std::unique_ptr<GrpcPort> port,
                         GrpcPort::Listen(options.host, options.port));
  grpc::ServerBuilder builder;
  Configure(options, &builder);
  LimitAge(options, &builder);
  auto connections = builder.experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD, *credentials);
  for (grpc::Service* service : services) builder.RegisterService(service);
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr) {
    return absl::InternalError("gRPC could not start a server; its lines in the log say why");
  }
  server->GetHealthCheckService()->SetServingStatus(false);
  port->Open(std::move(connections));
  return std::unique_ptr<RpcServer>(
      new RpcServer(options.host, std::move(port), std::move(server)));
}

int RpcServer::port() const { return port_->number(); }

std::string RpcServer::address() const { return JoinHostPort(host_, port()); }

void RpcServer::SetServing(const std::vector<std::string>& services, bool serving) {
  if (server_ == nullptr) return;
  grpc::HealthCheckServiceInterface* health = server_->GetHealthCheckService();
  for (const std::string& service : services) health->SetServingStatus(service, serving);
  health->SetServingStatus("", serving);
}

void RpcServer::BeginShutdown() {
  if (server_ == nullptr || ending_.joinable()) return;
  port_->Close();
  ending_ = std::thread([this] {
    server_->Shutdown(std::chrono::system_clock::now() + kNoHurry);
    base::MutexLock lock(&mutex_);
    ended_ = true;
    changed_.NotifyAll();
  });
}

bool RpcServer::WaitEnded(base::Instant deadline) {
  base::MutexLock lock(&mutex_);
  while (!ended_) {
    if (!changed_.WaitUntil(&mutex_, deadline)) return ended_;
  }
  return true;
}

void RpcServer::Shutdown(std::chrono::milliseconds grace) {
  if (server_ == nullptr) return;
  port_->Close();
  if (ending_.joinable()) {
    // gRPC's own call cannot be given another deadline, so what is left is cancelled here.
    base::Instant deadline = std::chrono::steady_clock::now() + grace;
    while (!WaitEnded(deadline)) {
      grpc_server_cancel_all_calls(server_->c_server());
      deadline = std::chrono::steady_clock::now() + kCancelEvery;
    }
    ending_.join();
  } else {
    server_->Shutdown(std::chrono::system_clock::now() + grace);
  }
  server_->Wait();
  server_.reset();
}

}  // namespace baton
