#include "common/trace/trace_context.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace baton {
namespace {

// "vv-" trace "-" span "-" flags
constexpr size_t kTraceAt = 3;
constexpr size_t kSpanAt = 36;
constexpr size_t kFlagsAt = 53;
constexpr size_t kLength = 55;
constexpr uint64_t kForbiddenVersion = 0xff;
// What every tracer has to pass on at least; nobody is asked for more.
constexpr size_t kMaxStateBytes = 512;

// Small letters only: the rule of the format.
std::optional<uint64_t> ParseHex(std::string_view text) {
  uint64_t value = 0;
  for (const char c : text) {
    const bool digit = c >= '0' && c <= '9';
    if (!digit && (c < 'a' || c > 'f')) return std::nullopt;
    value = value << 4 | static_cast<uint64_t>(digit ? c - '0' : c - 'a' + 10);
  }
  return value;
}

bool IsHeaderValue(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c >= ' ' && c <= '~'; });
}

}  // namespace

std::optional<TraceContext> ParseTraceparent(std::string_view text) {
  if (text.size() < kLength) return std::nullopt;
  for (const size_t dash : {kTraceAt, kSpanAt, kFlagsAt}) {
    if (text[dash - 1] != '-') return std::nullopt;
  }
  const auto version = ParseHex(text.substr(0, 2));
  if (!version || *version == kForbiddenVersion) return std::nullopt;
  const bool longer = text.size() > kLength;
  if (longer && (*version == 0 || text[kLength] != '-')) return std::nullopt;
  const auto high = ParseHex(text.substr(kTraceAt, 16));
  const auto low = ParseHex(text.substr(kTraceAt + 16, 16));
  const auto span = ParseHex(text.substr(kSpanAt, 16));
  const auto flags = ParseHex(text.substr(kFlagsAt, 2));
  if (!high || !low || !span || !flags) return std::nullopt;
  if ((*high == 0 && *low == 0) || *span == 0) return std::nullopt;
  return TraceContext{
      .trace_high = *high, .trace_low = *low, .span = *span, .sampled = (*flags & 1) != 0};
}

std::string FormatTraceparent(const TraceContext& context) {
  return absl::StrCat("00-", TraceIdHex(context), "-", SpanIdHex(context.span),
                      context.sampled ? "-01" : "-00");
}

std::optional<TraceContext> ContextOfHeaders(const std::vector<std::string>& traceparents,
                                             const std::vector<std::string>& tracestates) {
  if (traceparents.size() != 1) return std::nullopt;
  std::optional<TraceContext> context = ParseTraceparent(traceparents.front());
  if (!context) return std::nullopt;
  for (const std::string& part : tracestates) {
    if (part.empty()) continue;
    if (!context->state.empty()) context->state += ',';
    context->state += part;
  }
  if (context->state.size() > kMaxStateBytes || !IsHeaderValue(context->state)) {
    context->state.clear();
  }
  return context;
}

std::string TraceIdHex(const TraceContext& context) {
  return absl::StrFormat("%016x%016x", context.trace_high, context.trace_low);
}

std::string SpanIdHex(uint64_t id) { return absl::StrFormat("%016x", id); }

bool SampledByRatio(const TraceContext& context, double ratio) {
  if (ratio >= 1) return true;
  constexpr int kBits = 63;
  const auto bound = static_cast<uint64_t>(std::ldexp(std::max(ratio, 0.0), kBits));
  return context.trace_low >> 1 < bound;
}

}  // namespace baton
