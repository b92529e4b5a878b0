#include "common/metrics/load_log.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/base/log.h"

namespace baton {
namespace {

double PerSecond(uint64_t before, uint64_t now, double seconds) {
  return static_cast<double>(now - before) / seconds;
}

std::string HitRate(const LoadTotals::Cache& before, const LoadTotals::Cache& now) {
  const uint64_t queries = now.queries - before.queries;
  if (queries == 0) return "";
  const auto hits = static_cast<double>(now.hits - before.hits);
  return absl::StrFormat(", prefix cache hit rate %.1f%%",
                         100 * hits / static_cast<double>(queries));
}

std::string Usage(const LoadTotals::Cache& cache) {
  return absl::StrFormat("; KV cache %.1f%% in use", 100 * cache.usage);
}

std::string BusyLine(const LoadTotals& before, const LoadTotals& now, double seconds) {
  std::string line = absl::StrFormat(
      "load: %d running, %d waiting; %.1f prompt and %.1f generated tokens/s", now.running,
      now.waiting, PerSecond(before.prompt_tokens, now.prompt_tokens, seconds),
      PerSecond(before.generated_tokens, now.generated_tokens, seconds));
  if (now.requests) {
    const auto base = before.requests.value_or(LoadTotals::Requests());
    absl::StrAppendFormat(&line, "; in %.1f s %d requests answered, %d failed", seconds,
                          now.requests->answered - base.answered,
                          now.requests->failed - base.failed);
  }
  if (now.cache) {
    line += Usage(*now.cache) + HitRate(before.cache.value_or(LoadTotals::Cache()), *now.cache);
  }
  return line;
}

std::string IdleLine(const LoadTotals& now) {
  std::string line = "load: idle";
  if (now.requests) {
    absl::StrAppendFormat(&line, "; %d requests answered, %d failed since the start",
                          now.requests->answered, now.requests->failed);
  }
  if (now.cache) line += Usage(*now.cache);
  return line;
}

struct Reporter {
  base::Duration interval;
  const base::Clock* clock;
  base::TimerQueue* timers;
  std::function<LoadTotals()> read;
  LoadMeter meter;
};

void Arm(const std::shared_ptr<Reporter>& reporter) {
  reporter->timers->After(reporter->interval, [reporter] {
    if (const auto line = reporter->meter.Next(reporter->read(), reporter->clock->Now())) {
      spdlog::info("{}", *line);
    }
    Arm(reporter);
  });
}

}  // namespace

bool LoadMeter::Idle(const LoadTotals& totals) const {
  return totals.running == 0 && totals.waiting == 0 &&
         totals.prompt_tokens == before_.prompt_tokens &&
         totals.generated_tokens == before_.generated_tokens && totals.requests == before_.requests;
}

std::optional<std::string> LoadMeter::Next(const LoadTotals& totals, base::Instant now) {
  const bool idle = Idle(totals);
  // A clock that stood still divides nothing by zero.
  const double seconds = std::max(1e-3, base::Seconds(now - since_));
  const LoadTotals before = std::exchange(before_, totals);
  since_ = now;
  const bool was_busy = std::exchange(was_busy_, !idle);
  if (!idle) return BusyLine(before, totals, seconds);
  if (was_busy) return IdleLine(totals);
  return std::nullopt;
}

void LogLoadEvery(base::Duration interval, const base::Clock* clock, base::TimerQueue* timers,
                  std::function<LoadTotals()> read) {
  if (interval <= base::Duration::zero()) return;
  LoadMeter meter(read(), clock->Now());
  Arm(std::make_shared<Reporter>(Reporter{.interval = interval,
                                          .clock = clock,
                                          .timers = timers,
                                          .read = std::move(read),
                                          .meter = meter}));
}

}  // namespace baton
