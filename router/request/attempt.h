#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "baton/worker/v1/generation.pb.h"
#include "common/base/clock.h"
#include "common/rpc/generation.h"
#include "router/placement/placer.h"
#include "router/request/attempt_ledger.h"
#include "router/request/request_progress.h"
#include "router/workers/worker_calls.h"

namespace baton {

// Why an attempt cannot go on.
struct AttemptFailure {
  AttemptOutcome outcome = AttemptOutcome::kOther;
  absl::Status status;
  WorkerKind blamed = WorkerKind::kDecode;
};

// What an attempt learned about times and caches. Empty fields say nothing new.
struct AttemptFigures {
  double queue_ms = 0;  // that a worker says it let the request wait; to be added up
  std::optional<double> prefill_ms;
  std::optional<double> kv_transfer_ms;
  std::optional<int32_t> cached_tokens;
};

// What one event of an attempt means for its request, in the order in which it counts.
struct AttemptNews {
  bool prefill_began = false;
  bool decode_began = false;
  AttemptFigures figures;
  std::vector<PlacedScores> scores;  // before the tokens
  std::vector<PlacedToken> tokens;
  // The first of them may be one that was accepted already: prefill and decode worker both tell it.
  bool may_repeat = false;
  // A worker says that the request is over, and what a beam search found.
  std::optional<WorkerEnding> ending;
  std::vector<BeamResult> beams;
  // Nothing more comes that a request whose end is known should wait for.
  bool last_word = false;
  std::optional<AttemptFailure> failure;
};

// One try to run a request: a Decode stream, the Prefill stream beside it, and what this router has
// at both workers meanwhile. It checks that the workers keep to the protocol, and says what their
// messages mean; what becomes of the request is its RequestFlow's affair, which hands it the events
// of its streams and destroys it when it is over. Nothing passes from one attempt to another.
// Not thread-safe; no call waits.
class Attempt final {
 public:
  // Opens the Decode stream. `sink` gets the events of all its streams. The context must outlive
  // this.
  Attempt(FlowContext* context, const RequestProgress& progress, int32_t number,
          Placement placement, RoutingNeed need, CallSink sink, base::Instant deadline);
  // Cancels what End did not end.
  ~Attempt();

  Attempt(const Attempt&) = delete;
  Attempt& operator=(const Attempt&) = delete;

  // Whether `event` comes from one of its streams; anything else is of an older attempt.
  bool Owns(const CallEvent& event) const;
  AttemptNews Hear(CallEvent& event);
  // Asks the stream that `event` came from for its next message.
  void ReadNext(const CallEvent& event);

  // When Overdue is to be asked; never, while no answer is awaited.
  base::Instant due() const { return due_; }
  // An answer is due at `now`. Slowness is not death: while the worker says something else, the
  // wait goes on for a while.
  std::optional<AttemptFailure> Overdue(base::Instant now);

  // What it brought will be done again: its tenant does not pay for it.
  void SetInVain() { placement_.tenant.SetInVain(); }
  // Tells the decode worker early that the request is over. Its stream says nothing more.
  void Release(FinishReason reason);
  // The end. The decode worker is told `release`; with kNone its stream is cancelled, unless it
  // ended by itself.
  void End(AttemptOutcome outcome, FinishReason release);

  // Whom a failure is blamed on, and what it was on a second look. Tells the directory.
  struct Blame {
    AttemptOutcome outcome = AttemptOutcome::kOther;
    WorkerKey suspect;
  };
  Blame BlameFor(const AttemptFailure& failure) const;

  int32_t number() const { return number_; }
  int32_t first_index() const { return first_index_; }
  bool local() const { return !placement_.prefill.has_value(); }
  bool finished() const { return phase_ == Phase::kFinished; }
  const std::string& decode_worker() const { return placement_.decode.view.address; }
  WorkerKey decode_key() const { return placement_.decode.view.key(); }
  const std::string& prefill_worker() const { return prefill_worker_; }  // "" before its stream
  const std::string& fingerprint() const { return placement_.decode.view.facts.fingerprint; }

 private:
  // How far the Decode stream has come.
  enum class Phase {
    kOpened,
    kReserved,  // the decode worker granted blocks; skipped where it prefills itself
    kStarted,   // it has the KV cache: the proof of a commit
    kFinished   // it sent Final
  };

  // The streams (attempt_streams.cc).
  AttemptNews OnReserved(const worker::v1::Reserved& reserved);
  AttemptNews OnStarted(const worker::v1::DecodeStarted& started);
  AttemptNews OnScores(const worker::v1::PromptScores& scores, WorkerKind from);
  AttemptNews OnTokens(const worker::v1::Tokens& tokens) const;
  AttemptNews OnDecodeFinal(const worker::v1::DecodeFinal& final);
  AttemptNews OnDecodeEnded(const absl::Status& status) const;
  AttemptNews OnFirstToken(const worker::v1::FirstToken& first);
  AttemptNews OnPrefillFinal(const worker::v1::PrefillFinal& final);
  AttemptNews OnPrefillEnded(const absl::Status& status);

  void OpenPrefill();
  // After a refusal: opens the prefill at another worker. False when there is none.
  bool TryOtherPrefill(const absl::Status& status);
  CallOptions OptionsOfCall(uint64_t call) const;
  worker::v1::Generation Generation() const;
  // The decode worker owes an answer. One that still says something when it is due is slow, and
  // has until `give_up_at`; `if_slow` is what a missing answer means then.
  void Await(const char* answer, AttemptOutcome if_slow, base::Instant due,
             base::Instant give_up_at);
  // What its tenant pays for; empty where a search was cut off, which tells of its steps at its
  // end.
  std::optional<int64_t> OutputTokens() const;
  void StopAwaiting() { due_ = give_up_at_ = base::kNever; }
  bool started() const { return phase_ >= Phase::kStarted; }
  // The decode worker began before the prefill worker's scores were heard, which go first.
  bool waits_for_scores() const {
    return !local() && progress_.score_from > 0 && !first_token_at_ && !prefill_over_;
  }

  // Notes what the decode worker's prefix cache holds now.
  void LearnPrompt(const worker::v1::DecodeStarted& started) const;
  void LearnAnswer() const;
  // Notes how long the KV cache took to come to the decode worker.
  void LearnHandoff() const;

  FlowContext* const context_;
  const RequestProgress progress_;
  const int32_t number_;
  const int32_t first_index_;  // of the tokens it may bring: as many were accepted before
  Placement placement_;
  RoutingNeed need_;
  const CallSink sink_;
  const base::Instant deadline_;  // of the request

  std::shared_ptr<DecodeCall> decode_;
  uint64_t decode_call_ = 0;
  std::shared_ptr<PrefillCall> prefill_;
  uint64_t prefill_call_ = 0;
  std::string prefill_worker_;

  Phase phase_ = Phase::kOpened;
  std::optional<worker::v1::DecodeStarted> held_started_;  // while it waits for scores
  bool decode_unread_ = false;  // its stream was not asked for more meanwhile
  bool prefill_over_ = false;   // its Final was received
  bool prefill_ended_ = false;  // its stream is over, too
  worker::v1::Ticket ticket_;
  std::string push_address_;
  int32_t skip_blocks_ = 0;
  base::Instant prefill_opened_{};
  std::optional<base::Instant> first_token_at_;  // from the prefill worker
  int64_t beam_tokens_ = 0;                      // that a search took

  base::Instant due_ = base::kNever;
  base::Instant give_up_at_ = base::kNever;
  const char* awaited_ = "answer";
  AttemptOutcome if_slow_ = AttemptOutcome::kStreamBroken;
};

}  // namespace baton
