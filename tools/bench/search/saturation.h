#pragma once

#include <vector>

#include "tools/bench/figures/figures.h"
#include "tools/bench/load/request_record.h"

namespace baton::bench {

struct SaturationOptions {
  int batches = 12;            // of the window; means of long batches are nearly independent
  double significance = 0.01;  // one-sided, of each slope
  // A rise over the window smaller than this share of the mean is not called saturation, however
  // sure it is.
  double least_rise = 0.5;
};

// Whether load grew faster than it was served: both the requests under way and TTFT rise over the
// window, significantly and by much.
struct Saturation {
  bool saturated = false;
  bool enough_data = false;            // at least six batches with a TTFT; else never `saturated`
  double concurrency_slope_per_s = 0;  // requests under way, per second
  double ttft_slope_ms_per_s = 0;      // milliseconds per second
  double concurrency_p = 1;            // one-sided p values
  double ttft_p = 1;
};

// Batch means: the window is cut into equal spans, each gives one mean of either series, and a line
// is fitted to these. Requests that follow one another share a queue and are no independent
// witnesses; spans much longer than a busy period are.
Saturation FindSaturation(const std::vector<RequestRecord>& records, const Window& window,
                          const SaturationOptions& options = {});

}  // namespace baton::bench
