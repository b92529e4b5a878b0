#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/status.h"

namespace baton::base {

// Stops this process at a named point of its work, for the fault tests.
//
// BATON_FAILPOINT is a comma list of `state:action`; `state@N:action` acts on the Nth hit only (1 =
// the first), otherwise every hit acts. Actions: `stop` (SIGSTOP to the whole process), `exit`
// (exit code 86, nothing flushed), `abort`, `delay_ms=N` (the hitting thread sleeps),
// `delay_us_each=N` (it sleeps that long for each unit that the state counts).
//
// States of `baton-prefill`, in order of a request's life:
//   accepted         the Prefill stream was accepted; nothing was admitted yet
//   opening          the first channel to a decode worker is about to be made
//   queued           admitted by the engine, waiting for its blocks
//   prefilling       the engine began to compute the prompt
//   pushing          a piece of a block is about to be sent
//   sending_parcel   a parcel of a pair was granted and gathered, and is about to be sent
//   first_token      the first token was drawn and is about to be sent to the router
//   first_token_sent the first token was handed to the stream
//   committing       Commit is about to be sent
//   committed        the decode worker accepted; Final is not sent yet
// States of `baton-decode`:
//   accepted         the Decode stream's start was read; nothing was admitted yet
//   queued           admitted, standing in the reservation line or the local queue
//   reserved         blocks are granted; Reserved is about to be sent
//   receiving        a piece of the push is about to be written
//   received_parcel  a parcel of a pair is in its staging buffer, not in its blocks yet
//   committing       Commit was read and verified; the engine was not told yet
//   started          Started is about to be sent
//   prefilling       local_prefill only: the engine began to compute the prompt
//   decoding         a token after the first one is about to be sent
//   preempted        the engine preempted a sequence
//   finishing        Final is about to be sent
// And of both:
//   stepping         the engine is about to compute a step, whose units are tokens; a delay makes
//                    a slower device of it
//
// Nothing is armed by default, and Failpoint() then costs one relaxed load.

// Reads `spec` as above. Unknown states are refused by ArmFailpoints only in form, not in name: the
// names belong to the binaries.
absl::Status ArmFailpoints(std::string_view spec);
void DisarmFailpoints();

// Marks a state, of `units` things that it is about; acts if armed for it. Thread-safe.
void Failpoint(const char* state, int64_t units = 1);

}  // namespace baton::base
