#include "common/trace/span_tree.h"

#include <algorithm>
#include <tuple>

#include "common/base/ticket.h"

namespace baton {
namespace {

// Reading two clocks takes well under a microsecond, unless the thread lost its core in between.
constexpr base::Duration kOneMoment = std::chrono::microseconds(5);
constexpr int kTries = 4;

uint64_t DrawSpanId() {
  while (true) {
    if (const uint64_t id = RandomBits(); id != 0) return id;
  }
}

std::pair<base::Instant, int64_t> SameMoment(const base::Clock& clock) {
  std::pair<base::Instant, int64_t> best;
  base::Duration narrowest = base::Duration::max();
  for (int i = 0; i < kTries && narrowest > kOneMoment; ++i) {
    const base::Instant before = clock.Now();
    const double unix_seconds = clock.UnixNow();
    const base::Duration took = clock.Now() - before;
    if (took >= narrowest) continue;
    narrowest = took;
    best = {before + took / 2, static_cast<int64_t>(unix_seconds * 1e9)};
  }
  return best;
}

}  // namespace

SpanTree::SpanTree(TraceContext parent, std::string name, SpanKind kind, base::Instant at,
                   const base::Clock& clock)
    : context_(std::move(parent)) {
  std::tie(steady_, unix_nanos_) = SameMoment(clock);
  Span root;
  root.id = DrawSpanId();
  root.parent = context_.span;
  root.name = std::move(name);
  root.kind = kind;
  root.begin = root.end = at;
  context_.span = root.id;
  spans_.reserve(8);
  spans_.push_back(std::move(root));
}

SpanTree::Ref SpanTree::Open(Ref parent, std::string_view name, base::Instant at, SpanKind kind) {
  return Has(parent) ? OpenUnder(spans_[parent].id, name, at, kind) : kNone;
}

SpanTree::Ref SpanTree::OpenUnder(uint64_t parent, std::string_view name, base::Instant at,
                                  SpanKind kind) {
  if (spans_.size() >= kMaxSpans) {
    ++left_out_;
    return kNone;
  }
  Span span;
  span.id = DrawSpanId();
  span.parent = parent;
  span.name = name;
  span.kind = kind;
  span.begin = span.end = at;
  spans_.push_back(std::move(span));
  return static_cast<Ref>(spans_.size()) - 1;
}

void SpanTree::Close(Ref span, base::Instant at) {
  if (!Has(span) || !spans_[span].open) return;
  spans_[span].end = std::max(at, spans_[span].begin);
  spans_[span].open = false;
}

void SpanTree::CloseAll(base::Instant at) {
  if (left_out_ > 0) Set(kRoot, "baton.spans_left_out", left_out_);
  for (Ref span = 0; Has(span); ++span) Close(span, at);
}

void SpanTree::Set(Ref span, std::string_view key, AttributeValue value) {
  if (!Has(span)) return;
  for (SpanAttribute& attribute : spans_[span].attributes) {
    if (attribute.key == key) {
      attribute.value = std::move(value);
      return;
    }
  }
  spans_[span].attributes.push_back({key, std::move(value)});
}

void SpanTree::AddEvent(Ref span, std::string_view name, base::Instant at) {
  if (Has(span) && spans_[span].events.size() < kMaxEvents) {
    spans_[span].events.push_back({name, at});
  }
}

void SpanTree::Fail(Ref span, std::string_view error) {
  if (!Has(span) || spans_[span].failed) return;
  spans_[span].failed = true;
  spans_[span].error = error;
}

void SpanTree::Rename(Ref span, std::string name) {
  if (Has(span)) spans_[span].name = std::move(name);
}

TraceContext SpanTree::ContextOf(Ref span) const {
  TraceContext context = context_;
  if (Has(span)) context.span = spans_[span].id;
  return context;
}

int64_t SpanTree::UnixNanos(base::Instant at) const {
  return unix_nanos_ + std::chrono::duration_cast<std::chrono::nanoseconds>(at - steady_).count();
}

}  // namespace baton
