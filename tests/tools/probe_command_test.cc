#include <arpa/inet.h>
#include <sys/socket.h>

#include <thread>

#include "common/rpc/server.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tools/client/no_server.h"
#include "tools/commands.h"
#include "tools/serve/child_process.h"

namespace baton {
namespace {

using ::testing::HasSubstr;

int Probe(const Arguments& arguments, std::string* out) {
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  const int exit = ProbeCommand({arguments});
  *out = ::testing::internal::GetCapturedStdout() + ::testing::internal::GetCapturedStderr();
  return exit;
}

TEST(ProbeCommand, TellsWhetherAServerServes) {
  auto server = RpcServer::Start({}, {});
  ASSERT_TRUE(server.ok()) << server.status();
  std::string out;
  (*server)->SetServing({"a.B"}, false);
  EXPECT_EQ(Probe({(*server)->address()}, &out), 1);
  EXPECT_EQ(out, "NOT_SERVING\n");
  (*server)->SetServing({"a.B"}, true);
  EXPECT_EQ(Probe({(*server)->address()}, &out), 0);
  EXPECT_EQ(out, "SERVING\n");
  EXPECT_EQ(Probe({(*server)->address(), "--service", "a.B"}, &out), 0);
  EXPECT_EQ(Probe({(*server)->address(), "--service", "no.Such"}, &out), 1);
  EXPECT_THAT(out, HasSubstr("there is no service 'no.Such' there. Try: --service baton.v1."));
}

TEST(ProbeCommand, NobodyThereExits1) {
  std::string out;
  EXPECT_EQ(Probe({"127.0.0.1:1", "--timeout", "2s"}, &out), 1);
  EXPECT_THAT(out, HasSubstr("cannot probe 127.0.0.1:1"));
  EXPECT_THAT(out, HasSubstr("or name another as ADDR"));
}

// As a server with TLS does to whoever speaks none.
TEST(ProbeCommand, WhoClosesTheConnectionMayWantTls) {
  const UniqueFd listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in where = {.sin_family = AF_INET, .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
  socklen_t size = sizeof(where);
  auto* const address = reinterpret_cast<sockaddr*>(&where);
  ASSERT_EQ(bind(listener.get(), address, size), 0);
  ASSERT_EQ(listen(listener.get(), 8), 0);
  ASSERT_EQ(getsockname(listener.get(), address, &size), 0);
  std::thread closer([&listener] {
    while (true) {
      const UniqueFd caller(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (caller.get() < 0) return;
    }
  });
  std::string out;
  EXPECT_EQ(Probe({"127.0.0.1:" + std::to_string(ntohs(where.sin_port))}, &out), 1);
  shutdown(listener.get(), SHUT_RDWR);
  closer.join();
  EXPECT_THAT(out, HasSubstr("if it is a server with TLS, give --tls-ca"));
}

// gRPC's words where the certificate names another role than the caller expects.
TEST(ExplainNoServer, OfAnotherRoleSaysHowToNameIt) {
  const auto explained = [](const AddressWords& words) {
    const absl::Status status = absl::UnavailableError(
        "failed to connect to all addresses; last error: UNKNOWN: ipv4:127.0.0.1:5: Hostname "
        "Verification Check failed.");
    return std::string(ExplainNoServer(status, "127.0.0.1:5", words).message());
  };
  EXPECT_THAT(explained({}), HasSubstr("its certificate names another role; name a router"));
  EXPECT_THAT(explained({.named_by = "as ADDR", .other_role = "--tls-role NAME"}),
              ::testing::EndsWith("its certificate names another role; --tls-role NAME"));
}

TEST(ProbeCommand, WrongUsageExits2) {
  std::string out;
  EXPECT_EQ(Probe({}, &out), 2);
  EXPECT_EQ(Probe({"a", "b"}, &out), 2);
  EXPECT_EQ(Probe({"nosuch"}, &out), 2);
  EXPECT_THAT(out, HasSubstr("found 'nosuch', expected host:port"));
}

}  // namespace
}  // namespace baton
