#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "baton/v1/inference.pb.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/eos/eos_log.h"
#include "common/rpc/generation.h"
#include "router/edge/client_sink.h"
#include "router/edge/request_spec.h"
#include "router/page/eos_figures.h"
#include "router/page/request_report.h"
#include "router/request/accepted_output.h"
#include "router/request/attempt.h"
#include "router/request/attempt_ledger.h"
#include "router/request/flow_context.h"
#include "router/request/request_progress.h"
#include "router/request/request_trace.h"
#include "router/workers/worker_calls.h"

namespace baton {

class AnswerPart;

// The life of one request at the router, over all its attempts. It begins when the request is
// validated, and its output goes to an AnswerSink:
//
//   auto flow = std::make_shared<RequestFlow>(&context, std::move(spec), sink, now, deadline);
//   if (context.registry->Add(tenant, id, flow)) flow->Begin();
//
// From then on it moves through these states by itself, and leaves the registry at its end:
//
//   preparing -> queued -> reserving -> prefilling -> decoding -> done
//                  ^____________ a new attempt ___________|
//
// Every event (the prompt was tokenized, a placement was found, a stream said something, the client
// cancelled, time passed) goes through one mailbox. Whoever posts into an idle flow runs it until
// the mailbox is empty, so the state below the line has one thread at a time, in order, without a
// thread of its own. Handlers never wait.
class RequestFlow final : public LiveRequest, public std::enable_shared_from_this<RequestFlow> {
 public:
  // `spec` is validated and has its request id; `trace` is null where it is not traced. `part` is
  // the sink of one of several answers, whose group is in the registry in the flow's place; else it
  // is null. Nothing happens before Begin.
  RequestFlow(FlowContext* context, RequestSpec spec, std::shared_ptr<AnswerSink> sink,
              base::Instant arrived, base::Instant deadline,
              std::unique_ptr<RequestTrace> trace = nullptr, AnswerPart* part = nullptr);

  // Tokenizes, queues and runs.
  void Begin() override;
  // Begins a further answer, whose spec has its prompt and was settled by the first one: best at
  // the decode worker that holds the prompt's KV cache for that one, if there is one.
  void BeginBeside(std::optional<WorkerKey> decode);
  void EndByDrain() override;
  // Ends it with an error from outside.
  void EndWith(const absl::Status& status, FinishReason reason);

  const std::string& request_id() const { return spec_.request_id; }
  void AddReports(std::vector<RequestReport>* reports) const override;

 private:
  enum class State { kPreparing, kQueued, kReserving, kPrefilling, kDecoding, kDone };

  struct PromptReady {
    absl::StatusOr<std::vector<TokenId>> prompt;
    std::string text;  // of the prompt, if it is echoed
  };
  struct BegunBeside {
    std::optional<WorkerKey> decode;
  };
  struct Placed {
    uint64_t waiter = 0;
    absl::StatusOr<Placement> placement;
  };
  struct ClientGone {};
  struct EndedFromOutside {
    absl::Status status;
    FinishReason reason = FinishReason::kError;
  };
  struct Tick {
    base::Instant at;  // stale unless it is the one armed last
  };
  using Event =
      std::variant<PromptReady, BegunBeside, Placed, CallEvent, ClientGone, EndedFromOutside, Tick>;

  // The name of a state as metrics spell it, or "" for a state that the workers do not know.
  static std::string_view StageOf(State state);

  void Post(Event event);
  void Handle(Event& event);

  // The request's life as a whole (request_flow.cc).
  void OnPromptReady(PromptReady& ready);
  void OnBegunBeside(BegunBeside& begun);
  // Takes a prompt that is new, and settles what depends on its length.
  absl::Status TakePrompt(std::vector<TokenId> prompt);
  // The prompt is settled; `echoed` is its text, if it is echoed.
  void BeginAnswer(std::string echoed);
  void EnterQueue();
  // The queue had no room for it, or needed what it had.
  void RejectByQueue(const absl::Status& full);
  RoutingNeed NeedNow() const;
  void OnPlaced(Placed& placed);
  // No worker could be found for it.
  void FailUnplaced(const absl::Status& status);
  void OnClientGone();
  void OnTick();
  void ArmTick();
  void EnterState(State state);
  RequestProgress Progress() const {
    return {spec_,
            *output_,
            arrived_,
            logged_,
            watched_ != nullptr,
            NextScore(),
            trace_ ? trace_->attempt_context() : nullptr};
  }
  // The index in the prompt of the next token that a score is awaited for; 0: of none.
  int32_t NextScore() const {
    const bool some = spec_.prompt_logprobs && scored_ < std::ssize(spec_.prompt);
    return some ? scored_ : 0;
  }
  // Its prompt is being computed, or never will be: closes the account of the wait before that.
  void StopWaiting();
  // What follows a failed attempt: the end of the request, a wait for certainty about a death, or
  // the queue again.
  void RetryOrGiveUp();

  // How log lines name it.
  std::string Name() const;
  RequestReport Report() const;

