#pragma once

#include <memory>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "boost/asio/io_context.hpp"
#include "common/rpc/listener.h"
#include "grpcpp/server_builder.h"

namespace baton {

// The port of a gRPC server. A thread of its own accepts connections and hands them to gRPC, whose
// own listener would give itself up at the first one that it cannot accept.
class GrpcPort final {
 public:
  // As Listener::Listen. Connections wait in the kernel until Open.
  static absl::StatusOr<std::unique_ptr<GrpcPort>> Listen(const std::string& host, int port);
  ~GrpcPort() { Close(); }

  int number() const { return listener_.port(); }
  // `grpc` is that of a server that has started.
  void Open(std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> grpc);
  // New connections are refused from now on. To be called before the server ends, for gRPC does not
  // close what it is given later.
  void Close();

 private:
  GrpcPort() = default;
  void HandOver(boost::asio::ip::tcp::socket socket);

  boost::asio::io_context context_{1};
  // HTTP has to live beside gRPC, so that as many files again are left to it.
  Listener listener_{&context_, {.flag = "--port", .leaves = 2}};
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> grpc_;
  std::thread thread_;  // runs the context
};

}  // namespace baton
