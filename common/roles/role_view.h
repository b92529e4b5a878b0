#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "common/base/clock.h"

// What is known of the workers of each role where some of them serve both.
namespace baton {

enum class WorkerRole { kPrefill, kDecode };
// The role as metrics and certificates name it: "prefill", "decode".
std::string_view WorkerRoleName(WorkerRole role);
inline WorkerRole OtherRole(WorkerRole role) {
  return role == WorkerRole::kPrefill ? WorkerRole::kDecode : WorkerRole::kPrefill;
}

// The workers that take new requests in one role, as one router sees them.
struct RoleView {
  int32_t workers = 0;
  bool fixed = false;  // one of them has no other role
  // Of those that could change, by their numbers, which are their incarnations; 0: there is none.
  uint64_t lowest = 0, highest = 0;
  int64_t queued_prompt_tokens = 0;  // that wait there, in sum
  double fill = 0;                   // as FillOf says, in sum
  friend bool operator==(const RoleView&, const RoleView&) = default;
};

// What a router tells a worker of all workers of its model.
struct ClusterView {
  RoleView prefill, decode;
  int64_t waiting_prompt_tokens = 0;  // in that router's queue
  double prompt_token_s = 0;          // what computing one takes, on the mean; 0: nobody knows yet
  double prompt_load = 0;             // as PromptLoad says, over all that compute prompts, in sum
  const RoleView& of(WorkerRole role) const {
    return role == WorkerRole::kPrefill ? prefill : decode;
  }
  friend bool operator==(const ClusterView&, const ClusterView&) = default;
};

// What speaks for a change.
struct RoleSignals {
  double prompt_wait_s = 0;  // until a prompt that comes now is computed
  double prefill_load = 0;   // share of the time of prefill workers that prompts took lately
  double decode_fill = 0;    // of decode workers, on the mean
};
// Of what all routers see: each has a queue of its own, and all see the same workers, of which the
// one counts that sees the most.
RoleSignals SignalsOf(std::span<const ClusterView> views);

// What a worker has to do as one that decodes.
struct DecodeWork {
  int32_t sequences = 0, seats = 0;
  int32_t blocks_used = 0, blocks_total = 0, block_size = 1;
  double expected_tokens = 0;  // that are foreseen of those that run; 0: nothing is
  double step_s = 0;           // of a step without prompts; 0: not known
  double target_s = 0;         // what it may take; 0: no target is given
};
// How full it is, where 1 is all that it can bear: seats, blocks or the time of a step, whichever
// is nearest. Half of what is foreseen counts as blocks already, because answers end one by one.
double FillOf(const DecodeWork& work);

}  // namespace baton
