#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "baton/worker/v1/kv_transfer.grpc.pb.h"
#include "common/base/mutex.h"
#include "common/transport/pair/pair_protocol.h"
#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"

namespace baton {

// The prefill worker's end of a pair's control stream. It is made before there is a channel, and
// keeps what is to be sent until then. From Start on it lives until gRPC is done with it, whatever
// its owner does. Thread-safe; callbacks come from gRPC's threads, without any lock held.
class PairCall final
    : public grpc::ClientBidiReactor<worker::v1::PairRequest, worker::v1::PairResponse> {
 public:
  struct Listener {
    std::function<void(const ToSender&)> message;
    std::function<void(const absl::Status&)> closed;  // the last call, exactly once
  };
  explicit PairCall(Listener listener) : listener_(std::move(listener)) {}

  // Called once. A Close that came before it ends the stream.
  void Start(const std::shared_ptr<grpc::Channel>& channel, std::shared_ptr<PairCall> self);
  // In place of Start, when there is no channel. Called without any lock held.
  void FailToStart(const absl::Status& why);

  // Bounded by the protocol: a few announcements are outstanding.
  void Send(const ToReceiver& message);
  void Close();

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnDone(const grpc::Status& status) override;

 private:
  void WriteNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Listener listener_;
  std::unique_ptr<worker::v1::KvTransferService::Stub> stub_;
  grpc::ClientContext context_;
  std::shared_ptr<PairCall> self_;  // from Start until OnDone
  worker::v1::PairResponse response_;
  base::Mutex mutex_;
  std::deque<worker::v1::PairRequest> waiting_ ABSL_GUARDED_BY(mutex_);
  worker::v1::PairRequest request_ ABSL_GUARDED_BY(mutex_);  // lives until its write is done
  bool writing_ ABSL_GUARDED_BY(mutex_) = true;              // nothing is written before Start
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;              // nothing more may be started
};

}  // namespace baton
