#include "router/edge/origin_rules.h"

#include "gtest/gtest.h"

namespace baton {
namespace {

TEST(OriginRules, ThePageOnTheAdminPortMayAsk) {
  OriginRules rules({});
  EXPECT_FALSE(rules.Allows("http://localhost:8080", "localhost:8000"));
  rules.SetPagePort(8080);
  EXPECT_TRUE(rules.Allows("http://localhost:8080", "localhost:8000"));
  EXPECT_TRUE(rules.Allows("http://LOCALHOST:8080", "localhost"));
  EXPECT_TRUE(rules.Allows("http://[::1]:8080", "[::1]:8000"));
  EXPECT_FALSE(rules.Allows("http://evil:8080", "localhost:8000"));
  EXPECT_FALSE(rules.Allows("http://localhost:8081", "localhost:8000"));
  EXPECT_FALSE(rules.Allows("https://localhost:8080", "localhost:8000"));
  EXPECT_FALSE(rules.Allows("null", "localhost:8000"));
  rules.SetPagePort(80);
  EXPECT_TRUE(rules.Allows("http://baton.example", "baton.example:8000"));
}

TEST(OriginRules, ListedPagesMayAsk) {
  const OriginRules rules({"https://chat.example.org"});
  EXPECT_TRUE(rules.Allows("https://chat.example.org", "api"));
  EXPECT_FALSE(rules.Allows("https://chat.example.org.evil", "api"));
  EXPECT_TRUE(OriginRules({"*"}).Allows("https://anybody", "api"));
}

TEST(OriginRules, TheHostOfAListedPageIsListed) {
  const OriginRules rules({"https://chat.example.org:8443", "http://[fd00::1]"});
  EXPECT_TRUE(rules.Lists("CHAT.example.org:8000"));
  EXPECT_TRUE(rules.Lists("[fd00::1]:8000"));
  EXPECT_FALSE(rules.Lists("example.org"));
  EXPECT_FALSE(rules.Lists("chat.example.org.evil"));
  EXPECT_FALSE(OriginRules({}).Lists(""));
  EXPECT_TRUE(OriginRules({"*"}).Lists("anybody"));
}

}  // namespace
}  // namespace baton
