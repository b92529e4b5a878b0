#include "router/edge/caller.h"

#include <gmock/gmock.h>

#include <set>

#include "common/base/status.h"
#include "router/edge/api_keys.h"
#include "tests/fakes/scratch_folder.h"

namespace baton {
namespace {

using ::testing::HasSubstr;

constexpr CallerRules kClear{}, kTrusting{.trust_header = true}, kTls{.tls = true},
    kTlsTrusting{.tls = true, .trust_header = true},
    kTlsOptional{.tls = true, .certificates = false},
    kTlsOptionalTrusting{.tls = true, .certificates = false, .trust_header = true};

CallerEvidence Evidence(std::vector<std::string> names, std::vector<std::string> requested) {
  const bool named = !names.empty();
  return {.peer = "ipv4:10.0.0.7:40112",
          .names = std::move(names),
          .requested = std::move(requested),
          .certificate = named};
}

std::string TenantOf(const CallerEvidence& evidence, const CallerRules& rules) {
  const auto caller = JudgeCaller(evidence, rules);
  EXPECT_TRUE(caller.ok()) << caller.status();
  return caller.ok() ? caller->tenant : "";
}

absl::Status Refusal(const CallerEvidence& evidence, const CallerRules& rules) {
  return JudgeCaller(evidence, rules).status();
}

TEST(CallerTest, WithoutAnyNameEverybodyIsTheDefaultTenantAndTakesTurnsByAddress) {
  const auto caller = JudgeCaller(Evidence({}, {}), kClear);
  ASSERT_TRUE(caller.ok());
  EXPECT_EQ(caller->tenant, "default");
  EXPECT_EQ(caller->client, "ipv4:10.0.0.7");
}

TEST(CallerTest, TheFirstNameOfTheCertificateIsTheTenant) {
  EXPECT_EQ(TenantOf(Evidence({"search", "search.example", "CN"}, {}), kTls), "search");
  EXPECT_EQ(JudgeCaller(Evidence({"search"}, {}), kTls)->client, "tenant:search");
}

TEST(CallerTest, TheNameOfTheKeyComesBeforeAllOthers) {
  const ScratchFolder folder;
  const auto keys = ApiKeyFile::Open(folder.Write("keys", "red:abc\n"));
  ASSERT_TRUE(keys.ok()) << keys.status();
  CallerRules rules = kTlsTrusting;
  rules.keys = keys->get();
  CallerEvidence evidence = Evidence({"c"}, {"a"});
  evidence.keys = {"Bearer abc"};
  EXPECT_EQ(TenantOf(evidence, rules), "red");
  EXPECT_EQ(JudgeCaller(evidence, rules)->client, "tenant:red");
  evidence.keys = {"Bearer abd"};
  EXPECT_EQ(Refusal(evidence, rules).code(), absl::StatusCode::kUnauthenticated);
  // A worker's certificate is no client's, whatever it knows.
  evidence = Evidence({"decode"}, {});
  evidence.keys = {"Bearer abc"};
  EXPECT_EQ(Refusal(evidence, rules).code(), absl::StatusCode::kPermissionDenied);
}

TEST(CallerTest, AHeaderCountsOnlyWhereItIsTrusted) {
  EXPECT_EQ(TenantOf(Evidence({}, {"a"}), kClear), "default");
  EXPECT_EQ(TenantOf(Evidence({"c"}, {"a"}), kTls), "c");
  EXPECT_EQ(TenantOf(Evidence({}, {"a"}), kTrusting), "a");
  EXPECT_EQ(TenantOf(Evidence({"c"}, {"a"}), kTlsTrusting), "a");
  EXPECT_EQ(TenantOf(Evidence({"c"}, {}), kTlsTrusting), "c");
  EXPECT_EQ(TenantOf(Evidence({}, {}), kTrusting), "default");
}

TEST(CallerTest, ARolesCertificateIsNoClientsWhateverElseItNames) {
  for (const char* role : {"router", "prefill", "decode"}) {
    for (const CallerRules& rules : {kTls, kTlsTrusting}) {
      const absl::Status refused = Refusal(Evidence({"search", role}, {"a"}), rules);
      EXPECT_EQ(refused.code(), absl::StatusCode::kPermissionDenied);
      EXPECT_THAT(std::string(refused.message()), HasSubstr(std::string("'") + role + "'"));
    }
  }
}

TEST(CallerTest, ACertificateWithoutANameThatATenantCanHaveIsRefused) {
  for (const std::vector<std::string>& names :
       {std::vector<std::string>{}, {"spiffe://cluster/search", "search"}, {"*.example"}}) {
    EXPECT_EQ(Refusal(Evidence(names, {}), kTls).code(), absl::StatusCode::kPermissionDenied);
    EXPECT_EQ(TenantOf(Evidence(names, {"a"}), kTlsTrusting), "a");
  }
}

TEST(CallerTest, WhereCertificatesAreOptionalOneThatIsShownCountsAsEver) {
  const auto nobody = JudgeCaller(Evidence({}, {}), kTlsOptional);
  ASSERT_TRUE(nobody.ok()) << nobody.status();
  EXPECT_EQ(nobody->tenant, "default");
  EXPECT_EQ(nobody->client, "ipv4:10.0.0.7");
  EXPECT_EQ(TenantOf(Evidence({"search"}, {}), kTlsOptional), "search");
  EXPECT_EQ(Refusal(Evidence({"router"}, {}), kTlsOptional).code(),
            absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(Refusal(Evidence({"*.example"}, {}), kTlsOptional).code(),
            absl::StatusCode::kPermissionDenied);
  CallerEvidence nameless = Evidence({}, {});
  nameless.certificate = true;
  EXPECT_EQ(Refusal(nameless, kTlsOptional).code(), absl::StatusCode::kPermissionDenied);
}

TEST(CallerTest, WhoShowsNoCertificateWhereOthersDoNamesNoTenant) {
  const absl::Status refused = Refusal(Evidence({}, {"team-red"}), kTlsOptionalTrusting);
  EXPECT_EQ(refused.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("without a certificate"));
  EXPECT_EQ(TenantOf(Evidence({}, {}), kTlsOptionalTrusting), "default");
  EXPECT_EQ(TenantOf(Evidence({"proxy"}, {"team-red"}), kTlsOptionalTrusting), "team-red");
}

TEST(CallerTest, AHeaderThatNamesNoTenantIsRefused) {
  const std::string longest(64, 'x');
  EXPECT_EQ(TenantOf(Evidence({}, {longest}), kTrusting), longest);
  for (const std::vector<std::string>& values :
       {std::vector<std::string>{""}, {"a b"}, {longest + "x"}, {"a", "a"}, {"router"}}) {
    const absl::Status refused = Refusal(Evidence({}, values), kTrusting);
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument) << values.front();
    EXPECT_EQ(DetailOf(refused).field, "baton-tenant");
  }
}

TEST(CallerTest, NoTwoPairsOfTenantAndSaltShareAPrefix) {
  const std::set<std::string> salts = {
      CacheSaltOf("a", ""),           CacheSaltOf("a", "b"),
      CacheSaltOf("ab", ""),          CacheSaltOf("b", "a"),
      CacheSaltOf("1", ":a"),         CacheSaltOf("1.", "a"),
      CacheSaltOf("default", ""),     CacheSaltOf(std::nullopt, ""),
      CacheSaltOf(std::nullopt, "a"), CacheSaltOf(std::nullopt, "1:a")};
  EXPECT_EQ(salts.size(), 10u);
  EXPECT_EQ(CacheSaltOf("a", std::string(256, 's')).size(), 64u);
  EXPECT_EQ(CacheSaltOf("a", "b"), CacheSaltOf("a", "b"));
}

}  // namespace
}  // namespace baton
