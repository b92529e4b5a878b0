#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace baton::bench {

// The output tokens that arrived in one message of the server: an event of an OpenAI stream, or a
// delta of Baton's.
struct Chunk {
  double at = 0;  // seconds since the start of the run
  int32_t tokens = 0;
};

// Where the server says its time went, in milliseconds: on the way to the first token, and, in
// kv_transfer, from there on. A record has none where the protocol does not say.
struct ServerTimings {
  double queue_ms = 0;
  double prefill_ms = 0;
  double kv_transfer_ms = 0;
  double ttft_ms = 0;
};

// What came of one request, in raw numbers, so that every figure can be computed again from them.
// Times are seconds since the start of the run.
struct RequestRecord {
  int64_t index = 0;
  double scheduled = 0;  // arrival by plan; in a closed loop, when the request was sent
  double sent = 0;
  double ended = 0;           // last message or failure
  std::vector<Chunk> chunks;  // in order; the first is the first token
  absl::Status status;        // when it is an error, the rest is what came before it
  bool cancelled = false;  // by us, as the run was over or interrupted; neither success nor failure

  std::string request_id;  // as the server names it
  int32_t planned_prompt_tokens = -1;
  int32_t max_tokens = 0;
  int32_t prompt_tokens = 0;  // as the server counts
  int32_t cached_tokens = 0;
  int32_t output_tokens = 0;                // as the server counts, EOS included
  bool counted_by_server = true;            // else output_tokens is the sum over chunks
  std::optional<int32_t> natural_end_step;  // under forced lengths
  std::string finish_reason;  // as `baton generate --json` spells it; the peer's word for others
  int32_t attempts = 1;
  std::optional<ServerTimings> timings;

  bool ok() const { return status.ok() && !cancelled; }
  double first_token() const { return chunks.empty() ? ended : chunks.front().at; }
  double last_token() const { return chunks.empty() ? ended : chunks.back().at; }
};

}  // namespace baton::bench
