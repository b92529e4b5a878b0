#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "common/base/clock.h"
#include "common/trace/otlp_client.h"
#include "common/trace/otlp_json.h"
#include "common/trace/span_tree.h"

namespace baton {

// Why a span was not exported; the label `reason` of baton_trace_spans_dropped_total.
enum class SpanDrop {
  kQueueFull,    // more waited than the queue holds
  kUnreachable,  // the collector did not answer, or had no room, for too long
  kRejected,     // it refused them for good
  kShutdown      // the process ended first
};
constexpr size_t kSpanDrops = 4;
std::string_view SpanDropName(SpanDrop reason);  // "queue_full", …

struct ExportLimits {
  size_t queue_spans = 8192;  // that wait
  size_t batch_spans = 512;   // in one post, or those of one request if they are more
  base::Duration linger = std::chrono::seconds(1);         // for a batch to fill
  base::Duration deadline = std::chrono::seconds(5);       // of each phase of a post
  base::Duration first_backoff = std::chrono::seconds(1);  // doubles with each failure
  base::Duration last_backoff = std::chrono::seconds(30);
  int attempts = 5;  // to post one batch
};

// Sends spans to a collector from a thread of its own. Whoever hands spans over takes a lock for a
// moment, once per request, and never waits: what finds no room is counted and gone. Thread-safe.
class SpanExporter final {
 public:
  SpanExporter(OtlpTarget target, TraceResource resource, const ExportLimits& limits = {});
  // Stops within no time: what waits is lost.
  ~SpanExporter();

  void Submit(std::unique_ptr<const SpanTree> tree);
  // Sends what waits, for `within` at most, and ends the thread. Only the first call does it; what
  // is submitted later is lost.
  void Stop(base::Duration within);

  int64_t exported() const;
  int64_t dropped(SpanDrop reason) const;

 private:
  class Worker;
  // Shared with the thread: one that the system's resolver keeps is left behind.
  const std::shared_ptr<Worker> worker_;
};

}  // namespace baton
