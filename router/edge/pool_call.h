#pragma once

#include <cstdint>
#include <functional>
#include <utility>

#include "absl/status/status.h"
#include "grpcpp/support/server_callback.h"
#include "router/edge/byte_budget.h"
#include "router/edge/linger.h"
#include "router/edge/work_pool.h"

namespace baton {

// A unary call that is answered on the pool. It lives until gRPC is done with it.
class PoolCall final : public grpc::ServerUnaryReactor {
 public:
  // Runs `answer` in the caller's turn and ends the call with what it returns, or with QUEUE_FULL
  // when the pool has no room for it or leaves its room to another caller.
  // Of a caller that goes before its turn nothing is done. `work` says whose it is and how much,
  // `held` is the message's share and lives as long as the call. A client that does not take the
  // answer has `linger`. `pool` outlives the call.
  static grpc::ServerUnaryReactor* Start(grpc::CallbackServerContext* context,
                                         const LingerOptions& linger, WorkPool* pool, PoolWork work,
                                         ByteBudget::Share held,
                                         std::function<absl::Status()> answer);

  void OnCancel() override;
  void OnDone() override;

 private:
  PoolCall(Linger linger, WorkPool* pool, uint64_t id, ByteBudget::Share held)
      : linger_(std::move(linger)), pool_(pool), id_(id), held_(std::move(held)) {}
  ~PoolCall() override = default;

  Linger linger_;
  WorkPool* const pool_;
  const uint64_t id_;
  const ByteBudget::Share held_;
};

}  // namespace baton
