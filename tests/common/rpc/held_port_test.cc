#include "common/rpc/held_port.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

#include "common/rpc/server.h"

namespace baton {
namespace {

sockaddr_in Loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

// A port of loopback that was free a moment ago.
int FreePort() {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = Loopback(0);
  socklen_t size = sizeof(address);
  auto* const plain = reinterpret_cast<sockaddr*>(&address);
  EXPECT_EQ(bind(fd, plain, size), 0);
  EXPECT_EQ(getsockname(fd, plain, &size), 0);
  close(fd);
  return ntohs(address.sin_port);
}

// The error of a connection to the port, or 0.
int ErrorOfConnecting(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = Loopback(port);
  const int error =
      connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0 ? 0 : errno;
  close(fd);
  return error;
}

TEST(HeldPortTest, KeepsOthersAwayUntilItIsLetGo) {
  const int port = FreePort();
  auto held = HeldPort::Take("127.0.0.1", port);
  ASSERT_TRUE(held.ok()) << held.status();
  EXPECT_EQ(HeldPort::Take("127.0.0.1", port).status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(HeldPort::Take("0.0.0.0", port).status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(RpcServer::Start({.port = port}, {}).status().code(), absl::StatusCode::kAlreadyExists);
  held->LetGo();
  const auto server = RpcServer::Start({.port = port}, {});
  EXPECT_TRUE(server.ok()) << server.status();
}

// Whoever connected would wait for an answer until the load is over.
TEST(HeldPortTest, RefusesConnections) {
  const int port = FreePort();
  const auto held = HeldPort::Take("127.0.0.1", port);
  ASSERT_TRUE(held.ok()) << held.status();
  EXPECT_EQ(ErrorOfConnecting(port), ECONNREFUSED);
}

TEST(HeldPortTest, LetsGoAtItsEnd) {
  const int port = FreePort();
  ASSERT_TRUE(HeldPort::Take("127.0.0.1", port).ok());
  EXPECT_TRUE(HeldPort::Take("127.0.0.1", port).ok());
}

TEST(HeldPortTest, AnyFreePortOnlyNeedsAnAddressOfThisMachine) {
  EXPECT_TRUE(HeldPort::Take("127.0.0.1", 0).ok());
  EXPECT_TRUE(HeldPort::Take("localhost", 0).ok());
  // An address kept for documentation.
  EXPECT_EQ(HeldPort::Take("192.0.2.1", 0).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(HeldPort::Take("no.such.host.invalid", 0).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace baton
