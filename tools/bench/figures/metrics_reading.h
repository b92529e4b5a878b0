#pragma once

#include <span>

#include "tools/bench/figures/prometheus_text.h"
#include "tools/bench/figures/server_metrics.h"

namespace baton::bench {

// Enters one metrics page, read at `now`, into what is known of a target.
void EnterPage(std::span<const MetricSample> page, base::Instant now, TargetMetrics* target);

}  // namespace baton::bench
