// A server as peers find it: ports, limits, health, reflection, roles.
#include "common/rpc/server.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "baton/worker/v1/prefill.grpc.pb.h"
#include "common/rpc/channel.h"
#include "common/rpc/credentials.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "grpcpp/client_context.h"
#include "grpcpp/grpcpp.h"
#include "tests/fakes/tls_files.h"

namespace baton {
namespace {

namespace pb = ::baton::worker::v1;

// Ends every call at once with OK, or with what the role check says.
class EchoService final : public pb::PrefillService::CallbackService {
 public:
  explicit EchoService(bool tls = false, std::string role = "router")
      : tls_(tls), role_(std::move(role)) {}
  grpc::ServerWriteReactor<pb::PrefillResponse>* Prefill(grpc::CallbackServerContext* context,
                                                         const pb::PrefillRequest*) override {
    class Reactor final : public grpc::ServerWriteReactor<pb::PrefillResponse> {
     public:
      explicit Reactor(const absl::Status& status) {
        Finish(grpc::Status(static_cast<grpc::StatusCode>(status.code()),
                            std::string(status.message())));
      }
      void OnDone() override { delete this; }
    };
    return new Reactor(CheckPeerRole(context->auth_context().get(), tls_, role_));
  }

 private:
  const bool tls_;
  const std::string role_;
};

grpc::Status Call(const std::string& address, const ChannelOptions& options,
                  const pb::PrefillRequest& request = {}) {
  const auto channel = MakeChannel(address, options);
  EXPECT_TRUE(channel.ok()) << channel.status();
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(10));
  auto stub = pb::PrefillService::NewStub(*channel);
  auto reader = stub->Prefill(&context, request);
  pb::PrefillResponse response;
  while (reader->Read(&response)) {
  }
  return reader->Finish();
}

TEST(RpcServerTest, ServesOnAFreePort) {
  EchoService service;
  auto server = RpcServer::Start({}, {&service});
  ASSERT_TRUE(server.ok()) << server.status();
  EXPECT_GT((*server)->port(), 0);
  EXPECT_EQ((*server)->address(), "127.0.0.1:" + std::to_string((*server)->port()));
  EXPECT_TRUE(Call((*server)->address(), {}).ok());
}

TEST(RpcServerTest, APortInUseIsAlreadyExistsAndNamesThePort) {
  EchoService first_service, second_service;
  auto first = RpcServer::Start({}, {&first_service});
  ASSERT_TRUE(first.ok());
  const int port = (*first)->port();
  const auto second = RpcServer::Start({.port = port}, {&second_service});
  EXPECT_EQ(second.status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_NE(std::string(second.status().message()).find(std::to_string(port)), std::string::npos);
}

TEST(RpcServerTest, RefusesHostsThatCannotServe) {
  EchoService service;
  EXPECT_EQ(RpcServer::Start({.host = "no.such.host.invalid"}, {&service}).status().code(),
            absl::StatusCode::kInvalidArgument);
  const auto open = RpcServer::Start({.host = "0.0.0.0"}, {&service});
  EXPECT_EQ(open.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(std::string(open.status().message()).find("--insecure"), std::string::npos);
  EXPECT_TRUE(RpcServer::Start({.host = "0.0.0.0", .insecure = true}, {&service}).ok());
}

TEST(RpcServerTest, KnowsTheAddressesOfThisMachineAlone) {
  for (const char* host : {"localhost", "127.0.0.1", "127.1.2.3", "::1", "[::1]"}) {
    EXPECT_TRUE(IsLoopback(host)) << host;
  }
  for (const char* host : {"127.example.com", "127.0.0.1.example.com", "0.0.0.0", "::", "host"}) {
    EXPECT_FALSE(IsLoopback(host)) << host;
  }
}

TEST(RpcServerTest, RefusesMessagesOverTheLimit) {
  EchoService service;
  auto server = RpcServer::Start({.max_message_bytes = 1000}, {&service});
  ASSERT_TRUE(server.ok());
  pb::PrefillRequest large;
  large.GetReflection()->MutableUnknownFields(&large)->AddLengthDelimited(100,
                                                                          std::string(2000, 'x'));
  EXPECT_EQ(Call((*server)->address(), {}, large).error_code(),
            grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_TRUE(Call((*server)->address(), {}).ok());
}

TEST(RpcServerTest, ReceivesNoMoreThanItsShareOfMemoryAndServesOn) {
  EchoService service;
  auto server = RpcServer::Start({.receive_bytes = 4 << 20}, {&service});
  ASSERT_TRUE(server.ok());
  pb::PrefillRequest large;
  large.GetReflection()->MutableUnknownFields(&large)->AddLengthDelimited(
      100, std::string(12 << 20, 'x'));
  EXPECT_EQ(Call((*server)->address(), {}, large).error_code(),
            grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_TRUE(Call((*server)->address(), {}).ok());
}

// What Check says: the status, or minus the code of an error.
int HealthOf(const std::string& address, const std::string& service) {
  const auto stub = grpc::health::v1::Health::NewStub(*MakeChannel(address, {}));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(10));
  grpc::health::v1::HealthCheckRequest request;
  request.set_service(service);
  grpc::health::v1::HealthCheckResponse response;
  const grpc::Status status = stub->Check(&context, request, &response);
  return status.ok() ? response.status() : -static_cast<int>(status.error_code());
}

TEST(RpcServerTest, HealthIsPerServiceAndStartsAsNotServing) {
  EchoService service;
  auto server = RpcServer::Start({}, {&service});
  ASSERT_TRUE(server.ok());
  const std::string name = "baton.worker.v1.PrefillService";
  EXPECT_EQ(HealthOf((*server)->address(), ""), 2);
  (*server)->SetServing({name}, true);
  EXPECT_EQ(HealthOf((*server)->address(), name), 1);
  EXPECT_EQ(HealthOf((*server)->address(), ""), 1);
  (*server)->SetServing({name}, false);
  EXPECT_EQ(HealthOf((*server)->address(), name), 2);
  EXPECT_EQ(HealthOf((*server)->address(), "no.such.Service"),
            -static_cast<int>(grpc::StatusCode::NOT_FOUND));
}

class TlsTest : public testing::Test {
 protected:
  TlsTest() {
    for (const char* role : {"router", "prefill", "decode"}) files_.Issue(role, role, "w");
  }
  TlsOptions Of(const std::string& role) const { return files_.Of(role); }

  TlsFiles files_;
};

TEST_F(TlsTest, OnlyTheNamedRoleMayCall) {
  EchoService service(true, "router");
  auto server = RpcServer::Start({.tls = Of("decode")}, {&service});
  ASSERT_TRUE(server.ok()) << server.status();
  const std::string address = (*server)->address();
  EXPECT_TRUE(Call(address, {.tls = Of("router"), .peer_role = "decode"}).ok());
  const grpc::Status prefill = Call(address, {.tls = Of("prefill"), .peer_role = "decode"});
  EXPECT_EQ(prefill.error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_NE(prefill.error_message().find("'prefill'"), std::string::npos);
  EXPECT_NE(prefill.error_message().find("'router'"), std::string::npos);
}

TEST_F(TlsTest, ConnectionsThatCannotProveThemselvesFail) {
  EchoService service(true, "router");
  auto server = RpcServer::Start({.tls = Of("decode")}, {&service});
  ASSERT_TRUE(server.ok());
  const std::string address = (*server)->address();
  // Plain text.
  EXPECT_EQ(Call(address, {}).error_code(), grpc::StatusCode::UNAVAILABLE);
  // The server is a decode worker, not a prefill worker.
  EXPECT_EQ(Call(address, {.tls = Of("router"), .peer_role = "prefill"}).error_code(),
            grpc::StatusCode::UNAVAILABLE);
  // A certificate of another CA.
  files_.Run(
      "mkdir other && cp ca.pem other/own-ca.pem && openssl req -x509 -newkey ec -pkeyopt "
      "ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=router -keyout other/router.key -out "
      "other/router.pem");
  const TlsOptions stranger{.cert_file = files_.path("other/router.pem"),
                            .key_file = files_.path("other/router.key"),
                            .ca_file = files_.path("ca.pem")};
  EXPECT_EQ(Call(address, {.tls = stranger, .peer_role = "decode"}).error_code(),
            grpc::StatusCode::UNAVAILABLE);
}

TEST_F(TlsTest, ClientsWithoutACertificateAreServedWhereNoneIsDemanded) {
  EchoService service(false);
  const TlsOptions authority{.cert_file = "", .key_file = "", .ca_file = Of("router").ca_file};
  const ChannelOptions anonymous{.tls = authority, .peer_role = "router"};
  auto strict = RpcServer::Start({.tls = Of("router")}, {&service});
  ASSERT_TRUE(strict.ok());
  EXPECT_EQ(Call((*strict)->address(), anonymous).error_code(), grpc::StatusCode::UNAVAILABLE);
  auto server = RpcServer::Start({.tls = Of("router"), .client_certificates = false}, {&service});
  ASSERT_TRUE(server.ok());
  const std::string address = (*server)->address();
  EXPECT_TRUE(Call(address, anonymous).ok());
  EXPECT_TRUE(Call(address, {.tls = Of("decode"), .peer_role = "router"}).ok());
  EXPECT_EQ(Call(address, {}).error_code(), grpc::StatusCode::UNAVAILABLE) << "in the clear";
  TlsFiles foreign;
  foreign.Issue("client", "client", "c");
  TlsOptions stranger = foreign.Of("client");
  stranger.ca_file = authority.ca_file;
  EXPECT_EQ(Call(address, {.tls = stranger, .peer_role = "router"}).error_code(),
            grpc::StatusCode::UNAVAILABLE);
  TlsOptions broken = authority;
  broken.ca_file = files_.path("router.key");
  EXPECT_EQ(MakeChannel(address, {.tls = broken}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(TlsTest, IncompleteOrUnreadableFilesAreRefusedByFlag) {
  EchoService service;
  TlsOptions half = Of("decode");
  half.ca_file.clear();
  const auto no_ca = RpcServer::Start({.tls = half}, {&service});
  EXPECT_EQ(no_ca.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(std::string(no_ca.status().message()).find("--tls-ca"), std::string::npos);
  TlsOptions missing = Of("decode");
  missing.key_file = files_.path("absent");
  EXPECT_NE(
      std::string(RpcServer::Start({.tls = missing}, {&service}).status().message()).find("absent"),
      std::string::npos);
}

}  // namespace
}  // namespace baton
