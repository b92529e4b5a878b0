#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "baton/v1/inference.grpc.pb.h"
#include "baton/v1/model.grpc.pb.h"
#include "common/base/status.h"
#include "common/metrics/registry.h"
#include "grpcpp/channel.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/status.h"
#include "gtest/gtest.h"
#include "router/router.h"
#include "tests/fakes/eventually.h"
#include "tests/fakes/fake_worker.h"

namespace baton::testing {

// A byte tokenizer: text bytes are ids 0..255, 257 and 258 are EOS ids, a template is there.
constexpr int32_t kBos = 256;
constexpr int32_t kEos = 257;
constexpr int32_t kContext = 512;

// What one streaming call brought.
struct Answer {
  std::vector<v1::GenerateResponse> messages;
  v1::Started started;
  v1::Prompt prompt;  // all pieces
  std::string text;
  std::vector<int32_t> ids;
  std::vector<v1::EosStep> eos_steps;
  std::vector<v1::TokenLogprobs> logprobs;
  std::optional<v1::Final> final;
  absl::Status status;  // with details
};

// A router over loopback with fake workers behind it.
class RouterTest : public ::testing::Test {
 public:
  static v1::GenerateRequest Request(const std::string& text, int max_tokens);

 protected:
  RouterTest();
  ~RouterTest() override;

  FakeWorkerOptions WorkerOptions(worker::v1::WorkerRole role) const;
  FakeWorker* AddDecode(FakeWorkerOptions options);
  FakeWorker* AddPrefill(FakeWorkerOptions options);
  // A worker like the others, but for what `change` makes different.
  using Change = absl::FunctionRef<void(FakeWorkerOptions&)>;
  FakeWorker* AddDecode(Change change = [](FakeWorkerOptions&) {});
  FakeWorker* AddPrefill(Change change = [](FakeWorkerOptions&) {});

  // Starts the router and waits until it sees every worker that is added as healthy.
  void StartRouter(bool wait = true);
  std::unique_ptr<Router> MakeRouter(MetricsRegistry* metrics, std::unique_ptr<EosLog> eos_log);
  std::unique_ptr<v1::InferenceService::Stub> Stub(const Router& router) const;

  Answer Generate(const v1::GenerateRequest& request) { return Generate(request, nullptr); }
  // Generates with `context`, which may be null.
  Answer Generate(const v1::GenerateRequest& request, grpc::ClientContext* context);
  // The first `count` tokens that the model says after `prompt`, which includes BOS.
  static std::vector<int32_t> Expected(const std::string& prompt, int count,
                                       const FakeModel& model = FakeLetter);
  static std::string TextOf(const std::vector<int32_t>& ids);

  // The sum of what the router's page has of `series`, a name and the beginning of its labels or a
  // part of them. A test fails that asks for what there cannot be.
  double Metric(const std::string& series);

  RouterOptions options_;
  RpcServerOptions server_options_;
  std::optional<HttpServerOptions> http_options_;   // empty: no HTTP port
  std::vector<std::string> http_origins_;           // as Router::Parts has it
  std::function<void(ServedModel*)> change_model_;  // before the router starts with it
  base::SteadyClock clock_;
  FakeCluster cluster_;
  std::vector<std::unique_ptr<FakeWorker>> decode_;
  std::vector<std::unique_ptr<FakeWorker>> prefill_;
  std::unique_ptr<MetricsRegistry> metrics_;
  std::unique_ptr<EosLog> eos_log_;
  std::unique_ptr<ApiKeyFile> keys_;  // these two null: none
  std::unique_ptr<Tracer> tracer_;
  std::unique_ptr<Router> router_;
  std::unique_ptr<v1::InferenceService::Stub> stub_;
};

std::string ModelDir();
// The reason that a refusal carries, as spelled on the wire.
std::string ReasonText(const absl::Status& status);
Answer ReadAnswer(grpc::ClientReader<v1::GenerateResponse>* reader);

struct RawAnswer {
  grpc::Status status;
  grpc::ByteBuffer body;
};
// A unary call of `method` ("/package.Service/Name") with a message that no stub would send.
RawAnswer CallRaw(const Router& router, const std::string& method, const std::string& message);

}  // namespace baton::testing
