// Health, reflection and facts about the model.
#include <gmock/gmock.h>

#include "absl/strings/str_cat.h"
#include "common/rpc/status_map.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/ext/proto_server_reflection_plugin.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/health_check_service_interface.h"
#include "router/edge/request_parse.h"
#include "tests/router/router_fixture.h"

namespace baton::testing {
namespace {

using ServiceTest = RouterTest;

// grpc.health.v1.Health/Check by hand: field 1 of the request is the service, field 1 of the answer
// the status (1 = SERVING, 2 = NOT_SERVING).
int HealthOf(const Router& router, const std::string& service) {
  std::string bytes;
  if (!service.empty()) {
    bytes = "\x0a";
    bytes.push_back(static_cast<char>(service.size()));
    bytes += service;
  }
  RawAnswer raw = CallRaw(router, "/grpc.health.v1.Health/Check", bytes);
  grpc::Slice answer;
  if (!raw.status.ok() || !raw.body.DumpToSingleSlice(&answer).ok() || answer.size() != 2) {
    return -1;
  }
  return answer.begin()[1];
}

TEST_F(ServiceTest, HealthFollowsTheDecodeWorkersAndTheDrain) {
  AddDecode([](FakeWorkerOptions& worker) { worker.ready = false; });
  StartRouter(/*wait=*/false);
  const std::string name = "baton.v1.InferenceService";
  EXPECT_TRUE(Eventually([&] { return HealthOf(*router_, name) == 2; }));
  decode_[0]->SetLoad([](worker::v1::WorkerLoad* load) { load->set_ready(true); });
  EXPECT_TRUE(Eventually([&] { return HealthOf(*router_, name) == 1; }));
  EXPECT_EQ(HealthOf(*router_, ""), 1);
  EXPECT_EQ(HealthOf(*router_, "baton.v1.ModelService"), 1);
  decode_[0]->Kill();
  EXPECT_TRUE(Eventually([&] { return HealthOf(*router_, name) == 2; }));
  decode_[0]->Restart();
  decode_[0]->SetLoad([](worker::v1::WorkerLoad* load) { load->set_ready(true); });
  EXPECT_TRUE(Eventually([&] { return HealthOf(*router_, name) == 1; }));
  router_->Drain(std::chrono::milliseconds(1));
  EXPECT_FALSE(router_->ready().ok());
  EXPECT_TRUE(Eventually([&] { return HealthOf(*router_, name) == -1; })) << "it is to be left";
}

// As the calls of a client with a deadline of a millisecond, or of one that dies.
TEST_F(ServiceTest, ACallThatEndsBeforeItsMessageIsNoFaultOfTheRouter) {
  AddDecode();
  StartRouter();
  grpc::GenericStub stub(
      grpc::CreateChannel(router_->address(), grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  const auto call = stub.PrepareCall(&context, "/baton.v1.InferenceService/Generate", &queue);
  void* tag = nullptr;
  bool ok = false;
  call->StartCall(nullptr);
  ASSERT_TRUE(queue.Next(&tag, &ok));
  context.TryCancel();
  grpc::Status status;
  call->Finish(&status, nullptr);
  ASSERT_TRUE(queue.Next(&tag, &ok));
  const auto ends = [&](const char* kind) {
    return metrics_->counter(Metric::kRequestFailure, {kind}).Value();
  };
  ASSERT_TRUE(Eventually([&] { return ends("abort") + ends("rejected") == 1; }));
  EXPECT_EQ(ends("abort"), 1);
  EXPECT_EQ(metrics_->counter(Metric::kRequestErrors, {"CANCELLED", "none"}).Value(), 1);
  EXPECT_EQ(metrics_->counter(Metric::kRequestErrors, {"INTERNAL", "none"}).Value(), 0);
}

TEST_F(ServiceTest, ModelInfoTellsModelAndWorkers) {
  AddDecode();
  StartRouter();
  const auto stub = v1::ModelService::NewStub(
      grpc::CreateChannel(router_->address(), grpc::InsecureChannelCredentials()));
  v1::ListModelsResponse models;
  {
    grpc::ClientContext context;
    ASSERT_TRUE(stub->ListModels(&context, {}, &models).ok());
  }
  EXPECT_THAT(models.names(), ::testing::ElementsAre("tiny"));
  v1::GetModelInfoResponse info;
  {
    grpc::ClientContext context;
    ASSERT_TRUE(stub->GetModelInfo(&context, {}, &info).ok());
  }
  EXPECT_EQ(info.name(), "tiny");
  EXPECT_EQ(info.architecture(), "LlamaForCausalLM");
  EXPECT_EQ(info.max_model_len(), kContext);
  EXPECT_EQ(info.vocab_size(), 320);
  EXPECT_EQ(info.compute_dtype(), "float32");
  EXPECT_EQ(info.fingerprint(), "model");
  EXPECT_EQ(info.layers(), 3);
  EXPECT_EQ(info.kv_block_size(), 16);
  EXPECT_EQ(info.kv_blocks(), 4096);
  EXPECT_TRUE(info.chat_template_present());
  ASSERT_EQ(info.eos_tokens_size(), 2);
  EXPECT_EQ(info.eos_tokens(0).id(), kEos);
  EXPECT_EQ(info.eos_tokens(0).sources_size(), 3);
  v1::GetModelInfoRequest unknown;
  unknown.set_model("other");
  grpc::ClientContext context;
  EXPECT_EQ(stub->GetModelInfo(&context, unknown, &info).error_code(), grpc::StatusCode::NOT_FOUND);
}

// Nothing is made of it, whoever sends it.
TEST_F(ServiceTest, ModelServiceRefusesWhatIsLargerThanAnyName) {
  AddDecode();
  StartRouter();
  std::string unknown_fields;
  for (int i = 0; i < 3000; ++i) unknown_fields += std::string("\x7a\x00", 2);
  for (const char* method : {"ListModels", "GetModelInfo"}) {
    const std::string path = absl::StrCat("/baton.v1.ModelService/", method);
    const absl::Status refused = FromGrpcStatus(CallRaw(*router_, path, unknown_fields).status);
    EXPECT_EQ(ReasonText(refused), "LIMIT_EXCEEDED") << refused;
    EXPECT_NE(refused.message().find("6000 bytes"), std::string::npos) << refused;
    EXPECT_TRUE(CallRaw(*router_, path, unknown_fields.substr(0, 2000)).status.ok());
  }
  const std::string no_text = "\x0a\x02\xff\xfe";
  EXPECT_EQ(ReasonText(FromGrpcStatus(
                CallRaw(*router_, "/baton.v1.ModelService/GetModelInfo", no_text).status)),
            "INVALID_TEXT");
}

TEST_F(ServiceTest, EndsOutOfAGgufFileAreOfItsTokenizer) {
  change_model_ = [](ServedModel* model) {
    model->eos[0].sources = {"tokenizer.ggml.eot_token_id", "its text"};
  };
  AddDecode();
  StartRouter();
  const auto stub = v1::ModelService::NewStub(
      grpc::CreateChannel(router_->address(), grpc::InsecureChannelCredentials()));
  v1::GetModelInfoResponse info;
  grpc::ClientContext context;
  ASSERT_TRUE(stub->GetModelInfo(&context, {}, &info).ok());
  EXPECT_THAT(info.eos_tokens(0).sources(), ::testing::ElementsAre(v1::EOS_TOKEN_SOURCE_TOKENIZER));
}

TEST_F(ServiceTest, PortInUseIsToldBeforeAnythingElse) {
  AddDecode();
  StartRouter();
  Router::Parts parts;
  parts.options = options_;
  parts.options.decode_workers = {decode_[0]->address()};
  parts.server.port = std::stoi(router_->address().substr(router_->address().rfind(':') + 1));
  parts.model = *LoadServedModel(ModelDir(), "tiny");
  MetricsRegistry metrics({.role = MetricRole::kRouter, .model_name = "tiny"});
  parts.metrics = &metrics;
  parts.clock = &clock_;
  EXPECT_EQ(Router::Start(std::move(parts)).status().code(), absl::StatusCode::kAlreadyExists);
}

}  // namespace
}  // namespace baton::testing
