#include "tools/serve/reserved_port.h"

#include <cerrno>

#include "common/rpc/held_port.h"
#include "common/rpc/server.h"
#include "gtest/gtest.h"
#include "tests/fakes/bind_alone.h"

namespace baton {
namespace {

TEST(ReservedPortTest, AServerThatAsksForItGetsItInEveryLife) {
  auto reserved = ReservedPort::Reserve();
  ASSERT_TRUE(reserved.ok()) << reserved.status();
  for (const char* host : {"127.0.0.1", "0.0.0.0", "127.0.0.2"}) {
    for (int life = 0; life < 2; ++life) {
      auto held = HeldPort::Take(host, reserved->port());
      ASSERT_TRUE(held.ok()) << held.status();
      held->LetGo();
      const auto server =
          RpcServer::Start({.host = host, .port = reserved->port(), .insecure = true}, {});
      EXPECT_TRUE(server.ok()) << server.status();
    }
  }
}

TEST(ReservedPortTest, NobodyElseBindsItWhileTheServerIsAway) {
  const auto reserved = ReservedPort::Reserve();
  ASSERT_TRUE(reserved.ok()) << reserved.status();
  for (const in_addr_t host : {INADDR_LOOPBACK, INADDR_ANY}) {
    EXPECT_EQ(BindAlone(host, reserved->port()), EADDRINUSE);
  }
}

TEST(ReservedPortTest, NoTwoAreTheSame) {
  const auto one = ReservedPort::Reserve();
  const auto other = ReservedPort::Reserve();
  ASSERT_TRUE(one.ok() && other.ok());
  EXPECT_NE(one->port(), other->port());
}

}  // namespace
}  // namespace baton
