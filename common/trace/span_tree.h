#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "common/base/clock.h"
#include "common/trace/trace_context.h"

namespace baton {

// The numbers are OTLP's.
enum class SpanKind { kInternal = 1, kServer = 2, kClient = 3 };

using AttributeValue = std::variant<bool, int64_t, double, std::string, std::vector<std::string>>;

struct SpanAttribute {
  std::string_view key;  // of a literal
  AttributeValue value;
};

struct SpanEvent {
  std::string_view name;  // of a literal
  base::Instant at;
};

// Something that took time: a request, a stage of it, a call to another process.
struct Span {
  uint64_t id = 0;
  uint64_t parent = 0;  // 0 = none: the trace begins here
  std::string name;
  SpanKind kind = SpanKind::kInternal;
  base::Instant begin{};
  base::Instant end{};
  bool open = true;
  bool failed = false;
  std::string error;  // of one that failed
  std::vector<SpanAttribute> attributes;
  std::vector<SpanEvent> events;
};

// The spans of one request in one process, all of one trace, which are exported together once it is
// over. Times are of the steady clock, and are turned into those of the calendar by one difference
// taken when the tree is made, so that its spans nest as they did. Not thread-safe.
class SpanTree final {
 public:
  // Names a span of this tree. What is done to kNone does nothing.
  using Ref = int32_t;
  static constexpr Ref kNone = -1;
  static constexpr Ref kRoot = 0;
  // A request has so many spans here at most; more are counted and left out.
  static constexpr size_t kMaxSpans = 128;
  static constexpr size_t kMaxEvents = 32;  // of each span

  // Opens the root under `parent`, which is a span of the caller, or 0 in a trace that begins here.
  SpanTree(TraceContext parent, std::string name, SpanKind kind, base::Instant at,
           const base::Clock& clock);

  Ref Open(Ref parent, std::string_view name, base::Instant at,
           SpanKind kind = SpanKind::kInternal);
  // Under a span of another process in the same trace.
  Ref OpenUnder(uint64_t parent, std::string_view name, base::Instant at, SpanKind kind);
  // The first end counts. No span ends before it began.
  void Close(Ref span, base::Instant at);
  // Closes what is open, and says how many spans were left out.
  void CloseAll(base::Instant at);

  void Set(Ref span, std::string_view key, AttributeValue value);
  void AddEvent(Ref span, std::string_view name, base::Instant at);
  // The first error counts.
  void Fail(Ref span, std::string_view error);
  void Rename(Ref span, std::string name);

  // What a call made on behalf of `span` has to carry.
  TraceContext ContextOf(Ref span) const;
  // The context of the root.
  const TraceContext& context() const { return context_; }
  const std::vector<Span>& spans() const { return spans_; }
  int64_t UnixNanos(base::Instant at) const;

 private:
  bool Has(Ref span) const { return span >= 0 && span < static_cast<Ref>(spans_.size()); }

  TraceContext context_;
  base::Instant steady_;  // the same moment on both clocks
  int64_t unix_nanos_ = 0;
  std::vector<Span> spans_;
  int64_t left_out_ = 0;
};

}  // namespace baton