  // How a request ends, and who is told (flow_ending.cc).
  void Finish(const OutputEnd& end);
  void Fail(const absl::Status& status, FinishReason reason);
  void FailByDeadline();
  void Reject(const absl::Status& status);
  void Close(FinishReason reason, const absl::Status& status);
  void LogEnd(const RequestFigures& figures) const;
  void WriteSummary(FinishReason reason, const absl::Status& status);
  v1::Final FinalMessage(const OutputEnd& end) const;

  // The attempt under way: its beginning, its news and its end (flow_attempts.cc).
  void OpenAttempt(Placement placement);
  void OnCall(CallEvent& event);
  void Apply(const AttemptNews& news);
  void Note(const AttemptFigures& figures);
  void FailAttempt(const AttemptFailure& failure);
  // Nothing happens when there is none. See Attempt::End.
  void EndAttempt(AttemptOutcome outcome, FinishReason release);

  // The prompt's way to the client (flow_prompt.cc). TakeScores is false when the attempt ended by
  // them.
  void ShowPrompt(std::string text);
  bool TakeScores(const PlacedScores& scores);

  // The way of a token to the client (flow_tokens.cc). TakeToken is false when the flow or its
  // attempt ended by the token.
  bool TakeToken(const PlacedToken& token, bool may_repeat);
  // Tells when an answer goes on with other numerics than those of the tokens before.
  void NoteNumerics();
  void Deliver(const PlacedToken& token, std::string text);
  void Predict(const PlacedToken& token);
  void Foresee(const EndEstimate& end);
  void LogToken(const PlacedToken& token);
  // The answers of a beam search (flow_beams.cc).
  void ApplyToBeams(const AttemptNews& news);
  void FinishBeams();
  int32_t BeamTokens() const;  // of all of them
  // The message of one of them, whose place among them is `index`.
  v1::Final BeamFinal(int32_t index) const;

  // The end is known: a worker's last word on it is awaited for so long.
  void EndSoon(OutputEnd end, base::Duration within);

  FlowContext* const context_;
  RequestSpec spec_;
  const std::shared_ptr<AnswerSink> sink_;
  AnswerPart* const part_;  // the sink of one of several answers; null: it is the only one
  const base::Instant arrived_;
  const base::Instant deadline_;
  const uint64_t text_work_;             // its id on the text pool
  const bool logged_;                    // the EOS log has its rows and its summary
  std::unique_ptr<RequestTrace> trace_;  // until the end; null: not traced

  // Written by whoever runs the mailbox, for Report.
  struct Shown {
    std::atomic<State> state{State::kPreparing};
    std::atomic<int32_t> prompt_tokens{0}, tokens{0};
    std::atomic<float> expected_remaining{0}, p50{0}, p90{0};  // 0: nothing is foreseen
  };
  Shown shown_;

  base::Mutex mutex_;
  std::deque<Event> mailbox_ ABSL_GUARDED_BY(mutex_);
  bool running_ ABSL_GUARDED_BY(mutex_) = false;

  // --- What follows is owned by whoever runs the mailbox. ---
  State state_ = State::kPreparing;
  std::optional<AcceptedOutput> output_;
  double logprob_sum_ = 0;           // of the tokens in it
  std::vector<BeamResult> beams_;    // what a search found; `output_` stays empty
  std::optional<WorkerKey> beside_;  // where its first attempt runs best
  std::unique_ptr<EosRequestLog> eos_rows_;
  std::unique_ptr<WatchedAnswer> watched_;  // null: the page does without it
  std::unique_ptr<Attempt> attempt_;
  AttemptLedger ledger_;
  int32_t opened_ = 0;            // attempts, each with its number
  int32_t attempts_ = 0;          // of these, but for those that broke nothing and were in vain
  std::string attempt_numerics_;  // of the decode worker of the attempt that was opened last
  std::string numerics_;          // and of that whose token was accepted last
  int32_t scored_ =
      1;  // tokens of the prompt that the client has the logprobs of, or that have none
  bool tried_ = false;  // an attempt was opened, perhaps one that a full worker refused
  // Since when it waits for its prompt to be computed, a further answer from when it could begin;
  // empty while that or decoding goes on.
  std::optional<base::Instant> waiting_since_;
  base::Instant waited_until_{};  // where that is empty
  uint64_t waiter_ = 0;           // in the admission queue; 0 = none
  absl::Status last_failure_;
  std::string fingerprint_;  // of the model that drew the first tokens
  // The end is known, but until `end_by_` the worker's last word on it is still awaited.
  int32_t predicted_step_ = 0;  // of the last prediction that was for the client
  std::optional<OutputEnd> pending_end_;
  base::Instant end_by_ = base::kNever;
  base::Instant tick_at_ = base::kNever;
  // Set while it is uncertain whether the request killed its workers.
  base::Instant settle_until_ = base::kNever;
  base::Instant settle_at_ = base::kNever;

  base::Instant first_token_at_ = base::kNever;
  base::Instant last_token_at_{};
  std::optional<OutputEnd> end_;
  bool rejected_ = false;
  int32_t cached_tokens_ = 0;
  double unix_arrived_ = 0;
  v1::Timings timings_;
  std::string prefill_worker_;
  std::string decode_worker_;
};

}  // namespace baton
