#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "baton/v1/inference.pb.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/trace/trace_context.h"
#include "router/edge/client_sink.h"
#include "router/edge/gathered_bytes.h"
#include "router/edge/request_spec.h"
#include "router/request/answer_roll.h"
#include "router/request/flow_context.h"
#include "router/request/held_answers.h"
#include "router/request/request_trace.h"
#include "router/workers/worker_view.h"

namespace baton {

class AnswerPart;
class RequestFlow;

// A request for several answers: a RequestFlow for each, with its own coin, attempts and end, over
// one prompt, and one stream to the client. The first flow goes ahead. When its decode worker has
// the prompt's KV cache, the others begin, at that worker if it has places, so that the prompt is
// computed once. It is used like a lone flow, and lives in the registry until all answers are over:
//
//   auto group = std::make_shared<AnswerGroup>(&context, std::move(request));
//   if (context.registry->Add(tenant, id, group)) group->Begin();
//
// Its flows call it from their own threads. What they have for the client passes through it one
// message at a time; flows are called without its lock, because they call back. Thread-safe.
class AnswerGroup final : public LiveRequest, public std::enable_shared_from_this<AnswerGroup> {
 public:
  struct Request {
    RequestSpec spec;  // of the first answer, with the number of them
    std::shared_ptr<ClientSink> sink;
    base::Instant arrived;
    base::Instant deadline;
    Transport transport = Transport::kGrpc;
    std::unique_ptr<RequestTrace> trace;  // null: not traced
  };
  // Nothing happens before Begin.
  AnswerGroup(FlowContext* context, Request request);
  ~AnswerGroup() override;

  void Begin() override;
  void EndByDrain() override;
  void AddReports(std::vector<RequestReport>* reports) const override;

 private:
  friend class AnswerPart;
  struct Member {
    std::shared_ptr<AnswerPart> part;
    std::shared_ptr<RequestFlow> flow;
  };

  // What the flows say, by the index of their answer.
  void Start(int32_t index, v1::Started started);
  absl::Status Append(int32_t index, v1::Delta delta);
  void Predict(int32_t index, v1::EndPrediction prediction);
  void Begun(const RequestSpec& spec, const std::optional<WorkerKey>& decode);
  void Finish(int32_t index, const RequestFigures& figures, v1::Final final);
  void Fail(int32_t index, const RequestFigures& figures, const absl::Status& status);
  std::optional<base::Instant> StalledSince() const;
  // An answer is about to end in an error. True for the first.
  bool NoteFailure();

  void OnClientGone();
  std::shared_ptr<RequestFlow> AddMember(RequestSpec spec, std::unique_ptr<RequestTrace> trace)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The request has this error: its flows end with it, too.
  void EndAll(const absl::Status& status, FinishReason reason);
  // Ends the request once all its answers are over.
  void ConcludeIfOver();
  // Adds what an answer took to what the request took.
  void Account(int32_t index, const v1::Usage& usage) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::vector<Member> Members() const;

  FlowContext* const context_;
  const std::string tenant_;
  const std::string request_id_;
  const int32_t best_;
  const std::shared_ptr<ClientSink> sink_;
  const base::Instant arrived_;
  const base::Instant deadline_;
  const Transport transport_;
  const std::optional<TraceContext> trace_;  // the first answer's, under which the others stand

  RequestSpec first_;  // until Begin, as the next
  std::unique_ptr<RequestTrace> first_trace_;

  mutable base::Mutex mutex_;
  AnswerRoll roll_ ABSL_GUARDED_BY(mutex_);
  std::vector<Member> members_ ABSL_GUARDED_BY(mutex_);  // by index; empty once all is over
  bool gone_ ABSL_GUARDED_BY(mutex_) = false;            // the client
  bool drained_ ABSL_GUARDED_BY(mutex_) = false;
  bool any_failed_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<HeldAnswers> held_ ABSL_GUARDED_BY(mutex_);  // of answers that are ranked
  GatheredBytes gathered_ ABSL_GUARDED_BY(mutex_);           // of held_
  std::optional<v1::Final> last_ ABSL_GUARDED_BY(mutex_);    // of the answer that ended last
  v1::Usage usage_ ABSL_GUARDED_BY(mutex_);                  // of all that ended
};

}  // namespace baton
