// Messages that are small on the wire and large once they are unpacked.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/rpc/channel.h"
#include "common/rpc/server.h"
#include "grpcpp/generic/async_generic_service.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/grpcpp.h"
#include "tests/common/base/taken_memory.h"

namespace baton {
namespace {

constexpr size_t kPieceBytes = size_t{1} << 20;
constexpr size_t kBombPieces = 96;
// Far less than the bomb has, and far more than a call takes.
constexpr long kRoomKib = 32 << 10;
constexpr char kCheck[] = "/grpc.health.v1.Health/Check";

// Zeros, in as many references to the same piece, so that only who unpacks them has them all.
grpc::ByteBuffer Bomb() {
  const std::vector<grpc::Slice> pieces(kBombPieces, grpc::Slice(std::string(kPieceBytes, '\0')));
  return {pieces.data(), pieces.size()};
}

grpc::ByteBuffer Nothing() {
  const grpc::Slice empty;
  return {&empty, 1};
}

struct UnaryAnswer {
  grpc::Status status;
  size_t bytes = 0;
};

UnaryAnswer CallUnary(const std::shared_ptr<grpc::Channel>& channel, const std::string& method,
                      const grpc::ByteBuffer& request, grpc_compression_algorithm algorithm) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
  context.set_compression_algorithm(algorithm);
  grpc::CompletionQueue queue;
  const auto call = grpc::GenericStub(channel).PrepareUnaryCall(&context, method, request, &queue);
  call->StartCall();
  grpc::ByteBuffer response;
  UnaryAnswer answer;
  call->Finish(&response, &answer.status, nullptr);
  void* tag = nullptr;
  bool ok = false;
  queue.Next(&tag, &ok);
  answer.bytes = response.Length();
  return answer;
}

TEST(CompressionTest, AServerUnpacksNothing) {
  auto server = RpcServer::Start({}, {});
  ASSERT_TRUE(server.ok()) << server.status();
  const auto channel =
      grpc::CreateChannel((*server)->address(), grpc::InsecureChannelCredentials());
  const grpc::ByteBuffer bomb = Bomb();
  for (const auto& [algorithm, name] :
       {std::pair(GRPC_COMPRESS_GZIP, "gzip"), std::pair(GRPC_COMPRESS_DEFLATE, "deflate")}) {
    grpc::Status status;
    EXPECT_LT(TakenKib([&, algorithm = algorithm] {
                status = CallUnary(channel, kCheck, bomb, algorithm).status;
              }),
              kRoomKib);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::UNIMPLEMENTED) << status.error_message();
    EXPECT_NE(status.error_message().find(name), std::string::npos) << status.error_message();
  }
  EXPECT_TRUE(CallUnary(channel, kCheck, Nothing(), GRPC_COMPRESS_NONE).status.ok());
}

// Answers every call with the bomb, compressed.
class BombService final : public grpc::CallbackGenericService {
 public:
  BombService() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterCallbackGenericService(this);
    server_ = builder.BuildAndStart();
  }
  ~BombService() override { server_->Shutdown(std::chrono::system_clock::now()); }

  std::string address() const { return JoinHostPort("127.0.0.1", port_); }

  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override {
    class Reactor final : public grpc::ServerGenericBidiReactor {
     public:
      Reactor() { StartWriteAndFinish(&bomb_, {}, grpc::Status::OK); }
      void OnDone() override { delete this; }

     private:
      const grpc::ByteBuffer bomb_ = Bomb();
    };
    context->set_compression_algorithm(GRPC_COMPRESS_GZIP);
    return new Reactor;
  }

 private:
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

TEST(CompressionTest, AClientUnpacksNothing) {
  const BombService service;
  const auto channel = MakeChannel(service.address(), {});
  ASSERT_TRUE(channel.ok()) << channel.status();
  UnaryAnswer answer;
  EXPECT_LT(TakenKib([&] {
              answer = CallUnary(*channel, "/a.Service/Call", Nothing(), GRPC_COMPRESS_NONE);
            }),
            kRoomKib);
  EXPECT_EQ(answer.status.error_code(), grpc::StatusCode::UNIMPLEMENTED)
      << answer.status.error_message();
  EXPECT_EQ(answer.bytes, 0u);
}

}  // namespace
}  // namespace baton
