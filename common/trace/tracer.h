#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/clock.h"
#include "common/config/options.h"
#include "common/metrics/registry.h"
#include "common/trace/span_exporter.h"
#include "common/trace/span_tree.h"
#include "common/trace/trace_context.h"

namespace baton {

// Decides which requests of a process are traced, and exports their spans. A process that exports
// none has no tracer. Thread-safe, never waits.
class Tracer final {
 public:
  // Of the traces that no caller has decided about, the share `ratio` is sampled. `clock` outlives
  // this.
  Tracer(double ratio, OtlpTarget target, TraceResource resource, const base::Clock* clock,
         const ExportLimits& limits = {});

  // The spans of a call that came with `caller`, or with nothing. Null where they are not wanted:
  // the caller's flag decides, and where there is none the share.
  std::unique_ptr<SpanTree> Begin(const std::optional<TraceContext>& caller, std::string name,
                                  SpanKind kind, base::Instant at) const;
  // Takes a tree that is over, and closes what is still open in it.
  void Export(std::unique_ptr<SpanTree> tree);

  // Before the process ends: sends what waits, for `within` at most.
  void Stop(base::Duration within) { exporter_.Stop(within); }

  const SpanExporter& exporter() const { return exporter_; }
  const base::Clock& clock() const { return *clock_; }

 private:
  const double ratio_;
  const base::Clock* const clock_;
  SpanExporter exporter_;
};

// The tracer of the process `program` ("baton-router") as its flags say, with its counts among the
// metrics; null without --otlp-endpoint. The tracer outlives the registry's last scrape.
std::unique_ptr<Tracer> MakeTracer(const ServerFlags& flags, const std::string& program,
                                   double ratio, const base::Clock* clock,
                                   MetricsRegistry* registry);

// How long a process that ends waits for its last spans to be taken.
constexpr base::Duration kLastSpans = std::chrono::seconds(2);

}  // namespace baton
