#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "baton/v1/inference.grpc.pb.h"
#include "baton/v1/model.grpc.pb.h"
#include "common/base/mutex.h"
#include "grpcpp/grpcpp.h"
#include "grpcpp/health_check_service_interface.h"

namespace baton {

// The public services of a router, for tests of clients: it answers every request with what
// `script` says, and keeps what it was sent. Its model is "demo" with the EOS id 2. Thread-safe.
class FakeInferenceService final : public baton::v1::InferenceService::Service {
 public:
  // What one request gets: events in order, then the status.
  struct Answer {
    std::vector<baton::v1::GenerateResponse> events;
    grpc::Status status;
  };
  // `text` is the prompt, or the content of the last message.
  using Script = std::function<Answer(const baton::v1::GenerationSpec&, const std::string& text)>;

  explicit FakeInferenceService(Script script) : script_(std::move(script)) {
    grpc::EnableDefaultHealthCheckService(true);  // a switch of the whole process
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(this);
    builder.RegisterService(&model_);
    server_ = builder.BuildAndStart();
  }
  ~FakeInferenceService() override { server_->Shutdown(std::chrono::system_clock::now()); }

  // That of GetModelInfo, "f1" at first; "" as where no worker is healthy.
  void SetFingerprint(const std::string& fingerprint) {
    base::MutexLock lock(&mutex_);
    fingerprint_ = fingerprint;
  }

  // That of GetModelInfo, empty at first.
  void SetSampling(const baton::v1::SamplingDefaults& sampling) {
    base::MutexLock lock(&mutex_);
    sampling_ = sampling;
  }

  // Of grpc.health.v1, for each service; true at first.
  void SetServing(bool serving) { server_->GetHealthCheckService()->SetServingStatus(serving); }

  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }

  std::vector<baton::v1::GenerateRequest> generate_requests() const {
    base::MutexLock lock(&mutex_);
    return generate_requests_;
  }
  std::vector<baton::v1::ChatGenerateRequest> chat_requests() const {
    base::MutexLock lock(&mutex_);
    return chat_requests_;
  }

 private:
  class Model final : public baton::v1::ModelService::Service {
   public:
    explicit Model(const FakeInferenceService* server) : server_(server) {}
    grpc::Status GetModelInfo(grpc::ServerContext*, const baton::v1::GetModelInfoRequest*,
                              baton::v1::GetModelInfoResponse* info) override {
      info->set_name("demo");
      baton::v1::EosToken* eos = info->add_eos_tokens();
      eos->set_id(2);
      eos->set_text("<|end|>");
      eos->add_sources(baton::v1::EOS_TOKEN_SOURCE_TOKENIZER);
      base::MutexLock lock(&server_->mutex_);
      info->set_fingerprint(server_->fingerprint_);
      *info->mutable_default_sampling() = server_->sampling_;
      return grpc::Status::OK;
    }

   private:
    const FakeInferenceService* const server_;
  };

  grpc::Status Generate(grpc::ServerContext*, const baton::v1::GenerateRequest* request,
                        grpc::ServerWriter<baton::v1::GenerateResponse>* writer) override {
    {
      base::MutexLock lock(&mutex_);
      generate_requests_.push_back(*request);
    }
    const Answer answer = script_(request->spec(), request->text());
    for (const auto& event : answer.events) writer->Write(event);
    return answer.status;
  }

  grpc::Status ChatGenerate(grpc::ServerContext*, const baton::v1::ChatGenerateRequest* request,
                            grpc::ServerWriter<baton::v1::ChatGenerateResponse>* writer) override {
    {
      base::MutexLock lock(&mutex_);
      chat_requests_.push_back(*request);
    }
    const int count = request->messages_size();
    const Answer answer =
        script_(request->spec(), count > 0 ? request->messages(count - 1).content() : "");
    for (const auto& event : answer.events) {
      baton::v1::ChatGenerateResponse response;
      if (event.has_started()) *response.mutable_started() = event.started();
      if (event.has_delta()) *response.mutable_delta() = event.delta();
      if (event.has_final()) *response.mutable_final() = event.final();
      writer->Write(response);
    }
    return answer.status;
  }

  const Script script_;
  Model model_{this};
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
  mutable base::Mutex mutex_;
  std::string fingerprint_ ABSL_GUARDED_BY(mutex_) = "f1";
  baton::v1::SamplingDefaults sampling_ ABSL_GUARDED_BY(mutex_);
  std::vector<baton::v1::GenerateRequest> generate_requests_ ABSL_GUARDED_BY(mutex_);
  std::vector<baton::v1::ChatGenerateRequest> chat_requests_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace baton
