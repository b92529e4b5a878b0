// What a process finds wrong with its own certificate before it serves.
#include "common/rpc/own_certificate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/fakes/tls_files.h"

namespace baton {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class OwnCertificateTest : public testing::Test {
 protected:
  // What is wrong with a certificate of these names for the roles; "" if nothing is.
  std::string Roles(const std::string& names, const std::string& common_name,
                    const std::vector<std::string_view>& roles) {
    files_.Issue("own", names, common_name);
    return MessageOf(CheckOwnRoles(files_.Of("own"), roles));
  }
  static std::string MessageOf(const absl::Status& status) {
    EXPECT_TRUE(status.ok() || status.code() == absl::StatusCode::kInvalidArgument) << status;
    return std::string(status.message());
  }

  TlsFiles files_;
};

TEST_F(OwnCertificateTest, ACertificateThatNamesItsRolesIsFine) {
  EXPECT_EQ(Roles("router", "r", {"router"}), "");
  EXPECT_EQ(Roles("router,DNS:prefill,DNS:decode", "all", {"router", "prefill", "decode"}), "");
  EXPECT_TRUE(CheckOwnAuthority(files_.Of("own")).ok());
  EXPECT_TRUE(CheckOwnRoles({}, {"router"}).ok()) << "without TLS";
  EXPECT_TRUE(CheckOwnAuthority({}).ok());
}

TEST_F(OwnCertificateTest, AnOrdinaryServersCertificateLacksTheRole) {
  EXPECT_THAT(Roles("localhost,IP:127.0.0.1", "web", {"decode"}),
              AllOf(HasSubstr(files_.path("own.pem")),
                    HasSubstr("names 'localhost', '127.0.0.1' and 'web' as its common name"),
                    HasSubstr("not the role 'decode'"), HasSubstr("; issue"),
                    HasSubstr("DNS:decode"), HasSubstr("docs/tls.md")));
  EXPECT_THAT(Roles("localhost,DNS:router", "web", {"router", "prefill", "decode"}),
              AllOf(HasSubstr("not the roles 'prefill', 'decode'"),
                    HasSubstr("DNS:prefill,DNS:decode "), Not(HasSubstr("DNS:router"))));
}

TEST_F(OwnCertificateTest, ACommonNameCountsWherePeersLookAtIt) {
  // Whoever calls a process looks for a DNS name, and at the common name if there is none; clients
  // without certificates, if there is no other name at all.
  for (const std::string role : {"decode", "router"}) {
    EXPECT_THAT(Roles("example.org", role, {role}), HasSubstr("not the role '" + role + "'"));
  }
  const auto self_signed = [&](const std::string& role, const std::string& more) {
    files_.Run(
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=" +
        role + more + " -keyout own.key -out own.pem");
    return MessageOf(CheckOwnRoles(files_.Of("own"), {role}));
  };
  EXPECT_EQ(self_signed("decode", ""), "");
  EXPECT_EQ(self_signed("decode", " -addext subjectAltName=IP:127.0.0.1"), "");
  EXPECT_EQ(self_signed("router", ""), "");
  EXPECT_THAT(self_signed("router", " -addext subjectAltName=IP:127.0.0.1"),
              HasSubstr("not the role 'router'"));
}

TEST_F(OwnCertificateTest, ACertificateForServersOnlyCannotCall) {
  const std::string server_only = "\nextendedKeyUsage=serverAuth";
  EXPECT_EQ(Roles("decode" + server_only, "d", {"decode"}), "");
  EXPECT_THAT(Roles("prefill" + server_only, "p", {"prefill"}),
              AllOf(HasSubstr("as clientAuth"), HasSubstr("; issue")));
  EXPECT_EQ(Roles("prefill" + server_only + ",clientAuth", "p", {"prefill"}), "");
  EXPECT_THAT(Roles("decode\nextendedKeyUsage=clientAuth", "d", {"decode"}),
              HasSubstr("as serverAuth"));
}

TEST_F(OwnCertificateTest, FilesThatCannotServeAreRefusedToo) {
  files_.Issue("own", "router", "r");
  files_.Run("rm own.key");
  EXPECT_THAT(MessageOf(CheckOwnRoles(files_.Of("own"), {"router"})), HasSubstr("--tls-key"));
}

TEST_F(OwnCertificateTest, AnotherAuthorityAndAnEndedLifeAreRefused) {
  files_.Issue("own", "router", "r");
  TlsFiles others;
  TlsOptions mixed = files_.Of("own");
  mixed.ca_file = others.path("ca.pem");
  EXPECT_THAT(MessageOf(CheckOwnAuthority(mixed)),
              AllOf(HasSubstr(mixed.ca_file), HasSubstr("does not vouch"), HasSubstr("issuer")));
  files_.Run(
      "openssl x509 -req -days -1 -in new.csr -CA ca.pem -CAkey ca.key -CAcreateserial -out "
      "own.pem");
  EXPECT_THAT(MessageOf(CheckOwnAuthority(files_.Of("own"))), HasSubstr("expired"));
}

TEST_F(OwnCertificateTest, AChainOverAnAuthorityBetweenIsBelieved) {
  files_.Issue("between", "between\nbasicConstraints=critical,CA:TRUE", "between");
  files_.Run(
      "openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=router -keyout "
      "own.key -out own.csr && openssl x509 -req -days 2 -in own.csr -CA between.pem -CAkey "
      "between.key -CAcreateserial -out leaf.pem && cat leaf.pem between.pem > own.pem");
  EXPECT_EQ(MessageOf(CheckOwnAuthority(files_.Of("own"))), "");
  files_.Run("cp leaf.pem own.pem");
  EXPECT_THAT(MessageOf(CheckOwnAuthority(files_.Of("own"))), HasSubstr("issuer"));
  TlsOptions between_alone = files_.Of("own");
  between_alone.ca_file = files_.path("between.pem");
  EXPECT_EQ(MessageOf(CheckOwnAuthority(between_alone)), "") << "gRPC believes it, too";
}

}  // namespace
}  // namespace baton
