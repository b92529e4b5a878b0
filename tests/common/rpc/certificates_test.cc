// Certificates that are replaced while servers and channels use them.
#include "common/rpc/certificates.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "baton/worker/v1/prefill.grpc.pb.h"
#include "common/base/mutex.h"
#include "common/rpc/channel.h"
#include "common/rpc/credentials.h"
#include "common/rpc/server.h"
#include "grpcpp/grpcpp.h"
#include "spdlog/sinks/base_sink.h"
#include "spdlog/spdlog.h"
#include "tests/fakes/eventually.h"
#include "tests/fakes/tls_files.h"

namespace baton {
namespace {

namespace pb = ::baton::worker::v1;

std::string CommonName(const grpc::AuthContext& context) {
  const auto names = context.FindPropertyValues("x509_common_name");
  return names.empty() ? "" : std::string(names[0].data(), names[0].size());
}

// Serves routers, and remembers the common name of the last one.
class RouterOnlyService final : public pb::PrefillService::CallbackService {
 public:
  grpc::ServerWriteReactor<pb::PrefillResponse>* Prefill(grpc::CallbackServerContext* context,
                                                         const pb::PrefillRequest*) override {
    struct Reactor final : grpc::ServerWriteReactor<pb::PrefillResponse> {
      void OnDone() override { delete this; }
    };
    {
      base::MutexLock lock(&mutex_);
      peer_ = CommonName(*context->auth_context());
    }
    const absl::Status status = CheckPeerRole(context->auth_context().get(), true, "router");
    auto* const reactor = new Reactor;
    reactor->Finish(grpc::Status(static_cast<grpc::StatusCode>(status.code()), ""));
    return reactor;
  }
  std::string peer() {
    base::MutexLock lock(&mutex_);
    return peer_;
  }

 private:
  base::Mutex mutex_;
  std::string peer_ ABSL_GUARDED_BY(mutex_);
};

// The lines of this process's log.
class LogLines final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  // Those that hold both.
  int64_t Count(std::string_view one, std::string_view other) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return std::count_if(lines_.begin(), lines_.end(), [&](const std::string& line) {
      return line.find(one) != line.npos && line.find(other) != line.npos;
    });
  }

 private:
  void sink_it_(const spdlog::details::log_msg& line) override {
    lines_.emplace_back(line.payload.data(), line.payload.size());
  }
  void flush_() override {}
  std::vector<std::string> lines_;
};
// Added before there are threads that log.
const std::shared_ptr<LogLines> log_lines = [] {
  auto lines = std::make_shared<LogLines>();
  spdlog::default_logger()->sinks().push_back(lines);
  return lines;
}();

struct Answer {
  grpc::StatusCode code = grpc::StatusCode::OK;
  std::string server;  // the common name in its certificate
};
Answer Ask(const std::shared_ptr<grpc::Channel>& channel) {
  grpc::ClientContext context;
  context.set_wait_for_ready(true);
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
  const auto reader = pb::PrefillService::NewStub(channel)->Prefill(&context, {});
  const grpc::Status status = reader->Finish();
  return {status.error_code(), CommonName(*context.auth_context())};
}

class CertificatesTest : public testing::Test {
 protected:
  CertificatesTest() {
    files_.Issue("decode", "decode", "decode-1");
    files_.Issue("router", "router", "router-1");
  }
  TlsOptions Of(const std::string& file) const {
    TlsOptions tls = files_.Of(file);
    tls.reload_every = std::chrono::milliseconds(5);
    return tls;
  }
  std::unique_ptr<RpcServer> Serve(int port = 0) {
    auto server = RpcServer::Start({.port = port, .tls = Of("decode")}, {&service_});
    EXPECT_TRUE(server.ok()) << server.status();
    return *std::move(server);
  }
  // A connection of its own.
  std::shared_ptr<grpc::Channel> Dial(const RpcServer& server) {
    return *MakeChannel(server.address(), {.tls = Of("router"), .peer_role = "decode"});
  }

  TlsFiles files_;
  RouterOnlyService service_;
};

