#include "common/http/local_host.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

TEST(LocalHost, NamesThatNoPageElsewhereCanHave) {
  for (const char* host :
       {"127.0.0.1", "127.0.0.1:8000", "10.1.2.3", "[::1]", "[::1]:8000", "localhost",
        "LOCALHOST:1", "localhost.", "a.localhost:8000", "host.docker.internal:8000", ""}) {
    EXPECT_TRUE(IsLocalHostName(host)) << host;
  }
  for (const char* host :
       {"evil.example", "evil.example:8000", "localhost.evil.example", "127.0.0.1.evil.example",
        "notlocalhost", "internal", "ai", "[evil]:80", "evil.example:127.0.0.1"}) {
    EXPECT_FALSE(IsLocalHostName(host)) << host;
  }
}

TEST(LocalHost, ARefusalShowsTheNameAndNoControlCharacters) {
  EXPECT_THAT(
      HostRefusal("a\x01", ", or not"),
      ::testing::AllOf(::testing::HasSubstr("'a\\x01'"), ::testing::EndsWith("localhost, or not")));
  EXPECT_LT(HostRefusal(std::string(5000, 'x'), "").size(), 300u);
}

}  // namespace
}  // namespace baton
