#include "common/engine/command_gate.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace baton {
namespace {

// The queue's own bound never refuses: its places are counted per admitted sequence.
constexpr size_t kNominalCapacity = 1;

absl::Status Full(int64_t limit) {
  return MakeError(absl::StatusCode::kResourceExhausted,
                   {.reason = Reason::kFull, .values = {{"limit", absl::StrCat(limit)}}},
                   absl::StrCat("the worker's queue holds its limit of ", limit,
                                " requests; try another worker or raise --max-num-queued-reqs"));
}

}  // namespace

CommandGate::CommandGate(const SequenceLimits& limits, int64_t max_queued)
    : limits_(limits), max_queued_(max_queued), queue_(kNominalCapacity) {}

absl::StatusOr<SequenceId> CommandGate::Admit(SequenceSpec spec) {
  BATON_RETURN_IF_ERROR(CheckSpec(spec, limits_));
  base::MutexLock lock(&mutex_);
  BATON_RETURN_IF_ERROR(refuse_);
  if (Queued() >= max_queued_) return Full(max_queued_);
  return Add(std::move(spec));
}

SequenceId CommandGate::AdmitOwn(SequenceSpec spec) {
  base::MutexLock lock(&mutex_);
  own_queued_ = true;
  return Add(std::move(spec));
}

void CommandGate::OwnStarted() {
  base::MutexLock lock(&mutex_);
  own_queued_ = false;
}

int64_t CommandGate::Queued() const {
  return static_cast<int64_t>(admitted_ - started_) - (own_queued_ ? 1 : 0);
}

SequenceId CommandGate::Add(SequenceSpec spec) {
  const SequenceId id(++admitted_);
  live_.emplace(id, Sent());
  queue_.PushReserved({.kind = Command::Kind::kAdd, .sequence = id, .spec = std::move(spec)});
  return id;
}

void CommandGate::CommitImport(SequenceId sequence, SampledToken first) {
  Send(&Sent::commit, {.kind = Command::Kind::kCommitImport,
                       .sequence = sequence,
                       .spec = {},
                       .first = std::move(first)});
}

void CommandGate::Cancel(SequenceId sequence) {
  Send(&Sent::cancel, {.kind = Command::Kind::kCancel, .sequence = sequence});
}

void CommandGate::ReturnLease(SequenceId sequence) {
  Send(&Sent::return_lease, {.kind = Command::Kind::kReturnLease, .sequence = sequence});
}

void CommandGate::Send(bool Sent::*once, Command command) {
  base::MutexLock lock(&mutex_);
  const auto found = live_.find(command.sequence);
  if (found == live_.end() || std::exchange(found->second.*once, true)) return;
  queue_.PushReserved(std::move(command));
}

void CommandGate::Drain() {
  base::MutexLock lock(&mutex_);
  if (!refuse_.ok()) return;
  refuse_ = MakeError(absl::StatusCode::kUnavailable, {.reason = Reason::kDraining},
                      "the worker is shutting down; try another worker");
}

void CommandGate::Close(absl::Status why) {
  {
    base::MutexLock lock(&mutex_);
    refuse_ = std::move(why);
  }
  queue_.Close();
}

void CommandGate::SetStarted(uint64_t total) {
  base::MutexLock lock(&mutex_);
  started_ = total;
}

void CommandGate::Forget(std::span<const SequenceId> sequences) {
  base::MutexLock lock(&mutex_);
  for (const SequenceId id : sequences) live_.erase(id);
}

}  // namespace baton
