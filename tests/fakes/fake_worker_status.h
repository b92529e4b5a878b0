#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <utility>

#include "baton/worker/v1/status.grpc.pb.h"
#include "common/base/mutex.h"
#include "tests/fakes/fake_worker_state.h"

namespace baton::testing {

// What a fake worker says of itself, unless it is mute: each change of its load, and every 300 ms.
class FakeStatusService final : public worker::v1::StatusService::Service {
 public:
  explicit FakeStatusService(std::shared_ptr<FakeWorkerState> state) : state_(std::move(state)) {}

  grpc::Status Watch(grpc::ServerContext* context,
                     grpc::ServerReaderWriter<worker::v1::WatchResponse, worker::v1::WatchRequest>*
                         writer) override {
    worker::v1::WatchRequest request;
    if (!writer->Read(&request)) return grpc::Status::CANCELLED;
    worker::v1::WatchResponse response;
    FillIdentity(response.mutable_identity());
    uint64_t told = 0;
    auto told_at = std::chrono::steady_clock::now();
    while (!context->IsCancelled() && !state_->dead) {
      base::MutexLock lock(&state_->mutex);
      const auto now = std::chrono::steady_clock::now();
      const bool due =
          told != state_->load_version || now - told_at > std::chrono::milliseconds(300);
      if (due && !state_->mute) {
        told = state_->load_version;
        told_at = now;
        *response.mutable_load() = state_->load;
        if (!writer->Write(response)) break;
        response.clear_identity();
      }
      state_->changed.WaitUntil(&state_->mutex, now + std::chrono::milliseconds(5));
    }
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, "the worker ends");
  }

 private:
  void FillIdentity(worker::v1::WorkerIdentity* identity) const {
    const FakeWorkerOptions& options = state_->options;
    identity->set_role(options.role);
    identity->set_text_fingerprint(options.text_fingerprint);
    identity->set_incarnation(state_->incarnation);
    identity->mutable_protocol()->set_major(options.protocol_major);
    identity->mutable_protocol()->set_minor(options.protocol_minor);
    identity->set_model_fingerprint(options.fingerprint);
    *identity->mutable_layout() = options.layout;
    identity->set_numerics(options.numerics);
    identity->set_max_model_len(options.max_model_len);
    identity->set_compute_dtype("float32");
  }

  const std::shared_ptr<FakeWorkerState> state_;
};

}  // namespace baton::testing
