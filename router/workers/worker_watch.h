#pragma once

#include <functional>
#include <memory>

#include "baton/worker/v1/status.grpc.pb.h"
#include "common/base/mutex.h"
#include "grpcpp/client_context.h"
#include "router/workers/worker_view.h"

namespace baton {

// One Status.Watch stream, which is read until it breaks. It lives until gRPC is done with it,
// whatever its owner does. Thread-safe.
class WorkerWatch final : public grpc::ClientReadReactor<worker::v1::WatchResponse> {
 public:
  struct Listener {
    std::function<void(const worker::v1::WatchResponse&)> message;
    std::function<void(const grpc::Status&)> ended;  // once, last
  };
  // Opens the stream. The listener is called from gRPC's threads and must not block.
  static std::shared_ptr<WorkerWatch> Open(std::shared_ptr<WorkerLink> link, Listener listener);

  void Cancel() { context_.TryCancel(); }

  void OnReadDone(bool ok) override;
  void OnDone(const grpc::Status& status) override;

 private:
  WorkerWatch(std::shared_ptr<WorkerLink> link, Listener listener)
      : link_(std::move(link)), listener_(std::move(listener)) {}

  const std::shared_ptr<WorkerLink> link_;  // keeps the stub
  Listener listener_;
  grpc::ClientContext context_;
  worker::v1::WatchRequest request_;
  worker::v1::WatchResponse response_;
  std::shared_ptr<WorkerWatch> self_;
};

WorkerFacts FactsFromProto(const worker::v1::WorkerIdentity& identity);

}  // namespace baton
