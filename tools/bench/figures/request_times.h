#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "tools/bench/load/request_record.h"

namespace baton::bench {

// The times of one request that figures are made of, seconds. t0 is the scheduled arrival, t_1 the
// first chunk, t_n the last one: a closing message that brings no token is not waited for.

// The output tokens as the server counts them, or what arrived where it does not say.
inline int64_t OutputTokens(const RequestRecord& record) {
  if (record.output_tokens > 0) return record.output_tokens;
  int64_t tokens = 0;
  for (const Chunk& chunk : record.chunks) tokens += chunk.tokens;
  return tokens;
}

inline double Ttft(const RequestRecord& record) { return record.first_token() - record.scheduled; }
inline double EndToEnd(const RequestRecord& record) {
  return record.last_token() - record.scheduled;
}
inline double DecodeSeconds(const RequestRecord& record) {
  return record.last_token() - record.first_token();
}

// The mean time per token after the first one; absent with fewer than two tokens.
inline std::optional<double> Tpot(const RequestRecord& record) {
  const int64_t tokens = OutputTokens(record);
  if (tokens < 2) return std::nullopt;
  return (EndToEnd(record) - Ttft(record)) / static_cast<double>(tokens - 1);
}

// The time from the first token to the second one; absent where there is none or both came in one
// chunk.
inline std::optional<double> FirstGap(const RequestRecord& record) {
  if (record.chunks.size() < 2 || record.chunks[0].tokens > 1) return std::nullopt;
  return record.chunks[1].at - record.chunks[0].at;
}

// The longest time between consecutive chunks; absent with fewer than two.
inline std::optional<double> MaxGap(const RequestRecord& record) {
  std::optional<double> largest;
  for (size_t i = 1; i < record.chunks.size(); ++i) {
    largest = std::max(largest.value_or(0), record.chunks[i].at - record.chunks[i - 1].at);
  }
  return largest;
}

}  // namespace baton::bench
