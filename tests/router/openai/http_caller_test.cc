#include "router/openai/http_caller.h"

#include <gtest/gtest.h>

#include "router/edge/client_key.h"

namespace baton {
namespace {

TEST(HttpCallerTest, AnAddressIsOneClientOverBothTransports) {
  const auto client = [](const std::string& peer) {
    HttpRequest request;
    request.peer = peer;
    return CallerOf(request, CallerRules{})->client;
  };
  EXPECT_EQ(client("10.0.0.7:51"), ClientKey("ipv4:10.0.0.7:40112"));
  EXPECT_EQ(client("[::1]:51"), ClientKey("ipv6:%5B::1%5D:40112"));
}

}  // namespace
}  // namespace baton
