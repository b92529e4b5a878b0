#include <memory>
#include <string>
#include <utility>

#include "common/http/http_server.h"
#include "curl/curl.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/eventually.h"
#include "tests/fakes/raw_http.h"
#include "tests/fakes/tls_files.h"

namespace baton {
namespace {

using ::testing::HasSubstr;

class HttpTlsTest : public testing::Test {
 protected:
  HttpTlsTest() {
    files_.Issue("router", "router,IP:127.0.0.1,DNS:localhost", "r1");
    files_.Issue("client", "team-red", "somebody");
  }
  void Start(bool demand, HttpLimits limits = {}) {
    TlsOptions tls = files_.Of("router");
    tls.reload_every = std::chrono::milliseconds(20);
    auto server = HttpServer::Start(
        {.tls = tls, .client_certificates = demand, .limits = limits, .clock = &clock_},
        [](std::shared_ptr<HttpExchange> exchange) {
          std::string names = exchange->request().has_certificate ? "shown" : "none";
          for (const std::string& name : exchange->request().certificate_names) names += " " + name;
          exchange->Reply({.status = 200, .body = names + exchange->request().body + "\n"});
        });
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  // What the server answers to a client with this certificate, "" for none; "failed" when the
  // connection does not come about.
  std::string Ask(const std::string& certificate, const std::string& body = "") {
    std::string answer;
    const std::unique_ptr<CURL, void (*)(CURL*)> curl(curl_easy_init(), curl_easy_cleanup);
    const std::string url = "https://localhost:" + std::to_string(server_->port()) + "/x";
    curl_easy_setopt(curl.get(), CURLOPT_URL, url.c_str());
    curl_easy_setopt(curl.get(), CURLOPT_CAINFO, files_.path("ca.pem").c_str());
    curl_easy_setopt(curl.get(), CURLOPT_TIMEOUT, 20L);
    curl_easy_setopt(curl.get(), CURLOPT_CERTINFO, 1L);
    if (!certificate.empty()) {
      curl_easy_setopt(curl.get(), CURLOPT_SSLCERT, (certificate + ".pem").c_str());
      curl_easy_setopt(curl.get(), CURLOPT_SSLKEY, (certificate + ".key").c_str());
    }
    if (!body.empty()) {
      curl_easy_setopt(curl.get(), CURLOPT_POSTFIELDSIZE, static_cast<long>(body.size()));
      curl_easy_setopt(curl.get(), CURLOPT_POSTFIELDS, body.data());
    }
    curl_easy_setopt(curl.get(), CURLOPT_WRITEDATA, &answer);
    curl_easy_setopt(
        curl.get(), CURLOPT_WRITEFUNCTION, +[](char* data, size_t, size_t bytes, void* out) {
          static_cast<std::string*>(out)->append(data, bytes);
          return bytes;
        });
    if (curl_easy_perform(curl.get()) != CURLE_OK) return "failed";
    curl_certinfo* shown = nullptr;
    curl_easy_getinfo(curl.get(), CURLINFO_CERTINFO, &shown);
    const auto* const first = shown->num_of_certs > 0 ? shown->certinfo[0] : nullptr;
    subject_ = first != nullptr ? first->data : "";
    return answer;
  }

  base::SteadyClock clock_;
  TlsFiles files_;
  std::unique_ptr<HttpServer> server_;
  std::string subject_;  // of the server's certificate that was shown last
};

TEST_F(HttpTlsTest, NamesTheClientByItsCertificate) {
  Start(true);
  EXPECT_EQ(Ask(files_.path("client")), "shown team-red somebody\n");
  EXPECT_EQ(Ask(""), "failed");
}

TEST_F(HttpTlsTest, TakesClientsWithoutCertificatesWhereNoneIsDemanded) {
  Start(false);
  EXPECT_EQ(Ask(""), "none\n");
  EXPECT_EQ(Ask(files_.path("client")), "shown team-red somebody\n");
  TlsFiles others;
  others.Issue("client", "team-red", "stranger");
  EXPECT_EQ(Ask(others.path("client")), "failed");
}

TEST_F(HttpTlsTest, ReadsBodiesLargerThanARecord) {
  Start(false);
  const std::string body(300'000, 'x');
  EXPECT_EQ(Ask("", body), "none" + body + "\n");
}

TEST_F(HttpTlsTest, ServesACertificateThatWasReplaced) {
  Start(false);
  EXPECT_EQ(Ask(""), "none\n");
  files_.Issue("router", "router,IP:127.0.0.1,DNS:localhost", "r2");
  EXPECT_THAT(subject_, HasSubstr("r1"));
  // Each request of the meantime is answered.
  EXPECT_TRUE(Eventually([&] {
    EXPECT_EQ(Ask(""), "none\n");
    return subject_.find("r2") != std::string::npos;
  }));
  // Half of one serves nobody, and the last whole one stays.
  files_.Run("head -c 100 router.pem >cut && mv cut router.pem");
  EXPECT_EQ(Ask(""), "none\n");
}

TEST_F(HttpTlsTest, WhoDoesNotShakeHandsGivesWay) {
  Start(false, {.connections = 2});
  const RawHttp one(server_->port()), two(server_->port());
  ASSERT_TRUE(Eventually([&] { return server_->counts().connections_open == 2; }));
  EXPECT_EQ(Ask(""), "none\n");
  EXPECT_EQ(Ask(""), "none\n");
  EXPECT_EQ(server_->counts().connections_refused, 0);
}

TEST_F(HttpTlsTest, PlainTextIsCutOff) {
  Start(false);
  RawHttp client(server_->port());
  client.Send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
  client.ReadAll();  // an alert of TLS at most
  EXPECT_TRUE(Eventually([&] { return server_->counts().connections_open == 0; }));
}

TEST_F(HttpTlsTest, FilesThatCannotServeAreRefused) {
  TlsOptions tls = files_.Of("router");
  tls.key_file = files_.path("client.key");
  const auto server = HttpServer::Start({.tls = tls, .clock = &clock_}, [](const auto&) {});
  ASSERT_FALSE(server.ok());
  EXPECT_THAT(std::string(server.status().message()), HasSubstr("--tls-key"));
}

}  // namespace
}  // namespace baton
