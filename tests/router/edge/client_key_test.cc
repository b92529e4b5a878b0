#include "router/edge/client_key.h"

#include <gtest/gtest.h>

namespace baton {
namespace {

TEST(ClientKey, IsTheAddressWithoutItsPort) {
  EXPECT_EQ(ClientKey("ipv4:10.0.0.7:40112"), "ipv4:10.0.0.7");
  EXPECT_EQ(ClientKey("ipv4:10.0.0.7:40112"), ClientKey("ipv4:10.0.0.7:51"));
  EXPECT_NE(ClientKey("ipv4:10.0.0.7:40112"), ClientKey("ipv4:10.0.0.8:40112"));
  EXPECT_EQ(ClientKey("ipv6:%5B::1%5D:40112"), "ipv6:%5B::1%5D");
  EXPECT_EQ(ClientKey("ipv6:[::1]:40112"), "ipv6:[::1]");
}

TEST(ClientKey, OtherPeersStandAsTheyAre) {
  EXPECT_EQ(ClientKey("unix:/run/baton.sock"), "unix:/run/baton.sock");
  EXPECT_EQ(ClientKey(""), "");
}

}  // namespace
}  // namespace baton
