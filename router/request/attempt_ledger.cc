#include "router/request/attempt_ledger.h"

#include <algorithm>
#include <array>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace baton {
namespace {

constexpr std::array<std::string_view, 17> kOutcomeNames = {
    "finished",        "released",    "cancelled",     "deadline",    "full",
    "too_long",        "draining",    "revoked",       "expired",     "unknown_ticket",
    "layout_mismatch", "push_failed", "stream_broken", "worker_died", "device_fault",
    "not_finite",      "other"};

std::optional<AttemptOutcome> OutcomeOfReason(Reason reason) {
  switch (reason) {
    case Reason::kFull:
      return AttemptOutcome::kFull;
    case Reason::kTooLong:
      return AttemptOutcome::kTooLong;
    case Reason::kDraining:
    case Reason::kDrained:
      return AttemptOutcome::kDraining;
    case Reason::kRevoked:
      return AttemptOutcome::kRevoked;
    case Reason::kExpired:
      return AttemptOutcome::kExpired;
    case Reason::kUnknownTicket:
      return AttemptOutcome::kUnknownTicket;
    case Reason::kLayoutMismatch:
      return AttemptOutcome::kLayoutMismatch;
    case Reason::kPushFailed:
      return AttemptOutcome::kPushFailed;
    case Reason::kDeviceFault:
      return AttemptOutcome::kDeviceFault;
    case Reason::kLogitsNotFinite:
      return AttemptOutcome::kNotFinite;
    default:
      return std::nullopt;
  }
}

// Why the receiver of a push refused it; kNone where the push broke, or nobody says.
Reason RefusalOfPush(const ErrorDetail& detail) {
  if (detail.reason != Reason::kPushFailed) return Reason::kNone;
  const auto told = std::ranges::find(detail.values, "push_reason",
                                      [](const auto& value) { return value.first; });
  return told == detail.values.end() ? Reason::kNone : ReasonFromName(told->second);
}

bool EndsWithoutHarm(Reason reason) {
  return reason == Reason::kRevoked || reason == Reason::kExpired || reason == Reason::kDraining ||
         reason == Reason::kDrained;
}

}  // namespace

std::string_view AttemptOutcomeName(AttemptOutcome outcome) {
  return kOutcomeNames.at(static_cast<size_t>(outcome));
}

AttemptOutcome OutcomeOfStatus(const absl::Status& status) {
  const ErrorDetail detail = DetailOf(status);
  const Reason refusal = RefusalOfPush(detail);
  const Reason reason = EndsWithoutHarm(refusal) ? refusal : detail.reason;
  if (const auto outcome = OutcomeOfReason(reason)) return *outcome;
  switch (status.code()) {
    case absl::StatusCode::kOk:
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kCancelled:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kUnknown:
      return AttemptOutcome::kStreamBroken;
    case absl::StatusCode::kDataLoss:
      return AttemptOutcome::kPushFailed;
    default:
      return AttemptOutcome::kOther;
  }
}

bool IsWordOfReceiver(const absl::Status& status) {
  return EndsWithoutHarm(RefusalOfPush(DetailOf(status)));
}

bool CountsAgainstRequest(AttemptOutcome outcome) {
  switch (outcome) {
    case AttemptOutcome::kUnknownTicket:
    case AttemptOutcome::kPushFailed:
    case AttemptOutcome::kStreamBroken:
    case AttemptOutcome::kWorkerDied:
    case AttemptOutcome::kDeviceFault:
    case AttemptOutcome::kNotFinite:
    case AttemptOutcome::kOther:
      return true;
    default:
      return false;
  }
}

bool IsFinalRefusal(const absl::Status& status) {
  return status.code() == absl::StatusCode::kInvalidArgument &&
         ReasonOf(status) != Reason::kTooLong;
}

void AttemptLedger::Record(AttemptOutcome outcome, const std::vector<WorkerKey>& suspects,
                           base::Instant now, base::Duration avoid_for) {
  const bool counts = CountsAgainstRequest(outcome);
  if (counts) ++counted_;
  if (outcome == AttemptOutcome::kNotFinite) ++not_finite_;
  std::erase_if(avoid_until_, [&](const auto& avoided) { return avoided.second <= now; });
  for (const WorkerKey& key : suspects) {
    if (counts) suspects_.insert(key);
    if (outcome == AttemptOutcome::kTooLong) unfit_.insert(key);
    avoid_until_.emplace_back(key, now + avoid_for);
  }
}

bool AttemptLedger::NeedsCertainty(int max_killed) const {
  return static_cast<int>(suspects_.size()) >= max_killed;
}

std::optional<absl::Status> AttemptLedger::Verdict(const IsAlive& alive,
                                                   const AttemptLimits& limits,
                                                   const absl::Status& last) const {
  const auto dead = std::count_if(suspects_.begin(), suspects_.end(),
                                  [&](const WorkerKey& key) { return !alive(key); });
  const std::string last_words(last.message());
  if (not_finite_ >= limits.not_finite) {
    return MakeError(absl::StatusCode::kInternal, {.reason = Reason::kLogitsNotFinite},
                     absl::StrCat(not_finite_,
                                  " attempts came to the same end, so it is not tried "
                                  "again. Last: ",
                                  last_words));
  }
  if (dead >= limits.killed) {
    return MakeError(absl::StatusCode::kInternal, {.reason = Reason::kRequestKilledWorkers},
                     absl::StrCat(dead,
                                  " worker processes died while they ran this request; it "
                                  "is not tried again. Last: ",
                                  last_words));
  }
  if (counted_ >= limits.counted) {
    return MakeError(absl::StatusCode::kUnavailable, {.reason = Reason::kAttemptsExhausted},
                     absl::StrCat(counted_, " attempts failed. Last: ", last_words,
                                  ". Try again, or look at the workers' logs"));
  }
  return std::nullopt;
}

std::set<WorkerKey> AttemptLedger::Avoid(base::Instant now) const {
  std::set<WorkerKey> avoid;
  for (const auto& [key, until] : avoid_until_) {
    if (now < until) avoid.insert(key);
  }
  return avoid;
}

}  // namespace baton
