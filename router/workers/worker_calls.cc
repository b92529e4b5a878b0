#include "router/workers/worker_calls.h"

#include "common/rpc/generation.h"

namespace baton {

std::shared_ptr<DecodeCall> DecodeCall::Open(worker::v1::DecodeService::Stub* stub,
                                             worker::v1::DecodeStart start, CallOptions options) {
  std::shared_ptr<DecodeCall> call(new DecodeCall(std::move(options)));
  stub->async()->Decode(&call->context_, call.get());
  *call->request_.mutable_start() = std::move(start);
  {
    base::MutexLock lock(&call->mutex_);
    call->writing_ = true;
    call->StartWrite(&call->request_);
  }
  call->Begin(call);
  return call;
}

void DecodeCall::Release(FinishReason reason) {
  {
    base::MutexLock lock(&mutex_);
    if (releasing_ != Releasing::kNo) return;
    release_.mutable_release()->set_cause(FinishCauseToProto(reason));
    releasing_ = Releasing::kAsked;
    WriteLocked();
  }
  Silence();
}

void DecodeCall::OnWriteDone(bool ok) {
  worker::v1::DecodeRequest().Swap(&request_);  // the ids of a long prompt, for as long as it runs
  base::MutexLock lock(&mutex_);
  writing_ = false;
  if (!ok || ended_) return;
  if (releasing_ == Releasing::kSent) {
    StartWritesDone();
  } else {
    WriteLocked();
  }
}

void DecodeCall::WriteLocked() {
  if (writing_ || ended_ || releasing_ != Releasing::kAsked) return;
  writing_ = true;
  releasing_ = Releasing::kSent;
  StartWrite(&release_);
}

std::shared_ptr<PrefillCall> PrefillCall::Open(worker::v1::PrefillService::Stub* stub,
                                               worker::v1::PrefillRequest request,
                                               CallOptions options) {
  std::shared_ptr<PrefillCall> call(new PrefillCall(std::move(options)));
  call->request_ = std::move(request);
  stub->async()->Prefill(&call->context_, &call->request_, call.get());
  call->Begin(call);
  return call;
}

void PrefillCall::OnReadInitialMetadataDone(bool) { worker::v1::PrefillRequest().Swap(&request_); }

}  // namespace baton
