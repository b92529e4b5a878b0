#include "tools/serve/reserved_port.h"

#include "common/rpc/held_port.h"
#include "common/rpc/server.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

TEST(ReservedPortTest, AServerThatAsksForItGetsItInEveryLife) {
  auto reserved = ReservedPort::Reserve();
  ASSERT_TRUE(reserved.ok()) << reserved.status();
  for (int life = 0; life < 2; ++life) {
    auto held = HeldPort::Take("127.0.0.1", reserved->port());
    ASSERT_TRUE(held.ok()) << held.status();
    held->LetGo();
    const auto server = RpcServer::Start({.port = reserved->port()}, {});
    EXPECT_TRUE(server.ok()) << server.status();
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
