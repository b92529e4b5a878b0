#include "common/config/http_url.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

TEST(ParseHttpUrl, IsAnOriginAndAPath) {
  const auto parts = [](const char* url) {
    const auto parsed = ParseHttpUrl(url);
    return parsed.ok() ? parsed->origin + " " + parsed->path : parsed.status().ToString();
  };
  EXPECT_EQ(parts("http://collector:4318"), "http://collector:4318 ");
  EXPECT_EQ(parts("http://collector:4318/"), "http://collector:4318 ");
  EXPECT_EQ(parts("https://otlp.example.org/v1/traces"), "https://otlp.example.org /v1/traces");
  EXPECT_EQ(parts("http://127.0.0.1/a/b"), "http://127.0.0.1 /a/b");
  EXPECT_EQ(parts("http://[::1]:4318"), "http://[::1]:4318 ");
  EXPECT_EQ(parts("http://[fe80::1]/x"), "http://[fe80::1] /x");
}

TEST(AddressOf, IsWhomTheOriginNames) {
  const auto parts = [](const char* origin) {
    const HttpAddress address = AddressOf(origin);
    return (address.tls ? "tls " : "") + address.host + " " + std::to_string(address.port);
  };
  EXPECT_EQ(parts("http://collector:4318"), "collector 4318");
  EXPECT_EQ(parts("http://collector"), "collector 80");
  EXPECT_EQ(parts("https://otlp.example.org"), "tls otlp.example.org 443");
  EXPECT_EQ(parts("https://127.0.0.1:1"), "tls 127.0.0.1 1");
  EXPECT_EQ(parts("http://[fd00::2]:4318"), "fd00::2 4318");
  EXPECT_EQ(parts("http://[::1]"), "::1 80");
}

TEST(ParseHttpUrl, AnythingElseIsRefusedWithWhatWasFound) {
  for (const char* wrong : {"",
                            "collector:4318",
                            "grpc://collector:4317",
                            "HTTP://collector",
                            "http://",
                            "http:///x",
                            "http://:4318",
                            "http://collector:",
                            "http://collector:0",
                            "http://collector:65536",
                            "http://collector:4318x",
                            "http://user:word@collector",
                            "http://a b",
                            "http://a/b c",
                            "http://a/b?c",
                            "http://a/b#c",
                            "http://a?b",
                            "http://::1:4318",
                            "http://[::1",
                            "http://[]",
                            "http://[x]:1",
                            "http://a/\xc3\xa4"}) {
    const auto parsed = ParseHttpUrl(wrong);
    ASSERT_FALSE(parsed.ok()) << wrong;
    EXPECT_THAT(std::string(parsed.status().message()),
                testing::HasSubstr("found '" + std::string(wrong) + "', expected http://"));
  }
}

}  // namespace
}  // namespace baton
