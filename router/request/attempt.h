#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "baton/worker/v1/generation.pb.h"
#include "common/base/clock.h"
#include "router/placement/placer.h"
#include "router/request/attempt_ledger.h"
#include "router/workers/worker_calls.h"

namespace baton {

// How far the Decode stream of an attempt has come.
enum class DecodePhase {
  kOpened,
  kReserved,  // the decode worker granted blocks; skipped where it prefills itself
  kStarted    // it has the KV cache: the proof of a commit
};

// One Decode stream, one Prefill stream and their reservation, as plain data of their RequestFlow.
// Nothing passes from one attempt to another.
struct Attempt {
  int32_t number = 1;
  int32_t first_index = 0;  // of the tokens it may bring: as many were accepted before
  Placement placement;
  RoutingNeed need;

  std::shared_ptr<DecodeCall> decode;
  uint64_t decode_call = 0;
  std::shared_ptr<PrefillCall> prefill;
  uint64_t prefill_call = 0;

  DecodePhase phase = DecodePhase::kOpened;
  bool first_token_seen = false;  // from the prefill worker
  bool prefill_over = false;      // its last word was received
  worker::v1::Ticket ticket;
  std::string push_address;
  int32_t skip_blocks = 0;

  base::Instant prefill_opened{};
  // Of the answer that it waits for from the decode worker. Once it is due the worker is asked
  // after: one that still says something is slow, and the wait goes on until `give_up_at`.
  base::Instant deadline = base::kNever;
  base::Instant give_up_at = base::kNever;
  const char* waits_for = "answer";                        // that answer, for messages
  AttemptOutcome overdue = AttemptOutcome::kStreamBroken;  // if it does not come from a live worker

  void Await(const char* answer, AttemptOutcome if_slow, base::Instant due, base::Instant until) {
    waits_for = answer;
    overdue = if_slow;
    deadline = due;
    give_up_at = until;
  }
  void StopAwaiting() { deadline = give_up_at = base::kNever; }

  bool started() const { return phase == DecodePhase::kStarted; }
  bool local() const { return !placement.prefill.has_value(); }
};

}  // namespace baton
