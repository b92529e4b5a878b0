#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/rpc/tls.h"

namespace grpc {
class Server;
class Service;
}  // namespace grpc

namespace baton {

class GrpcPort;

// Where and how a server listens.
struct RpcServerOptions {
  std::string host = "127.0.0.1";
  int port = 0;  // 0 takes any free one
  TlsOptions tls;
  // With TLS: whoever calls must show one of the authority's certificates. Else who shows none may
  // call, too, and one of another authority is still refused.
  bool client_certificates = true;
  // Allows plain text on another interface than loopback.
  bool insecure = false;
  int max_message_bytes = 16 << 20;  // of a message that is received
  // Of all messages that are being received or not let go of yet. At the bound gRPC resets calls
  // with RESOURCE_EXHAUSTED, whichever it meets, so this stands far above what should ever be.
  int64_t receive_bytes = int64_t{1} << 30;
  int max_concurrent_streams = 65'536;  // of one connection
  // After so long a connection is told to go, and closed when its calls are over, or after the
  // grace, when gRPC ends what is left as UNAVAILABLE. 0 = never, of both. gRPC makes the age up to
  // a tenth longer or shorter.
  base::Duration max_connection_age{};
  base::Duration max_connection_age_grace = std::chrono::seconds(600);
};

// One gRPC server with health per service, reflection, keepalive and message limits. The services
// must outlive it.
class RpcServer final {
 public:
  // ALREADY_EXISTS when the port is in use; INVALID_ARGUMENT for a host or TLS setting that cannot
  // serve. Every service starts as NOT_SERVING.
  static absl::StatusOr<std::unique_ptr<RpcServer>> Start(
      const RpcServerOptions& options, const std::vector<grpc::Service*>& services);
  ~RpcServer();

  int port() const;
  // "host:port" as peers dial it.
  std::string address() const;

  // Health of the whole ("") and of every named service.
  void SetServing(const std::vector<std::string>& services, bool serving);

  // Sends every client away and does not wait: connections get GOAWAY, new ones are refused, and a
  // client that has other addresses goes there. Calls that run go on until Shutdown. A call that is
  // on its way meanwhile never begins; gRPC ends it as CANCELLED or UNAVAILABLE.
  void BeginShutdown();
  // Refuses new calls; those that run past `grace` are cancelled. Returns when all are over.
  void Shutdown(std::chrono::milliseconds grace);

 private:
  // That BeginShutdown has done all it began.
  bool WaitEnded(base::Instant deadline);

  RpcServer(std::string host, std::unique_ptr<GrpcPort> port, std::unique_ptr<grpc::Server> server);

  std::string host_;
  std::unique_ptr<GrpcPort> port_;
  std::unique_ptr<grpc::Server> server_;
  base::Mutex mutex_;
  base::CondVar changed_;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread ending_;  // in gRPC's call that waits for the last call
};

// Whether `host` can only be reached from this machine.
bool IsLoopback(std::string_view host);
// "host:port", IPv6 hosts in brackets.
std::string JoinHostPort(std::string_view host, int port);

}  // namespace baton
