#pragma once

#include <memory>
#include <thread>

#include "common/base/mutex.h"
#include "grpcpp/server_context.h"
#include "tests/fakes/fake_worker_state.h"

namespace baton::testing {

// One Decode stream of a fake worker; a thread of its own walks through the script.
class FakeDecodeStream final
    : public grpc::ServerBidiReactor<worker::v1::DecodeRequest, worker::v1::DecodeResponse> {
 public:
  explicit FakeDecodeStream(std::shared_ptr<FakeWorkerState> state);

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

 private:
  void Run();
  grpc::Status Play();
  bool Reserve(grpc::Status* status);
  grpc::Status Generate(worker::v1::Token token);
  grpc::Status FindBeams();
  // False when the stream is to end with `*status`.
  bool Pass(FakePoint point, int32_t index, bool* skip, grpc::Status* status);
  bool Write(const worker::v1::DecodeResponse& message);
  bool Over() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return cancelled_ || released_; }
  void WaitUntilOver();
  bool Pause();

  const std::shared_ptr<FakeWorkerState> state_;
  worker::v1::DecodeRequest request_;
  worker::v1::DecodeStart start_;
  worker::v1::DecodeResponse response_;
  std::vector<int32_t> history_;

  mutable base::Mutex mutex_;
  base::CondVar changed_;
  bool begun_ ABSL_GUARDED_BY(mutex_) = false;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  bool released_ ABSL_GUARDED_BY(mutex_) = false;
  worker::v1::FinishCause release_ ABSL_GUARDED_BY(mutex_) = worker::v1::FINISH_CAUSE_UNSPECIFIED;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool write_ok_ ABSL_GUARDED_BY(mutex_) = true;
  std::optional<worker::v1::Token> committed_ ABSL_GUARDED_BY(mutex_);
  std::string secret_;
  std::thread thread_;
};

}  // namespace baton::testing
