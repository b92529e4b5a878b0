// Whose a call is, and what follows from it.
#include <gmock/gmock.h>

#include <future>
#include <memory>
#include <vector>

#include "common/rpc/channel.h"
#include "common/rpc/status_map.h"
#include "common/trace/tracer.h"
#include "router/edge/api_keys.h"
#include "tests/fakes/scratch_folder.h"
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

// One decode worker, which never answers a prompt that begins with 's'.
class TenantBoundsTest : public TenantTest {
 protected:
  // A request that is answered in another thread.
  struct Call {
    grpc::ClientContext context;
    std::future<Answer> answer;
  };

  void Start(const TenantRules& rules, int32_t max_queued = 100) {
    options_.trust_tenant_header = true;
    options_.tenants = rules;
    options_.max_num_queued_reqs = max_queued;
    AddDecode([](FakeWorkerOptions& worker) {
      worker.script = [](const FakeMoment& moment) {
        const bool stuck = moment.point == FakePoint::kToken &&
                           moment.generation.prompt_ids_size() > 1 &&
                           moment.generation.prompt_ids(1) == 's';
        return stuck ? FakeAction::Hang() : FakeAction::Go();
      };
    });
    StartRouter();
  }
  std::unique_ptr<Call> Begin(const std::string& tenant, const std::string& text) {
    return Begin(tenant, Request(text, 3));
  }
  std::unique_ptr<Call> Begin(const std::string& tenant, const v1::GenerateRequest& request) {
    auto call = std::make_unique<Call>();
    call->context.AddMetadata("baton-tenant", tenant);
    call->answer = std::async(std::launch::async, [this, request, context = &call->context] {
      return Generate(request, context);
    });
    return call;
  }
  // Begins one that never ends by itself, and returns when it has its place.
  std::unique_ptr<Call> BeginStuck(const std::string& tenant) {
    const int before = decode_[0]->decode_streams();
    auto call = Begin(tenant, "stuck");
    EXPECT_TRUE(Eventually([&] { return decode_[0]->decode_streams() == before + 1; }));
    return call;
  }
  bool AreWaiting(int requests) {
    return Eventually([&] { return Metric("baton_tenant_requests_waiting") == requests; });
  }
  // Ends one that is stuck.
  static void End(Call* call) {
    call->context.TryCancel();
    EXPECT_EQ(call->answer.get().status.code(), absl::StatusCode::kCancelled);
  }
};

TEST_F(TenantBoundsTest, ATenantAtItsBoundWaitsAndOthersDoNot) {
  Start({.others = {.max_running = 1}, .named = {}});
  const auto first = BeginStuck("a");
  const auto second = Begin("a", "quick");
  ASSERT_TRUE(AreWaiting(1));
  EXPECT_TRUE(GenerateAs("b", Request("quick", 3)).status.ok());
  EXPECT_EQ(decode_[0]->decode_streams(), 2) << "the second of a has not been placed";
  End(first.get());
  EXPECT_TRUE(second->answer.get().status.ok());
}

TEST_F(TenantBoundsTest, AFullLineOfATenantRefusesItsRequestsAlone) {
  Start({.others = {.max_running = 1, .max_queued = 1}, .named = {}});
  const auto first = BeginStuck("a");
  const auto second = Begin("a", "quick");
  ASSERT_TRUE(AreWaiting(1));
  const Answer third = GenerateAs("a", Request("quick", 3));
  EXPECT_EQ(third.status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ReasonText(third.status), "QUEUE_FULL");
  EXPECT_THAT(DetailOf(third.status).values, ::testing::Contains(std::pair("tenant", "a")));
  EXPECT_TRUE(GenerateAs("b", Request("quick", 3)).status.ok());
  End(first.get());
  EXPECT_TRUE(second->answer.get().status.ok());
}

TEST_F(TenantBoundsTest, MoreAnswersThanATenantsLineTakesAreNotToBeAskedForAgain) {
  Start({.others = {.max_queued = 2}, .named = {}});
  v1::GenerateRequest request = Request("quick", 3);
  request.mutable_spec()->mutable_sampling()->set_n(3);
  const absl::Status refused = GenerateAs("a", request).status;
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument) << refused;
  EXPECT_EQ(ReasonText(refused), "LIMIT_EXCEEDED");
  EXPECT_EQ(DetailOf(refused).field, "spec.sampling.n");
  EXPECT_FALSE(DetailOf(refused).retry_after.has_value());
  request.mutable_spec()->mutable_sampling()->set_n(2);
  EXPECT_TRUE(GenerateAs("a", request).status.ok());
}

TEST_F(TenantBoundsTest, AFullQueueMakesRoomForAnotherTenant) {
  Start({.others = {.max_running = 1}, .named = {}}, /*max_queued=*/2);
  const auto a = BeginStuck("a"), b = BeginStuck("b");
  const auto kept = Begin("a", "quick");
  ASSERT_TRUE(AreWaiting(1));
  const auto last = Begin("a", "quick");
  ASSERT_TRUE(AreWaiting(2));
  const auto other = Begin("b", "quick");
  EXPECT_EQ(ReasonText(last->answer.get().status), "QUEUE_FULL");
  EXPECT_EQ(Metric("baton_queue_rejections_total"), 1);
  End(a.get());
  End(b.get());
  EXPECT_TRUE(kept->answer.get().status.ok());
  EXPECT_TRUE(other->answer.get().status.ok());
}

