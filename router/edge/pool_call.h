#pragma once

#include <cstdint>
#include <functional>
#include <utility>

#include "absl/status/status.h"
#include "grpcpp/support/server_callback.h"
#include "router/edge/byte_budget.h"
#include "router/edge/work_pool.h"

namespace baton {

// A unary call that is answered on the pool. It lives until gRPC is done with it.
class PoolCall final : public grpc::ServerUnaryReactor {
 public:
  // Runs `answer` in the caller's turn and ends the call with what it returns, or with QUEUE_FULL.
  // Of a caller that goes before its turn nothing is done. `work` says whose it is and how much,
  // `held` is the message's share and lives as long as the call. `pool` outlives the call.
  static grpc::ServerUnaryReactor* Start(WorkPool* pool, PoolWork work, ByteBudget::Share held,
                                         std::function<absl::Status()> answer);

  void OnCancel() override;
  void OnDone() override { delete this; }

 private:
  PoolCall(WorkPool* pool, uint64_t id, ByteBudget::Share held)
      : pool_(pool), id_(id), held_(std::move(held)) {}
  ~PoolCall() override = default;

  WorkPool* const pool_;
  const uint64_t id_;
  const ByteBudget::Share held_;
};

}  // namespace baton
