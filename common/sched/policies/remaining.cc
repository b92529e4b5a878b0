#include "common/sched/policies/remaining.h"

#include <chrono>

#include "common/sched/policies/boost.h"
#include "common/sched/policies/expectation.h"

namespace baton {
namespace {

bool StartsBefore(const SequenceView& a, const SequenceView& b, const PolicyMoment& moment) {
  const bool a_promoted = IsPromoted(a, moment), b_promoted = IsPromoted(b, moment);
  if (a_promoted != b_promoted) return a_promoted;
  if (a_promoted) return CameBefore(a, b);
  const double a_came = BoostedArrival(a, ExpectedRemaining(a), moment);
  const double b_came = BoostedArrival(b, ExpectedRemaining(b), moment);
  return a_came != b_came ? a_came < b_came : CameBefore(a, b);
}

bool Displaces(const SequenceView& candidate, const SequenceView& victim,
               const PolicyMoment& moment) {
  if (candidate.gave_way || victim.gave_way) return false;
  const auto needs = ExpectedRemaining(candidate), left = ExpectedRemaining(victim);
  if (!needs || !left || *left < kLonger * *needs) return false;
  if (IsAboutToEnd(victim) || IsPromoted(victim, moment)) return false;
  const double length = victim.generated_tokens + *left;
  return victim.generated_tokens < moment.settings.preempt_until * length &&
         TokensHeld(victim) >= TokensHeld(candidate);
}

}  // namespace

bool IsPromoted(const SequenceView& view, const PolicyMoment& moment) {
  if (!view.class_tokens) return false;
  const double lengths = double{*view.class_tokens} * moment.settings.promote_after;
  return std::chrono::duration<double>(moment.now - view.arrived) >
         lengths * std::chrono::duration<double>(moment.token_time);
}

constinit const Policy kRemainingPolicy = {
    .starts_before = StartsBefore,
    .admits = kFcfsPolicy.admits,
    .yields_before = [](const SequenceView& a, const SequenceView& b,
                        const PolicyMoment&) { return YieldsByWork(a, b); },
    .displaces = Displaces,
    .chooses = true,
    .settings = {}};

}  // namespace baton