TEST_F(TenantBoundsTest, ATenantThatHoldsAllBytesItMayLeavesSomeForAnother) {
  options_.max_inflight_bytes = 4000;
  Start({.others = {.max_running = 1}, .named = {}});
  const auto first = BeginStuck("a");
  const std::string text(150, 'q');  // held as 604 bytes of ids once it is read
  std::vector<std::unique_ptr<Call>> waiting;
  while (waiting.size() < 4) {
    waiting.push_back(Begin("a", text));
    ASSERT_TRUE(AreWaiting(static_cast<int>(waiting.size())));
  }
  const absl::Status full = GenerateAs("a", Request(text, 3)).status;
  EXPECT_EQ(ReasonText(full), "QUEUE_FULL") << full;
  EXPECT_THAT(std::string(full.message()), HasSubstr("this client's"));
  EXPECT_TRUE(GenerateAs("b", Request(text, 3)).status.ok());
  for (const std::unique_ptr<Call>& call : waiting) call->context.TryCancel();
  End(first.get());
}

TEST_F(TenantBoundsTest, ARequestIdIsThatOfItsTenant) {
  Start({});
  v1::GenerateRequest request = Request("stuck", 3);
  request.mutable_spec()->set_request_id("batch-1");
  const auto first = Begin("a", request);
  ASSERT_TRUE(Eventually([&] { return decode_[0]->decode_streams() == 1; }));
  request.set_text("quick");
  for (const int answers : {1, 2}) {
    request.mutable_spec()->mutable_sampling()->set_n(answers);
    EXPECT_EQ(ReasonText(GenerateAs("a", request).status), "CONFLICTING_OPTIONS");
    const absl::Status others = GenerateAs("b", request).status;
    EXPECT_TRUE(others.ok()) << others;
  }
  EXPECT_EQ(ReasonText(GenerateAs("a", request).status), "CONFLICTING_OPTIONS")
      << "the end of another's request has not ended this one";
  End(first.get());
  EXPECT_TRUE(Eventually([&] { return GenerateAs("a", request).status.ok(); }));
}

TEST_F(TenantBoundsTest, MetricsTellTenantsApart) {
  Start({.others = {.max_running = 1}, .named = {}});
  const auto first = BeginStuck("a");
  const auto second = Begin("a", "quick");
  ASSERT_TRUE(AreWaiting(1));
  EXPECT_TRUE(GenerateAs("b", Request("quick", 3)).status.ok());
  EXPECT_EQ(Metric("baton_tenant_requests_waiting{tenant=\"a\""), 1);
  EXPECT_EQ(Metric("baton_tenant_requests_running{tenant=\"a\""), 1);
  EXPECT_EQ(Metric("baton_tenant_generation_tokens_total{tenant=\"b\""), 3);
  EXPECT_EQ(Metric("baton_tenant_prompt_tokens_total{tenant=\"b\""), 6);
  EXPECT_EQ(Metric("baton_tenant_time_to_first_token_seconds_count{tenant=\"b\""), 1);
  EXPECT_EQ(Metric("baton_tenant_queue_time_seconds_count{tenant=\"b\""), 1);
  End(first.get());
  EXPECT_TRUE(second->answer.get().status.ok());
  EXPECT_TRUE(Eventually([&] { return Metric("baton_tenant_requests_running") == 0; }));
}

// A router whose callers need a key, and whose tracer drops all that it is given.
class TracedKeysTest : public RouterTest {
 protected:
  TracedKeysTest() {
    auto keys = ApiKeyFile::Open(folder_.Write("keys", "red:abc\n"));
    EXPECT_TRUE(keys.ok()) << keys.status();
    keys_ = *std::move(keys);
    tracer_ = std::make_unique<Tracer>(1, OtlpTarget{"http://127.0.0.1:9", "/v1/traces"},
                                       TraceResource{}, &clock_, ExportLimits{.queue_spans = 0});
    AddDecode();
    StartRouter();
  }
  absl::Status GenerateWith(const std::string& key, int max_tokens) {
    grpc::ClientContext context;
    context.AddMetadata("authorization", "Bearer " + key);
    return Generate(Request("hello", max_tokens), &context).status;
  }
  int64_t spans() const { return tracer_->exporter().dropped(SpanDrop::kQueueFull); }

  const ScratchFolder folder_;
};

TEST_F(TracedKeysTest, WhoHasNoKeyLeavesNoTrace) {
  EXPECT_EQ(GenerateWith("other", 1).code(), absl::StatusCode::kUnauthenticated);
  EXPECT_EQ(spans(), 0);
  EXPECT_EQ(GenerateWith("abc", kContext + 1).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(Eventually([&] { return spans() > 0; })) << "but a refusal does";
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