TEST_F(CertificatesTest, ANewCertificateIsServedToNewConnectionsAndOldOnesLiveOn) {
  const auto server = Serve();
  const auto old = Dial(*server);
  EXPECT_EQ(Ask(old).server, "decode-1");
  files_.Issue("decode", "decode", "decode-2");
  EXPECT_TRUE(Eventually([&] { return Ask(Dial(*server)).server == "decode-2"; }));
  const Answer answer = Ask(old);
  EXPECT_EQ(answer.code, grpc::StatusCode::OK);
  EXPECT_EQ(answer.server, "decode-1");
}

TEST_F(CertificatesTest, AChannelConnectsAnewWithTheNewCertificate) {
  auto server = Serve();
  const auto channel = Dial(*server);
  EXPECT_EQ(Ask(channel).code, grpc::StatusCode::OK);
  EXPECT_EQ(service_.peer(), "router-1");
  files_.Issue("router", "router", "router-2");
  EXPECT_TRUE(Eventually([&] { return Ask(Dial(*server)).code, service_.peer() == "router-2"; }));
  const int port = server->port();
  server->Shutdown(std::chrono::milliseconds(0));
  server = Serve(port);
  EXPECT_EQ(Ask(channel).code, grpc::StatusCode::OK);
  EXPECT_EQ(service_.peer(), "router-2");
}

TEST_F(CertificatesTest, RolesAreThoseOfTheNewCertificates) {
  const auto server = Serve();
  EXPECT_EQ(Ask(Dial(*server)).code, grpc::StatusCode::OK);
  files_.Issue("router", "prefill", "impostor");
  EXPECT_TRUE(
      Eventually([&] { return Ask(Dial(*server)).code == grpc::StatusCode::PERMISSION_DENIED; }));
  EXPECT_EQ(service_.peer(), "impostor");
}

TEST_F(CertificatesTest, BrokenFilesLeaveTheOldOnesInUseAndAreReportedOnce) {
  const auto complaints = [&] { return log_lines->Count("stay in use", files_.path("decode")); };
  const auto loads = [&] { return log_lines->Count("are in use for new", files_.path("decode")); };
  const auto server = Serve();
  const auto warm = Dial(*server);  // reads its files before they break
  EXPECT_EQ(Ask(warm).server, "decode-1");
  files_.Run("head -c 300 decode.pem > half && mv half decode.pem");
  EXPECT_TRUE(Eventually([&] { return complaints() > 0; }));
  EXPECT_EQ(Ask(Dial(*server)).server, "decode-1");
  // Still broken, in another way.
  files_.Run("cp router.pem decode.pem");
  EXPECT_EQ(Ask(Dial(*server)).server, "decode-1");
  EXPECT_EQ(loads(), 0);
  files_.Issue("decode", "decode", "decode-2");
  EXPECT_TRUE(Eventually([&] { return Ask(Dial(*server)).server == "decode-2"; }));
  EXPECT_EQ(complaints(), 1);
}

TEST_F(CertificatesTest, FilesThatCannotServeAreRefusedByFlag) {
  EXPECT_TRUE(ReadPems(files_.Of("decode")).ok());
  const auto refused = [&](const std::string& break_it, const std::string& flag) {
    files_.Issue("decode", "decode", "decode-1");
    files_.Run("cp ca.pem whole && " + break_it);
    const absl::Status status = ReadPems(files_.Of("decode")).status();
    files_.Run("mv whole ca.pem");
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << break_it;
    EXPECT_EQ(std::string(status.message()).find(flag), 0u) << status;
  };
  refused("rm decode.pem", "--tls-cert");
  refused("head -c 300 decode.pem > half && mv half decode.pem", "--tls-cert");
  refused("cp decode.key decode.pem", "--tls-cert");
  refused("cp router.key decode.key", "--tls-key");
  refused("head -c 100 decode.key > half && mv half decode.key", "--tls-key");
  refused("cp decode.pem decode.key", "--tls-key");
  // The second certificate of a bundle is cut off.
  refused("head -c 300 whole >> ca.pem", "--tls-ca");
}

}  // namespace
}  // namespace baton
