#pragma once

#include "common/sched/policy.h"

namespace baton {

// The most KV tokens that `candidate` and those beside it are foreseen to hold at one time, all
// going on at one pace: at each moment ahead the quantile of their sum, by the chance of each to be
// still there, as if the sum were normal and they independent of each other. Of whom nothing is
// known is taken to keep what it has. O(n).
//
// The peak test of Past-Future (arXiv 2507.10150), which draws lengths from those of past requests
// that were longer than the sequence is; here each has an estimate of its own.
double ForeseenPeak(const SequenceView& candidate, const AdmissionView& view, double quantile);

// First come, first served, but who comes is let in only where the foreseen peak fits the pool.
// Where nothing is known of anybody, everybody is let in for whom there are blocks, as under fcfs.
// Victims are chosen by work: YieldsByWork.
extern const Policy kPastFuturePolicy;

}  // namespace baton
