// The stream of an OpenAI-compatible server: its events do not depend on where the bytes are cut.
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "tests/fuzz/fuzz_target.h"
#include "tools/bench/client/completion_chunk.h"
#include "tools/bench/client/sse_parser.h"

namespace baton::fuzz {
namespace {

constexpr size_t kMaxEventBytes = 256;

// The events of a stream that arrives in pieces of `piece_bytes`, or nothing if it was refused.
std::optional<std::vector<std::string>> EventsOf(std::string_view stream, size_t piece_bytes) {
  std::vector<std::string> events;
  bench::SseParser parser(kMaxEventBytes, [&](std::string_view data) {
    BATON_CHECK(data.size() <= kMaxEventBytes) << data.size();
    events.emplace_back(data);
  });
  for (size_t at = 0; at < stream.size(); at += piece_bytes) {
    if (!Accepted(parser.Feed(stream.substr(at, piece_bytes)))) return std::nullopt;
  }
  return events;
}

}  // namespace

FUZZ_TARGET(sse) {
  const auto events = EventsOf(input, std::max<size_t>(1, input.size()));
  for (const size_t piece_bytes : {1, 2, 7}) {
    BATON_CHECK(EventsOf(input, piece_bytes) == events) << piece_bytes << " bytes at once";
  }
  if (!events) return;
  for (const std::string& event : *events) {
    const auto chunk = bench::ParseCompletionChunk(event);
    if (Accepted(chunk.status())) BATON_CHECK(chunk->tokens >= 0) << chunk->tokens;
    bench::ErrorMessageOf(event);
  }
}

}  // namespace baton::fuzz
