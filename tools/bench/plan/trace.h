#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/clock.h"

namespace baton::bench {

// One recorded request: when and how long, never its text.
struct TraceRow {
  base::Duration at{};  // since the first row
  int32_t input_tokens = 0;
  int32_t output_tokens = 0;
  // Names of the prompt's leading blocks of TraceOptions::block_tokens tokens each, or none. Equal
  // names at the start of two prompts stand for equal tokens.
  std::vector<uint64_t> hash_ids;
};

struct TraceOptions {
  // Times are multiplied by it: 0.5 replays twice as fast.
  double time_scale = 1;
  int32_t block_tokens = 512;  // of one hash id
  // What comes later is left out: rows at or after `duration` (scaled time, zero = no limit), and
  // those beyond `rows`, counted from `warmup` (scaled time) on.
  base::Duration warmup{};
  base::Duration duration{};
  int64_t rows = std::numeric_limits<int64_t>::max();
};

// Reads a trace, with rows in order of time. Its first line tells which of two forms it has. The
// CSV of the Azure LLM inference traces has a header and rows such as
//
//   TIMESTAMP,ContextTokens,GeneratedTokens
//   2023-11-16 18:15:46.6805900,374,44
//
// The JSONL of Mooncake has "hash_ids" where prefixes are shared; other keys are ignored:
//
//   {"timestamp": milliseconds, "input_length": n, "output_length": n, "hash_ids": [...]}
//
// INVALID_ARGUMENT names file and line, what was found and what was expected; NOT_FOUND when the
// file cannot be opened.
absl::StatusOr<std::vector<TraceRow>> ReadTrace(const std::string& path,
                                                const TraceOptions& options);

}  // namespace baton::bench
