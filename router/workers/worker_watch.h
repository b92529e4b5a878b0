#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "baton/worker/v1/status.grpc.pb.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "grpcpp/client_context.h"
#include "router/workers/worker_link.h"
#include "router/workers/worker_table.h"

namespace baton {

// One Status.Watch stream, which is read until it breaks. It lives until gRPC is done with it,
// whatever its owner does. Thread-safe.
class WorkerWatch final
    : public grpc::ClientBidiReactor<worker::v1::WatchRequest, worker::v1::WatchResponse> {
 public:
  struct Listener {
    std::function<void(const worker::v1::WatchResponse&)> message;
    std::function<void(const grpc::Status&)> ended;  // once, last
  };
  // What this router says again and again: what it could use, and how far apart it wants two
  // statuses to be.
  struct Wish {
    WorkerDemand demand;
    base::Duration interval{};
    bool cached = false;          // it wants to hear what the prefix cache holds
    int32_t cached_restarts = 0;  // how often it missed a change of that
    std::optional<ClusterView> cluster = std::nullopt;  // for a worker that may change its role
    friend bool operator==(const Wish&, const Wish&) = default;
  };
  // Opens the stream with `wish`, but for its demand and its cluster. The listener is called from
  // gRPC's threads and must not block.
  static std::shared_ptr<WorkerWatch> Open(std::shared_ptr<WorkerLink> link, const Wish& wish,
                                           Listener listener);

  // False when the last message is still on its way, or the stream is over.
  bool Tell(const Wish& wish);
  void Cancel() { context_.TryCancel(); }

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnDone(const grpc::Status& status) override;

 private:
  WorkerWatch(std::shared_ptr<WorkerLink> link, Listener listener)
      : link_(std::move(link)), listener_(std::move(listener)) {}

  const std::shared_ptr<WorkerLink> link_;  // keeps the stub
  Listener listener_;
  grpc::ClientContext context_;
  worker::v1::WatchResponse response_;
  std::shared_ptr<WorkerWatch> self_;

  base::Mutex mutex_;
  worker::v1::WatchRequest request_ ABSL_GUARDED_BY(mutex_);
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  // No write may begin without a read under way, which keeps the call from being over.
  bool reading_ ABSL_GUARDED_BY(mutex_) = false;
};

WorkerFacts FactsFromProto(const worker::v1::WorkerIdentity& identity);
// What a worker says of itself now, as it can be added up: a figure that none can have becomes the
// nearest one that can.
WorkerLoad LoadFromProto(const worker::v1::WatchResponse& response);

}  // namespace baton
