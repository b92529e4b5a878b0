// By which names the HTTP port may be asked.
#include <gmock/gmock.h>

#include <string>

#include "router/edge/api_keys.h"
#include "tests/fakes/raw_http.h"
#include "tests/fakes/scratch_folder.h"
#include "tests/router/router_fixture.h"

namespace baton::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class HostsTest : public RouterTest {
 protected:
  HostsTest() { http_options_.emplace(); }

  void StartWithHttp() {
    AddDecode();
    StartRouter();
    const std::string address = router_->http_address();
    port_ = std::stoi(address.substr(address.rfind(':') + 1));
  }
  // The answer to a page's request.
  std::string AskAs(const std::string& host, const std::string& fields = "") {
    RawHttp client(port_);
    client.Send("GET /v1/models HTTP/1.1\r\nHost: " + host + "\r\nOrigin: http://" + host +
                "\r\nConnection: close\r\n" + fields + "\r\n");
    return client.ReadAll();
  }

  int port_ = 0;
};

// A page can have its own name mean this machine, and is of the same origin then.
TEST_F(HostsTest, OnLoopbackWithoutKeysOnlyLocalNamesAreAnswered) {
  http_origins_ = {"https://chat.example.org:8443"};
  StartWithHttp();
  for (const char* host : {"127.0.0.1:8000", "[::1]:8000", "localhost", "LocalHost.:80",
                           "a.localhost:8000", "host.docker.internal:8000", "chat.example.org"}) {
    EXPECT_THAT(AskAs(host), HasSubstr(" 200 ")) << host;
  }
  for (const char* host : {"evil.example:8000", "localhost.evil.example", "127.0.0.1.evil.example",
                           "evillocalhost", "chat.example.org.evil.example"}) {
    EXPECT_THAT(AskAs(host), AllOf(HasSubstr(" 403 "), HasSubstr(std::string("'") + host + "'"),
                                   HasSubstr("--http-allow-origins"), HasSubstr("--api-keys")))
        << host;
  }
  RawHttp old(port_);
  old.Send("GET /v1/models HTTP/1.0\r\n\r\n");
  EXPECT_THAT(old.ReadAll(), HasSubstr(" 200 "));
}

TEST_F(HostsTest, WhereAnyPageMayAskAnyNameIsAnswered) {
  http_origins_ = {"*"};
  StartWithHttp();
  EXPECT_THAT(AskAs("evil.example"), HasSubstr(" 200 "));
}

TEST_F(HostsTest, KeysAreEnough) {
  const ScratchFolder folder;
  auto keys = ApiKeyFile::Open(folder.Write("keys", "red:abc\n"));
  ASSERT_TRUE(keys.ok()) << keys.status();
  keys_ = *std::move(keys);
  StartWithHttp();
  EXPECT_THAT(AskAs("baton.example.org", "Authorization: Bearer abc\r\n"), HasSubstr(" 200 "));
}

TEST_F(HostsTest, BeyondLoopbackAnyNameIsAnswered) {
  http_options_->host = "0.0.0.0";
  http_options_->insecure = true;
  StartWithHttp();
  EXPECT_THAT(AskAs("baton.example.org"), HasSubstr(" 200 "));
}

}  // namespace
}  // namespace baton::testing
