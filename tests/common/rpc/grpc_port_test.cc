// A gRPC port while the process runs out of files.
#include "common/rpc/grpc_port.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <string>
#include <vector>

#include "common/rpc/channel.h"
#include "common/rpc/descriptors.h"
#include "common/rpc/held_port.h"
#include "common/rpc/server.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "grpcpp/grpcpp.h"
#include "tests/fakes/eventually.h"
#include "tests/fakes/log_text.h"

namespace baton {
namespace {

constexpr size_t kFiles = 256;
// Numbers from here on are the test's own; a limit that is lowered leaves open what is beyond it.
constexpr int kFirstOwn = 1000;

// A lower limit of open files during its life.
class LowLimit final {
 public:
  LowLimit() {
    EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &before_), 0);
    const rlimit low{.rlim_cur = kFiles, .rlim_max = before_.rlim_max};
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  }
  ~LowLimit() { EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &before_), 0); }
  LowLimit(const LowLimit&) = delete;
  LowLimit& operator=(const LowLimit&) = delete;

 private:
  rlimit before_{};
};

// Clients that connect and say nothing. To be made before the limit is lowered.
class IdleClients final {
 public:
  explicit IdleClients(int count) {
    RaiseDescriptorLimit();
    for (int i = 0; i < count; ++i) {
      const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
      sockets_.push_back(fcntl(fd, F_DUPFD_CLOEXEC, kFirstOwn));
      close(fd);
      EXPECT_GE(sockets_.back(), kFirstOwn) << "the hard limit of open files is too low";
    }
  }
  ~IdleClients() { Close(); }
  IdleClients(const IdleClients&) = delete;
  IdleClients& operator=(const IdleClients&) = delete;

  void Connect(int port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    for (const int fd : sockets_) {
      EXPECT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0) << errno;
    }
  }
  // How many the server has closed.
  int64_t closed() const {
    return std::ranges::count_if(sockets_, [](int fd) {
      char bytes[4096];
      ssize_t got = 0;
      // What the server says first is no end.
      while ((got = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT)) > 0) {
      }
      return got == 0 || errno == ECONNRESET;
    });
  }
  void Close() {
    for (const int fd : sockets_) close(fd);
    sockets_.clear();
  }

 private:
  std::vector<int> sockets_;
};

// Every file that this process may still open.
class AllFiles final {
 public:
  AllFiles() {
    int fd = -1;
    while ((fd = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0) files_.push_back(fd);
    EXPECT_EQ(errno, EMFILE);
  }
  ~AllFiles() {
    for (const int fd : files_) close(fd);
  }
  AllFiles(const AllFiles&) = delete;
  AllFiles& operator=(const AllFiles&) = delete;

 private:
  std::vector<int> files_;
};

grpc::StatusCode AskHealth(const std::shared_ptr<grpc::Channel>& channel) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(10));
  grpc::health::v1::HealthCheckResponse response;
  return grpc::health::v1::Health::NewStub(channel)->Check(&context, {}, &response).error_code();
}

// Over a connection of its own.
grpc::StatusCode AskHealthAnew(const std::string& address) {
  return AskHealth(*MakeChannel(address, {}));
}

int64_t LinesWith(const LogText& log, const std::string& words) {
  const std::string text = log.str();
  int64_t count = 0;
  for (size_t at = text.find(words); at != text.npos; at = text.find(words, at + 1)) ++count;
  return count;
}

TEST(GrpcPortTest, IdleConnectionsDoNotTakeTheLastFiles) {
  const LogText log;
  auto server = *RpcServer::Start({}, {});
  const auto warm = *MakeChannel(server->address(), {});
  ASSERT_EQ(AskHealth(warm), grpc::StatusCode::OK);
  constexpr int kClients = 300;
  IdleClients idle(kClients);
  const LowLimit low;
  idle.Connect(server->port());
  const auto most = static_cast<int64_t>(kFiles - 2 * FilesKept(kFiles));
  ASSERT_TRUE(Eventually([&] { return kClients - idle.closed() < most; }));
  EXPECT_GT(kClients - idle.closed(), most / 2) << "no more is closed than has to be";
  EXPECT_EQ(AskHealth(warm), grpc::StatusCode::OK);
  EXPECT_EQ(AskHealthAnew(server->address()), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(LinesWith(log, "connections to --port are closed"), 1) << log.str();
  idle.Close();
  EXPECT_TRUE(Eventually([&] { return AskHealthAnew(server->address()) == grpc::StatusCode::OK; }));
}

TEST(GrpcPortTest, ConnectionsWaitWhileNoFileMayBeOpened) {
  const LogText log;
  auto server = *RpcServer::Start({}, {});
  const auto warm = *MakeChannel(server->address(), {});
  ASSERT_EQ(AskHealth(warm), grpc::StatusCode::OK);
  IdleClients idle(20);
  const LowLimit low;
  {
    const AllFiles taken;
    idle.Connect(server->port());
    ASSERT_TRUE(Eventually([&] { return LinesWith(log, "connections to --port wait") > 0; }));
    EXPECT_EQ(AskHealth(warm), grpc::StatusCode::OK);
  }
  EXPECT_EQ(AskHealthAnew(server->address()), grpc::StatusCode::OK);
  EXPECT_EQ(idle.closed(), 0);
  EXPECT_EQ(LinesWith(log, "connections to --port wait"), 1) << log.str();
}

TEST(GrpcPortTest, ShutdownEndsInTimeWithIdleConnectionsAndRefusesNewOnes) {
  auto server = *RpcServer::Start({}, {});
  const std::string address = server->address();
  IdleClients idle(20);
  idle.Connect(server->port());
  ASSERT_EQ(AskHealthAnew(address), grpc::StatusCode::OK);
  server->BeginShutdown();
  EXPECT_EQ(AskHealthAnew(address), grpc::StatusCode::UNAVAILABLE);
  const auto begin = std::chrono::steady_clock::now();
  server->Shutdown(std::chrono::milliseconds(100));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
  EXPECT_TRUE(Eventually([&] { return idle.closed() == 20; }));
}

TEST(GrpcPortTest, AllAddressesOfIpv4AreThoseOfIpv6WhereThereAreSuch) {
  for (const std::string host : {"0.0.0.0", "::"}) {
    const bool ipv6 = HeldPort::Take("::1", 0).ok();
    if (host == "::" && !ipv6) continue;
    auto server = *RpcServer::Start({.host = host, .insecure = true}, {});
    const std::string port = std::to_string(server->port());
    EXPECT_EQ(AskHealthAnew("127.0.0.1:" + port), grpc::StatusCode::OK) << host;
    EXPECT_EQ(AskHealthAnew("[::1]:" + port) == grpc::StatusCode::OK, ipv6) << host;
  }
}

}  // namespace
}  // namespace baton
