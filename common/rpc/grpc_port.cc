#include "common/rpc/grpc_port.h"

#include <fcntl.h>
#include <netinet/tcp.h>

#include <utility>

#include "common/base/status.h"
#include "common/rpc/keepalive.h"

namespace baton {

using boost::asio::ip::tcp;

absl::StatusOr<std::unique_ptr<GrpcPort>> GrpcPort::Listen(const std::string& host, int port) {
  std::unique_ptr<GrpcPort> listening(new GrpcPort);
  BATON_RETURN_IF_ERROR(listening->listener_.Listen(host, port));
  return listening;
}

void GrpcPort::Open(std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> grpc) {
  grpc_ = std::move(grpc);
  listener_.Accept([this]() -> boost::asio::io_context& { return context_; },
                   [this](tcp::socket socket) { HandOver(std::move(socket)); });
  thread_ = std::thread([this] { context_.run(); });
}

// Sets what gRPC sets on the connections that it accepts itself.
void GrpcPort::HandOver(tcp::socket socket) {
  using UserTimeout = boost::asio::detail::socket_option::integer<IPPROTO_TCP, TCP_USER_TIMEOUT>;
  boost::system::error_code error;
  socket.native_non_blocking(true, error);
  if (!error) socket.set_option(tcp::no_delay(true), error);
  if (!error) socket.set_option(UserTimeout(kKeepaliveTimeoutMs), error);
  // A client that has gone already has no address, which gRPC would complain of.
  if (!error) socket.remote_endpoint(error);
  if (error) return;
  fcntl(socket.native_handle(), F_SETFD, FD_CLOEXEC);
  grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters connection;
  connection.fd = socket.release();
  grpc_->HandleNewConnection(&connection);
}

void GrpcPort::Close() {
  context_.stop();
  if (thread_.joinable()) thread_.join();
  listener_.Close();
}

}  // namespace baton
