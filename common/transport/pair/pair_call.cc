#include "common/transport/pair/pair_call.h"

#include <utility>

#include "common/rpc/status_map.h"
#include "common/transport/pair/pair_wire.h"

namespace baton {

void PairCall::Start(const std::shared_ptr<grpc::Channel>& channel,
                     std::shared_ptr<PairCall> self) {
  self_ = std::move(self);
  stub_ = worker::v1::KvTransferService::NewStub(channel);
  stub_->async()->Pair(&context_, this);
  AddHold();  // writes start outside of reactions
  StartRead(&response_);
  {
    base::MutexLock lock(&mutex_);
    writing_ = false;
    WriteNext();
  }
  StartCall();
}

void PairCall::FailToStart(const absl::Status& why) {
  {
    base::MutexLock lock(&mutex_);
    closed_ = true;
    waiting_.clear();
  }
  std::exchange(listener_, {}).closed(why);
}

void PairCall::Send(const ToReceiver& message) {
  base::MutexLock lock(&mutex_);
  waiting_.push_back(PairMessageToProto(message));
  WriteNext();
}

void PairCall::WriteNext() {
  if (writing_ || closed_ || waiting_.empty()) return;
  writing_ = true;
  request_ = std::move(waiting_.front());
  waiting_.pop_front();
  StartWrite(&request_);
}

void PairCall::Close() { context_.TryCancel(); }

void PairCall::OnReadDone(bool ok) {
  if (!ok) {
    {
      base::MutexLock lock(&mutex_);
      closed_ = true;
      waiting_.clear();
    }
    RemoveHold();
    return;
  }
  const std::optional<ToSender> message = PairMessageFromProto(response_);
  // What a newer peer may say beyond this protocol is not for us.
  if (message) listener_.message(*message);
  StartRead(&response_);
}

void PairCall::OnWriteDone(bool ok) {
  base::MutexLock lock(&mutex_);
  writing_ = false;
  if (ok) WriteNext();
}

void PairCall::OnDone(const grpc::Status& status) {
  const std::shared_ptr<PairCall> keep = std::move(self_);
  const auto closed = std::exchange(listener_, {}).closed;
  stub_.reset();
  closed(FromGrpcStatus(status));
}

}  // namespace baton
