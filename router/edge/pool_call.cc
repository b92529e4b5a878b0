#include "router/edge/pool_call.h"

#include <utility>

#include "common/rpc/status_map.h"

namespace baton {

grpc::ServerUnaryReactor* PoolCall::Start(grpc::CallbackServerContext* context,
                                          const LingerOptions& linger, WorkPool* pool,
                                          PoolWork work, ByteBudget::Share held,
                                          std::function<absl::Status()> answer) {
  auto* const call = new PoolCall(Linger(context, linger), pool, work.id, std::move(held));
  work.run = [call, answer = std::move(answer)] {
    const absl::Status status = answer();
    call->linger_.Begin();
    call->Finish(ToGrpcStatus(status));
  };
  work.displaced = [call](const absl::Status& full) { call->Finish(ToGrpcStatus(full)); };
  if (const absl::Status taken = pool->Submit(std::move(work)); !taken.ok()) {
    call->Finish(ToGrpcStatus(taken));
  }
  return call;
}

void PoolCall::OnDone() {
  linger_.End();
  delete this;
}

void PoolCall::OnCancel() {
  // Else the call is ended by the work, which has begun, or by whoever took its room.
  if (pool_->Drop(id_)) Finish(grpc::Status::CANCELLED);
}

}  // namespace baton
