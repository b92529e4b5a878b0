#pragma once

#include <optional>

#include "common/sched/policy.h"

namespace baton {

// How many tokens earlier a job of so many tokens counts as having come:
// ln(1 / (1 - exp(-gamma * tokens))) / gamma. Short jobs get most; `gamma`, in 1/token and > 0,
// stands between shortest first (towards 0) and first come, first served (large).
//
// The boost function of Yu and Scully, "Strongly tail-optimal scheduling in the light-tailed
// M/G/1" (arXiv 2404.08826), which UniBoost (arXiv 2606.18431) uses for serving.
double BoostTokens(double tokens, double gamma);

// When `view` counts as having come, as seconds of the clock, if its job has so many tokens. A job
// of unknown length counts as one of 1 / gamma tokens, so where nobody's is known they keep the
// order in which they came.
double BoostedArrival(const SequenceView& view, std::optional<double> tokens,
                      const PolicyMoment& moment);

// Soft priority for requests of short classes, blind to what the model says of its end: by the
// length that the class leads to expect, or by what was generated where that is more. Who counts as
// having come last yields first.
extern const Policy kBoostPolicy;

}  // namespace baton
