#include "router/edge/client_key.h"

#include <gtest/gtest.h>

namespace baton {
namespace {

TEST(ClientKey, IsTheAddressWithoutItsPort) {
  EXPECT_EQ(ClientKey("ipv4:10.0.0.7:40112"), "ipv4:10.0.0.7");
  EXPECT_EQ(ClientKey("ipv4:10.0.0.7:40112"), ClientKey("ipv4:10.0.0.7:51"));
  EXPECT_NE(ClientKey("ipv4:10.0.0.7:40112"), ClientKey("ipv4:10.0.0.8:40112"));
}

TEST(ClientKey, IsTheNetworkOfAnIpv6Address) {
  EXPECT_EQ(ClientKey("ipv6:[2001:db8:1:2::1]:40112"), "ipv6:[2001:db8:1:2::/64]");
  EXPECT_EQ(ClientKey("ipv6:[2001:db8:1:2:3:4:5:6]:40112"), "ipv6:[2001:db8:1:2::/64]");
  EXPECT_NE(ClientKey("ipv6:[2001:db8:1:3::1]:40112"), ClientKey("ipv6:[2001:db8:1:2::1]:40112"));
  EXPECT_EQ(ClientKey("ipv6:%5B::1%5D:40112"), ClientKey("ipv6:[::1]:51"));
}

TEST(ClientKey, HostsOfOneLinkOrOfIpv4AreNotOneClient) {
  EXPECT_EQ(ClientKey("ipv6:[::ffff:10.0.0.7]:40112"), "ipv4:10.0.0.7");
  EXPECT_NE(ClientKey("ipv6:[fe80::1]:40112"), ClientKey("ipv6:[fe80::2]:40112"));
  EXPECT_NE(ClientKey("ipv6:[fe80::1%25eth0]:40112"), ClientKey("ipv6:[fe80::2%25eth0]:40112"));
}

TEST(ClientKey, OtherPeersStandAsTheyAre) {
  EXPECT_EQ(ClientKey("unix:/run/baton.sock"), "unix:/run/baton.sock");
  EXPECT_EQ(ClientKey(""), "");
}

}  // namespace
}  // namespace baton
