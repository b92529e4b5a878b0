// Whose a call is, and what follows from it.
#include <gmock/gmock.h>

#include "common/rpc/channel.h"
#include "common/rpc/status_map.h"
#include "tests/fakes/tls_files.h"
#include "tests/router/router_fixture.h"

namespace baton::testing {
namespace {

using ::testing::HasSubstr;

class TenantTest : public RouterTest {
 protected:
  Answer GenerateAs(const std::string& tenant, const v1::GenerateRequest& request) {
    grpc::ClientContext context;
    context.AddMetadata("baton-tenant", tenant);
    return Generate(request, &context);
  }
  // The salt with which the worker got the last request.
  std::string LastSalt() const { return decode_[0]->seen().back().cache_salt(); }
  std::string SaltOf(const std::string& tenant, const std::string& given = "") {
    v1::GenerateRequest request = Request("hello", 3);
    request.mutable_spec()->set_cache_salt(given);
    EXPECT_TRUE(GenerateAs(tenant, request).status.ok());
    return LastSalt();
  }
};

TEST_F(TenantTest, TenantsDoNotFindEachOthersPrefixes) {
  options_.trust_tenant_header = true;
  AddDecode();
  StartRouter();
  const std::string salt = SaltOf("a");
  EXPECT_EQ(SaltOf("a"), salt);
  EXPECT_NE(SaltOf("a", "own"), salt);
  EXPECT_NE(SaltOf("b"), salt);
  EXPECT_NE(SaltOf("b", salt), salt) << "a salt that is known does not open another's cache";
}

TEST_F(TenantTest, SharingIsSwitchedOnAndKeepsSaltsApart) {
  options_.trust_tenant_header = true;
  options_.share_prefix_cache = true;
  AddDecode();
  StartRouter();
  EXPECT_EQ(SaltOf("a"), SaltOf("b"));
  EXPECT_EQ(SaltOf("a", "own"), SaltOf("b", "own"));
  EXPECT_NE(SaltOf("a", "own"), SaltOf("a"));
}

TEST_F(TenantTest, AHeaderThatIsNotTrustedSaysNothing) {
  AddDecode();
  StartRouter();
  EXPECT_EQ(SaltOf("a"), SaltOf("b"));
  EXPECT_TRUE(GenerateAs("no tenant's name", Request("hello", 3)).status.ok());
}

TEST_F(TenantTest, ATrustedHeaderThatNamesNoTenantIsRefused) {
  options_.trust_tenant_header = true;
  AddDecode();
  StartRouter();
  const Answer answer = GenerateAs("no tenant's name", Request("hello", 3));
  EXPECT_EQ(answer.status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(DetailOf(answer.status).field, "baton-tenant");
  grpc::ClientContext context;
  context.AddMetadata("baton-tenant", "decode");
  v1::TokenizeRequest request;
  v1::TokenizeResponse response;
  EXPECT_EQ(stub_->Tokenize(&context, request, &response).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(Metric("baton_requests_inflight"), 0);
}

class TenantTlsTest : public RouterTest {
 protected:
  TenantTlsTest() {
    for (const char* name : {"router", "prefill", "decode", "search"}) {
      files_.Issue(name, name, "holder");
    }
    server_options_.tls = files_.Of("router");
    options_.decode_workers = {"127.0.0.1:1"};
    StartRouter(/*wait=*/false);
  }
  // What a client with that certificate hears of both services.
  std::vector<grpc::Status> CallAs(const std::string& file) {
    const auto channel =
        MakeChannel(router_->address(), {.tls = files_.Of(file), .peer_role = "router"});
    EXPECT_TRUE(channel.ok()) << channel.status();
    v1::TokenizeRequest text;
    text.set_text("hello");
    v1::TokenizeResponse ids;
    grpc::ClientContext one, other;
    for (grpc::ClientContext* context : {&one, &other}) {
      context->set_wait_for_ready(true);
      context->set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    }
    v1::ListModelsResponse models;
    return {v1::InferenceService::NewStub(*channel)->Tokenize(&one, text, &ids),
            v1::ModelService::NewStub(*channel)->ListModels(&other, {}, &models)};
  }

  TlsFiles files_;
};

TEST_F(TenantTlsTest, RolesSendNoRequestsAndClientsDo) {
  for (const grpc::Status& status : CallAs("search")) {
    EXPECT_TRUE(status.ok()) << status.error_message();
  }
  for (const std::string role : {"router", "prefill", "decode"}) {
    for (const grpc::Status& status : CallAs(role)) {
      EXPECT_EQ(status.error_code(), grpc::StatusCode::PERMISSION_DENIED);
      EXPECT_THAT(status.error_message(), HasSubstr("'" + role + "'"));
    }
  }
}

}  // namespace
}  // namespace baton::testing
