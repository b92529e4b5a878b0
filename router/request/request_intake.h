#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "baton/v1/inference.pb.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "router/edge/byte_budget.h"
#include "router/edge/caller.h"
#include "router/edge/client_sink.h"
#include "router/edge/request_spec.h"
#include "router/request/flow_context.h"
#include "router/request/request_trace.h"
#include "router/router_probe.h"

namespace baton {

// What a request says, or why it cannot be read.
struct IncomingRequest {
  absl::Status parsed;
  v1::GenerationSpec spec;
  RequestInput input;
  // As in RequestSpec.
  std::optional<bool> special_tokens = {};
  int32_t usual_max_tokens = 0;
};

// A request as it came, over whatever transport.
struct ArrivedRequest {
  Transport transport = Transport::kGrpc;
  base::Instant at;
  base::Instant deadline;
  absl::StatusOr<Caller> caller;  // or why nobody may send it
  std::shared_ptr<ClientSink> sink;
  size_t bytes = 0;  // of its message
  // The trace that it says it belongs to; not looked for where traces are off.
  std::optional<TraceContext> trace = {};
  // Makes of its message what it says, once, on whatever thread. What it refers to lives until the
  // sink has ended.
  std::function<IncomingRequest()> read;
};

// The door of the router: checks requests, counts them and makes flows of them, or ends their sinks
// with the reason. Its methods never wait. Thread-safe.
class RequestIntake final {
 public:
  // `context` must outlive this.
  explicit RequestIntake(FlowContext* context);

  // From now on new requests are refused.
  void Drain() { draining_ = true; }

  void Receive(ArrivedRequest request);

 private:
  // A request on its way to its flow.
  struct Arrival {
    base::Instant at;
    base::Instant deadline;
    Caller caller;
    std::shared_ptr<ClientSink> sink;
    Transport transport = Transport::kGrpc;
    size_t bytes = 0;  // of its message
    ByteBudget::Share held;
    std::unique_ptr<RequestTrace> trace;  // null: not traced
  };
  // Goes on with it in the client's turn on the pool, unless the client goes before.
  void ReceiveOnPool(std::shared_ptr<Arrival> arrival, size_t bytes,
                     std::function<IncomingRequest()> read);
  void Accept(Arrival arrival, IncomingRequest incoming);
  // Ends a request whose client went before a flow could hear of it.
  void Leave(base::Instant began, base::Instant deadline, ClientSink* sink);
  absl::StatusOr<RequestSpec> Check(IncomingRequest incoming);
  // Takes what the other answers hold beside the first, or says that there are too many.
  absl::Status HoldForAnswers(const RequestSpec& spec, Arrival* arrival);
  // The flow of the request, or that of several answers; it takes what it needs of both.
  std::shared_ptr<LiveRequest> MakeLive(RequestSpec spec, Arrival* arrival);
  std::string SaltOf(const RequestSpec& spec) const;
  void Refuse(const absl::Status& status, ClientSink* sink, RequestTrace* trace);
  uint64_t DrawSeed();

  FlowContext* const context_;
  std::atomic<bool> draining_{false};
  base::Mutex mutex_;
  std::mt19937_64 random_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace baton
