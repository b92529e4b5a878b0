#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "common/base/clock.h"
#include "router/router_options.h"
#include "router/workers/worker_calls.h"
#include "router/workers/worker_view.h"

namespace baton {

// How an attempt ended; the label `outcome` of baton_attempts_total.
enum class AttemptOutcome {
  kFinished,   // the worker said so
  kReleased,   // the router said so: stop string, first token was the end
  kCancelled,  // the client went
  kDeadline,
  kFull,
  kTooLong,
  kDraining,
  kRevoked,
  kExpired,
  kUnknownTicket,
  kLayoutMismatch,
  kPushFailed,
  kStreamBroken,
  kWorkerDied,
  kDeviceFault,
  kNotFinite,  // the worker's logits for it were not finite numbers
  kOther,
};
std::string_view AttemptOutcomeName(AttemptOutcome outcome);

// What the end of a stream means while its request is not over. A stream that ended OK ended too
// early.
AttemptOutcome OutcomeOfStatus(const absl::Status& status);

// Whether a prefill worker passes on what the decode worker said of the push: that the attempt has
// ended there, for a reason that breaks nothing. The attempt then ended as that worker says, which
// may be heard here before it says so itself.
bool IsWordOfReceiver(const absl::Status& status);

// Whether something broke in an attempt that ended so, which counts towards the limit of attempts.
// A dead process, a broken stream and a failed push do; refusals and revocations do not. Those that
// do not end by other bounds: a worker that had no room, or wants none, is asked again after a
// while and until the request's deadline, and one that finds it too long is not asked again.
bool CountsAgainstRequest(AttemptOutcome outcome);

// Whether trying again is pointless: the request itself is at fault. What one worker finds too long
// is that worker's affair, for the request's own lengths were settled when it came.
bool IsFinalRefusal(const absl::Status& status);

// What went wrong with the attempts of one request so far. Not thread-safe.
class AttemptLedger final {
 public:
  using IsAlive = std::function<bool(const WorkerKey&)>;

  // Notes how an attempt ended. `suspects` are the processes that may have died under it.
  void Record(AttemptOutcome outcome, const std::vector<WorkerKey>& suspects, base::Instant now,
              base::Duration avoid_for);

  // Whether the request ends if all suspects are dead. If so it is worth waiting for certainty: a
  // process that died may not have been missed yet, and one whose connection broke is back at once.
  bool NeedsCertainty(int max_killed) const;

  // The error that ends the request now, if any.
  std::optional<absl::Status> Verdict(const IsAlive& alive, const AttemptLimits& limits,
                                      const absl::Status& last) const;

  std::set<WorkerKey> Avoid(base::Instant now) const;
  // Those that found it too long, though placement took them for large enough.
  const std::set<WorkerKey>& unfit() const { return unfit_; }

 private:
  int counted_ = 0;
  int not_finite_ = 0;
  std::set<WorkerKey> suspects_, unfit_;
  std::vector<std::pair<WorkerKey, base::Instant>> avoid_until_;
};

}  // namespace baton
