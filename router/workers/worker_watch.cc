#include "router/workers/worker_watch.h"

#include <utility>

#include "common/rpc/generation.h"
#include "common/rpc/protocol_version.h"

namespace baton {

std::shared_ptr<WorkerWatch> WorkerWatch::Open(std::shared_ptr<WorkerLink> link,
                                               Listener listener) {
  std::shared_ptr<WorkerWatch> watch(new WorkerWatch(std::move(link), std::move(listener)));
  watch->self_ = watch;
  watch->request_.mutable_protocol()->set_major(kProtocolMajor);
  watch->request_.mutable_protocol()->set_minor(kProtocolMinor);
  watch->link_->status->async()->Watch(&watch->context_, &watch->request_, watch.get());
  watch->StartRead(&watch->response_);
  watch->StartCall();
  return watch;
}

void WorkerWatch::OnReadDone(bool ok) {
  if (!ok) return;  // OnDone follows
  listener_.message(response_);
  StartRead(&response_);
}

void WorkerWatch::OnDone(const grpc::Status& status) {
  const auto keep = std::move(self_);
  listener_.ended(status);
  listener_ = {};
}

WorkerFacts FactsFromProto(const worker::v1::WorkerIdentity& identity) {
  WorkerFacts facts{
      .incarnation = identity.incarnation(),
      .kinds = {},
      .fingerprint = identity.model_fingerprint(),
      .text_fingerprint = identity.text_fingerprint(),
      .layout = KvShapeFromProto(identity.layout()),
      .numerics = identity.numerics(),
      .compute_dtype = identity.compute_dtype(),
      .push_address = identity.push_address(),
      .protocol_major = identity.protocol().major(),
      .max_model_len = identity.max_model_len(),
      .kv_transports = {identity.kv_transports().begin(), identity.kv_transports().end()}};
  std::vector<int> roles(identity.roles().begin(), identity.roles().end());
  if (roles.empty()) roles.push_back(identity.role());
  for (const int role : roles) {
    if (role == worker::v1::WORKER_ROLE_PREFILL) facts.kinds.insert(WorkerKind::kPrefill);
    if (role == worker::v1::WORKER_ROLE_DECODE) facts.kinds.insert(WorkerKind::kDecode);
  }
  return facts;
}

}  // namespace baton
