#include "tools/sim/ahead.h"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace baton::simulator {
namespace {

// The part of a mean that the newest time has.
constexpr double kNewest = 0.05;
constexpr base::Duration kRateOver = std::chrono::seconds(1);

}  // namespace

void Ahead::NoteTime(base::Duration took) {
  handoff_s_ += kNewest * (base::Seconds(took) - handoff_s_);
}

double Ahead::EndsSoon(const VirtualWorker& worker, const SchedulerFigures& figures, Counts* counts,
                       base::Instant now) const {
  if (worker.foresees()) return worker.EndsWithin(handoff_s_);
  if (now - counts->since >= kRateOver) {
    if (counts->since != base::Instant()) {
      counts->ends_per_s =
          static_cast<double>(figures.ended - counts->ended) / base::Seconds(now - counts->since);
    }
    counts->since = now;
    counts->ended = figures.ended;
  }
  return counts->ends_per_s * handoff_s_;
}

int32_t Ahead::Places(const VirtualWorker& worker, const SchedulerFigures& figures,
                      base::Instant now) {
  if (!on()) return figures.places;
  Counts& counts = workers_[&worker];
  const int32_t here = figures.running + figures.reserved + figures.waiting;
  // As many as all prefill workers could ever compute ahead.
  if (timing_ == HandoffTiming::kAtOnce) return here + counts.prepared + 10'000;
  const int32_t spare = std::max(0, figures.places - here);
  const auto ends = static_cast<int32_t>(std::lround(EndsSoon(worker, figures, &counts, now)));
  return here + std::max(counts.prepared, spare + ends);
}

}  // namespace baton::simulator
