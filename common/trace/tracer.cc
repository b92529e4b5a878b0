#include "common/trace/tracer.h"

#include <unistd.h>

#include <array>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/base/check.h"
#include "common/base/ticket.h"
#include "common/base/version.h"
#include "common/config/http_url.h"
#include "spdlog/spdlog.h"

namespace baton {
namespace {

constexpr std::string_view kTracesPath = "/v1/traces";
constexpr std::array kDrops = {SpanDrop::kQueueFull, SpanDrop::kUnreachable, SpanDrop::kRejected,
                               SpanDrop::kShutdown};
static_assert(kDrops.size() == kSpanDrops);

TraceContext NewTrace() {
  TraceContext context;
  do {
    context.trace_high = RandomBits();
    context.trace_low = RandomBits();
  } while (context.trace_high == 0 && context.trace_low == 0);
  return context;
}

std::string HostName() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) return "";
  return name.data();
}

TraceResource ResourceOf(const std::string& program) {
  return {{"service.name", program},
          {"service.version", std::string(base::Version())},
          {"service.instance.id", absl::StrFormat("%016x", RandomBits())},
          {"host.name", HostName()},
          {"process.pid", static_cast<int64_t>(getpid())},
          {"telemetry.sdk.name", "baton"},
          {"telemetry.sdk.language", "cpp"},
          {"telemetry.sdk.version", std::string(base::Version())}};
}

// The address of a collector alone means its usual path.
OtlpTarget TargetOf(const std::string& endpoint) {
  const absl::StatusOr<HttpUrl> url = ParseHttpUrl(endpoint);
  BATON_CHECK(url.ok());  // the flag's own check took it
  return {.origin = url->origin, .path = url->path.empty() ? std::string(kTracesPath) : url->path};
}

void AddTraceMetrics(MetricsRegistry* registry, const SpanExporter* exporter) {
  prometheus::Counter* const exported = &registry->counter(Metric::kTraceSpansExported);
  std::array<prometheus::Counter*, kSpanDrops> dropped{};
  for (size_t i = 0; i < kSpanDrops; ++i) {
    dropped[i] =
        &registry->counter(Metric::kTraceSpansDropped, {std::string(SpanDropName(kDrops[i]))});
  }
  registry->OnScrape([=] {
    MetricsRegistry::AdvanceTo(exported, static_cast<double>(exporter->exported()));
    for (size_t i = 0; i < kSpanDrops; ++i) {
      MetricsRegistry::AdvanceTo(dropped[i], static_cast<double>(exporter->dropped(kDrops[i])));
    }
  });
}

}  // namespace

Tracer::Tracer(double ratio, OtlpTarget target, TraceResource resource, const base::Clock* clock,
               const ExportLimits& limits)
    : ratio_(ratio), clock_(clock), exporter_(std::move(target), std::move(resource), limits) {}

std::unique_ptr<SpanTree> Tracer::Begin(const std::optional<TraceContext>& caller, std::string name,
                                        SpanKind kind, base::Instant at) const {
  if (caller && !caller->sampled) return nullptr;
  if (!caller && ratio_ <= 0) return nullptr;
  TraceContext context = caller ? *caller : NewTrace();
  if (!caller && !SampledByRatio(context, ratio_)) return nullptr;
  context.sampled = true;
  return std::make_unique<SpanTree>(std::move(context), std::move(name), kind, at, *clock_);
}

void Tracer::Export(std::unique_ptr<SpanTree> tree) {
  tree->CloseAll(clock_->Now());
  exporter_.Submit(std::move(tree));
}

std::unique_ptr<Tracer> MakeTracer(const ServerFlags& flags, const std::string& program,
                                   double ratio, const base::Clock* clock,
                                   MetricsRegistry* registry) {
  if (flags.otlp_endpoint.empty()) return nullptr;
  OtlpTarget target = TargetOf(flags.otlp_endpoint);
  spdlog::info("traces go to {}{}", target.origin, target.path);
  auto tracer = std::make_unique<Tracer>(ratio, std::move(target), ResourceOf(program), clock);
  AddTraceMetrics(registry, &tracer->exporter());
  return tracer;
}

}  // namespace baton
