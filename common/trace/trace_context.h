#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace baton {

// Where a call stands in a trace that spans processes, as W3C's Trace Context has it in the headers
// `traceparent` and `tracestate`.
struct TraceContext {
  uint64_t trace_high = 0;  // the trace's id: 128 bits, not all of them 0
  uint64_t trace_low = 0;
  uint64_t span = 0;  // the span that called, not 0
  bool sampled = false;
  std::string state;  // of other tracers, passed on as it came; "" = none
};

// The names of the headers, and of the metadata over gRPC.
constexpr std::string_view kTraceparentHeader = "traceparent";
constexpr std::string_view kTracestateHeader = "tracestate";

// Reads a traceparent of version 00, or of a later one by what that shares with it. Empty where it
// is malformed: then there is no trace to continue.
std::optional<TraceContext> ParseTraceparent(std::string_view text);
// "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
std::string FormatTraceparent(const TraceContext& context);

// The context of a call that came with these headers. Empty unless there is one traceparent and it
// is well formed. A state that is too long, or has bytes that no header may have, is left behind.
std::optional<TraceContext> ContextOfHeaders(const std::vector<std::string>& traceparents,
                                             const std::vector<std::string>& tracestates);

std::string TraceIdHex(const TraceContext& context);  // 32 digits
std::string SpanIdHex(uint64_t id);                   // 16 digits

// Whether a trace that nobody has decided about is among the share `ratio` that is sampled. It
// depends on the id alone, by the rule of OpenTelemetry's TraceIdRatioBased sampler, so that
// whoever decides by the same share decides alike.
bool SampledByRatio(const TraceContext& context, double ratio);

}  // namespace baton
