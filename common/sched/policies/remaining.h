#pragma once

#include "common/sched/policy.h"

namespace baton {

// Shortest remaining first, softly and with few preemptions, after TRAIL (arXiv 2410.01035).
//
// Who waits starts in the order of BoostedArrival by what is expected to remain. Before them come,
// by age, those that have waited longer than PolicySettings::promote_after times the time that
// their whole answer is expected to take. One that finds no place takes that of a running one that
// is expected to go on at least kLonger times as long, unless that one
//   - was promoted, is about to end, or gave way once before, or
//   - has generated PolicySettings::preempt_until of its expected length, or
//   - holds fewer tokens than the candidate needs, or the candidate itself gave way before.
// Victims for want of blocks are chosen by work: YieldsByWork. Where nothing is known nobody
// displaces anybody and all of it is fcfs.
extern const Policy kRemainingPolicy;
inline constexpr double kLonger = 5;

// Whether it has waited for longer than its expected length is worth.
bool IsPromoted(const SequenceView& view, const PolicyMoment& moment);

}  // namespace baton
